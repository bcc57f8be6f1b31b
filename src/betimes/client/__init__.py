"""The Python client of the live service, for programs that wait (`Client`) and for those that do not (`AsyncClient`).

What they ask and understand is written once (`calls`, `talks`); the two differ in how bytes are moved and time passes.
"""

from betimes.client.asynchronous import AsyncClient
from betimes.client.synchronous import Client
from betimes.service.spec.job_spec import JobSpec

__all__ = ["AsyncClient", "Client", "JobSpec"]
