"""Examples of bodies and answers, made of the models themselves, so that they cannot go out of date."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from betimes.foresight.advice import Advice, LeftOut, Row, Worth
from betimes.service.api.models import (
    JobList,
    NodeList,
    SubmittedBatch,
    TokenList,
    UserList,
)
from betimes.service.scheduling.job_states import Status
from betimes.service.spec.job_spec import JobSpec
from betimes.service.spec.users import UserLimits
from betimes.service.tuning.view import AdviceView, AdvisingView, SearchView, TuningView
from betimes.service.views.models import (
    AccuracyFigures,
    AccuracyGroup,
    AccuracyView,
    AdviceSpec,
    CurvePoint,
    CurvesView,
    EfficiencyView,
    Estimate,
    EventView,
    FleetMachine,
    FleetMove,
    FleetPlanView,
    FleetReconfiguration,
    FleetStep,
    FleetView,
    Health,
    HeldView,
    Help,
    HelpsView,
    JobStory,
    JobView,
    Lease,
    Me,
    NewToken,
    NodeView,
    Page,
    PlaceView,
    PolicyView,
    PortfolioView,
    Quote,
    Reason,
    RunView,
    SelectionView,
    SpentView,
    Submitted,
    TokenView,
    TuneSpec,
    UploadLimits,
    UploadView,
    UsageFigures,
    UsageGroup,
    UsageView,
    UserView,
    WhatIfJob,
    WhatIfSpec,
    WhatIfSums,
    WhatIfView,
)

_NOON = 1_767_268_800.0  # 2026-01-01 12:00 UTC

SPEC = JobSpec(command=["python", "train.py"], gpu=1, min_units=1, max_units=4, estimate_s=7200)
REASON = Reason(
    code="no-room",
    text="needs 2 GPUs; expected 2026-01-01T12:05:00Z, when job 41 ends",
    evidence={"missing": 2, "resource": "GPU", "about_at": _NOON + 300, "jobs_ending": [41]},
)
QUOTE = Quote(
    quote_id=7, job_id=42, made_at=_NOON, policy="srsf", start_at=_NOON + 300, finish_at=_NOON + 7500, run_s=7200,
    basis="estimate", reason=REASON,
)  # fmt: skip
_FIGURES = AccuracyFigures(
    promises=120, kept=79, early=9, late=12, cover_frac=0.79, level=0.8, width_p50_frac=0.4, score=1.1,
    err_mean_frac=0.3, err_p50_frac=0.12, err_p90_frac=0.7, err_p99_frac=2.5, bias_mean_frac=0.05, bias_p50_frac=0.0,
    err_p50_s=420, bias_mean_s=60, within_1min_frac=0.3, within_10min_frac=0.8, off_twice_frac=0.1, far_late_frac=0.02,
    far_early_frac=0.01,
)  # fmt: skip
ACCURACY = AccuracyView(
    since_at=_NOON - 604_800, until_at=_NOON, level=0.8, first=_FIGURES, latest=_FIGURES, estimate=_FIGURES,
    ratio=_FIGURES, by="user", groups=[AccuracyGroup(name="ada", figures=_FIGURES)],
)  # fmt: skip
_USED = UsageFigures(
    jobs=120, unit_h=310.5, core_h=1242, gpu_h=310.5, cost_usd=186.3, rented_usd=12.4, mean_wait_s=540
)
USAGE = UsageView(
    since_at=_NOON - 604_800,
    until_at=_NOON,
    by="user",
    total=_USED.model_copy(update={"cost_usd": 187.9, "rented_usd": 14.0}),
    unused_usd=1.6,
    groups=[UsageGroup(name="ada", figures=_USED)],
)
EFFICIENCY = EfficiencyView(
    job_id=41, jobs=1, runs=1, run_s=7200, core_asked_s=57_600, core_used_s=14_400, memory_asked_gib=16,
    memory_used_gib=3.1, gpu_asked_s=0, longest_run_s=7200, time_limit_s=None, advice=["--cpu 3", "--memory 3.75GiB"],
    notes=[],
)  # fmt: skip
CURVES = CurvesView(
    job_id=41, run=1, started_at=_NOON, points=[
        CurvePoint(at=_NOON + 2, cores=1.2, memory_gib=0.8), CurvePoint(at=_NOON + 4, cores=3.6, memory_gib=3.1),
    ], cores_asked=8, memory_asked_gib=16, cores_mean=2.4, memory_most_gib=3.1, not_measured=None,
)  # fmt: skip
WHAT_IF = WhatIfView(made_at=_NOON, jobs=[WhatIfJob(
    job_id=42, name="train.py", user="ada", start_before_at=_NOON + 300, finish_before_at=_NOON + 7500,
    start_at=_NOON, finish_at=_NOON + 7200,
)], before=WhatIfSums(
    jobs=1, arrivals=0, never=0, mean_jct_s=7560, p99_jct_s=7560, mean_wait_s=360, cost_usd=4.2,
), after=WhatIfSums(
    jobs=1, arrivals=0, never=0, mean_jct_s=7260, p99_jct_s=7260, mean_wait_s=60, cost_usd=4.03,
))  # fmt: skip
HELPS = HelpsView(made_at=_NOON, start_at=_NOON + 300, finish_at=_NOON + 7500, helps=[Help(
    text="one more node of type big", change=WhatIfSpec(add_nodes={"big": 1}), start_at=_NOON,
    finish_at=_NOON + 7200, earlier_s=300,
)], not_tried=["cancelling job 41"])  # fmt: skip
SUBMITTED = Submitted(job_id=42, job_ids=[42], quote=QUOTE)
JOB = JobView(
    job_id=42, name="train.py", user="ada", status=Status.QUEUED, qos="best-effort", units=0, min_units=1, max_units=4,
    submitted_at=_NOON, reason=REASON, promised_finish_at=_NOON + 7500,
    estimate=Estimate(as_of_at=_NOON, start_at=_NOON + 300, finish_at=_NOON + 7500, basis="estimate"),
)  # fmt: skip
EVENT = EventView(event_id=107, at=_NOON, kind="submitted", cause="user:ada", job_id=42)
RUN = RunView(number=1, units=2, places=[PlaceView(node="here", units=2)], started_at=_NOON + 300, ran_s=60.0)
STORY = JobStory(job=JOB, spec=SPEC, runs=[RUN], quotes=[QUOTE], events=[EVENT])
NODE = NodeView(
    name="here", kind="local", status="up", cpu=16, memory_gib=64, gpu=2, free_cpu=12, free_memory_gib=48, free_gpu=0,
    last_seen_at=_NOON, jobs=[40, 41],
)  # fmt: skip
LEASE = Lease(node="gpu-3", lease_s=30, until_at=_NOON + 30)
POLICY = PolicyView(policy="srsf", engine="pool", since_at=_NOON)
PORTFOLIO = PortfolioView(
    policy="portfolio:period=8", member="odb/unicef/best", selections=[SelectionView(
        event_id=107, at=_NOON, from_at=_NOON, member="odb/unicef/best", before="oda/fifo/first", in_force=True,
        waiting=12, score=41.5, scores={"oda/fifo/first": 38.2, "odb/unicef/best": 41.5}, slowdown=1.7, machine_s=7200,
        took_s=0.02, finished=3, slowdown_since=1.6,
    )],
)  # fmt: skip
FLEET = FleetView(
    policy="eva", machines=[FleetMachine(
        name="c4-0", type="c4", status="up", usd_per_h=0.2, rented_at=_NOON, jobs=[3, 5],
        why="by eva, for all jobs", paid_until_at=_NOON + 600, cost_usd=0.03,
    )], usd_per_h=0.2, no_packing_usd_per_h=0.3, saving_usd_per_h=0.1, today_usd=0.5, month_usd=2.0, moves=[FleetMove(
        job=5, decided_at=_NOON, expected_saving_usd_per_h=0.1, expected_cost_usd=0.004,
    )], reconfiguration=FleetReconfiguration(
        decided_at=_NOON, jobs=[3, 5], ended=2, rented=1, expected_saving_usd_per_h=0.15, expected_cost_usd=0.007,
    ),
)  # fmt: skip
FLEET_PLAN = FleetPlanView(
    policy="eva", at=_NOON + 300, steps=[
        FleetStep(kind="migrate", job=5, machine="c4-0", reason="c2-0 can then be given back; it leaves c2-0 at once; "
                  "this move saves $0.1 an hour, for $0.004"),
        FleetStep(kind="release", machine="c2-0", reason="once job 5 has left: saves $0.1 an hour"),
    ], usd_per_h_change=-0.1, moves_usd=0.004,
)  # fmt: skip
ASKED = Reason(code="asked", text="asked for by ada")
SEARCH = SearchView(
    spec=TuneSpec(objectives=["jct:avg", "pred_err:p99"]), reason=ASKED, begun_at=_NOON, doing="searching", done=350,
    of=1000, front=12, hypervolume=0.83,
)  # fmt: skip
ADVISING = AdviceView(going=AdvisingView(spec=AdviceSpec(), begun_at=_NOON, done=3, of=9))
ADVICE = AdviceView(
    at=_NOON, advice=Advice(
        workload="the last 812 jobs", jobs=774, warm_up=38, span_s=604_800, in_force="nodes:fifo", by_user=True, rows=(
            Row(policy="nodes:fifo", engine="nodes", in_force=True, against={}, preemptions=0, seconds=1.2, figures={
                "wait_s": 5400, "slowdown": 31.5, "worst_off": 88, "kept_frac": 0.8, "off_frac": 0.4, "cost_usd": None,
            }),
            Row(policy="easy", engine="nodes", in_force=False, preemptions=0, seconds=1.3, figures={
                "wait_s": 1800, "slowdown": 9.5, "worst_off": 30, "kept_frac": 0.8, "off_frac": 0.41, "cost_usd": None,
            }, against={"wait_s": "better", "slowdown": "better", "worst_off": "better", "off_frac": "equal"}),
        ), worth=(Worth(
            policy="easy", purposes=("balanced", "shortest waits"), worse=(),
            better=("wait_s", "slowdown", "worst_off"),
        ),), left_out=(LeftOut(policies=("eva",), why="no machines are on offer"),),
    ),
)  # fmt: skip
SEARCHING, TUNING = TuningView(search=SEARCH), TuningView(search=SEARCH)
HEALTH = Health(
    ready=True, version="0.1.0", uptime_s=3600, recovery_s=0.4, replayed_events=1200, jobs_active=12
)
JOBS = Page[JobView](items=[JOB], following=None)
EVENTS = Page[EventView](items=[EVENT], following=107)
UPLOAD = UploadView(
    sha256="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", archive_bytes=104_312
)
UPLOAD_LIMITS = UploadLimits(most_bytes=100 << 20, most_files=100_000)
BATCH = SubmittedBatch(jobs=[SUBMITTED])
JOB_LIST = JobList(jobs=[JOB])
NODE_LIST = NodeList(nodes=[NODE])
USER = UserView(
    name="ada", weight=2.0, limits=UserLimits(max_running_jobs=40, max_units=64),
    held=HeldView(running_jobs=3, units=12), spent=(SpentView(period="day", spent_usd=1.2, budget_usd=5.0),),
)  # fmt: skip
_TOKEN = TokenView(
    user="ada", name="laptop", made_at=_NOON, expires_at=_NOON + 7_776_000, used_at=None, revoked_at=None
)  # fmt: skip
TOKEN_LIST = TokenList(tokens=[_TOKEN])
NEW_TOKEN = NewToken(token="lY3r...", kept=_TOKEN)
ME = Me(user="ada", role="user")
USER_LIST = UserList(users=[USER])


def shown(example: BaseModel, description: str) -> dict[str, Any]:
    """A successful response with its example, for `responses`."""
    content = {"application/json": {"example": example.model_dump(mode="json")}}
    return {"description": description, "content": content}
