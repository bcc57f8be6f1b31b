"""The Python client of the live service, for programs that wait (`Client`) and for those that do not (`AsyncClient`).

`AsyncClient` is written by hand; `make client` generates `Client` from it. The command line's `PlainClient` (`plain`)
needs only the standard library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from betimes.lazy import lazy_names

if TYPE_CHECKING:
    from betimes.client.asynchronous import AsyncClient
    from betimes.client.synchronous import Client
    from betimes.service.spec.job_spec import JobSpec

__all__ = ["AsyncClient", "Client", "JobSpec"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "AsyncClient": "betimes.client.asynchronous",
        "Client": "betimes.client.synchronous",
        "JobSpec": "betimes.service.spec.job_spec",
    },
)
