"""The API's views of searches, of the latest front, and of advice. They need models of most of Betimes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from betimes.foresight.advice import Advice
from betimes.foresight.tuning import Baseline, Front
from betimes.service.views.models import AdviceSpec, Reason, TuneSpec, View


class SearchView(View):
    """A search that is going on."""

    spec: TuneSpec
    reason: Reason
    begun_at: float
    doing: Literal["starting", "searching", "judging"] = "starting"
    done: int = 0
    of: int = 0
    front: int = Field(default=0, description="points on the front so far")
    hypervolume: float | None = None
    note: str | None = Field(default=None, description="what is to be known of its front beforehand")
    stopping: bool = Field(default=False, description="it has been asked to end with the front so far")


class TuningView(View):
    """The search that is going on, if there is one, and the latest front."""

    search: SearchView | None = None
    problem: str | None = Field(default=None, description="why the last search brought no front")
    at: float | None = Field(default=None, description="when the front was found; null: there is none")
    reason: Reason | None = Field(default=None, description="why it was searched for")
    front: Front | None = None
    in_force: Baseline | None = Field(
        default=None, description="the policy in force on the front's jobs; null: it was not tried on them"
    )


class AdvisingView(View):
    """Advice that is being worked out."""

    spec: AdviceSpec
    begun_at: float
    done: int = Field(default=0, description="policies")
    of: int = 0


class AdviceView(View):
    """The advice that is being worked out, if any is, and the latest."""

    going: AdvisingView | None = None
    problem: str | None = Field(default=None, description="why the last question brought no advice")
    at: float | None = Field(default=None, description="when the latest was asked for; null: none was")
    advice: Advice | None = None
