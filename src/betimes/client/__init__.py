"""The Python client of the live service, for programs that wait (`Client`) and for those that do not (`AsyncClient`).

What they ask and understand is written once (`calls`, `protocol`); they differ in how bytes are moved and time passes.
The command line has a third (`plain`), which needs the standard library alone.
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
