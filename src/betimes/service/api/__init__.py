"""The HTTP API, versioned under /api/v1."""

from betimes.service.api.app import create_app
from betimes.service.api.limits import Limits

__all__ = ["Limits", "create_app"]
