"""Every list that is declared once, in the order of the document."""

from __future__ import annotations

from typing import Any

from betimes.service.views.groups import GROUPS
from betimes.service.views.listing import Listing
from betimes.service.views.maintenance import MAINTENANCE
from betimes.service.views.queues import QUEUES

LISTS: tuple[Listing[Any], ...] = (QUEUES, MAINTENANCE, GROUPS)
