"""Lists that the service shows as they are now: one declaration of each, from which its route and document follow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from betimes.service.views.models import View

if TYPE_CHECKING:  # it takes a second to import, which clients do not have
    from betimes.service.scheduling.scheduler import Scheduler

R = TypeVar("R", bound=View)


@dataclass(frozen=True)
class Listing(Generic[R]):
    """A list: `GET /api/v1/NAME` answers `{NAME: [ROW, ...]}` to all who may see the service.

    `about` says in the document what is listed, `answer` what the answer has.
    """

    name: str
    row: type[R]
    read: Callable[[Scheduler, float], list[R]]  # the rows as of an instant
    about: str
    answer: str
    example: R
    tag: Literal["cluster", "users"] = "cluster"
    is_of: Callable[[R, str], bool] | None = None
    """Whether a row is shown to a user who does not operate the service; null: each is."""
