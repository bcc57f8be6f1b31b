"""Jobs are taken: one, each element of an array, or an array as one job with trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from betimes.cluster.labels import bits_for
from betimes.errors import ClusterError, Refused, Unknown
from betimes.service.engines.named_policies import heeds_labels
from betimes.service.scheduling.decisions.policy_engine import PolicyEngine
from betimes.service.scheduling.jobs import reasons
from betimes.service.scheduling.jobs.admission import can_be_rented, check_possible
from betimes.service.scheduling.jobs.job_lifecycle import JobLifecycle
from betimes.service.scheduling.jobs.spending import Spending, rented_usd
from betimes.service.scheduling.state import SchedulerState
from betimes.service.scheduling.trials.trial_set import TrialSet, full_run_s, set_spec, trial_spec
from betimes.service.spec.job_spec import JobSpec, parse_after, parse_array


class Submission:
    """Turns specifications into jobs of the ledger."""

    def __init__(
        self, state: SchedulerState, engine: PolicyEngine, jobs: JobLifecycle, spending: Spending
    ) -> None:
        self._state, self._engine, self._jobs, self._spending = state, engine, jobs, spending

    def check(self, spec: JobSpec, user: str) -> None:
        """Raise Refused or Unknown for a job that this user cannot have taken."""
        ledger = self._state.ledger
        if spec.rent == "now" and self._engine.offers_for_jobs:
            self._check_budget(spec, user)
        engine = self._engine
        if spec.require:
            self.check_labels([spec])
        check_possible(
            spec, ledger.nodes, engine.kind or "pool", engine.offers_for_jobs, engine.shared_offers
        )
        for after in spec.after:
            number, _ = parse_after(after)
            if number not in ledger.jobs and self._state.ended_as(number) is None:
                raise Unknown(
                    f"after: there is no job {number}; a job waits for one that was submitted before it"
                )

    def check_labels(self, specs: Sequence[JobSpec]) -> None:
        """Raise Refused for labels that jobs require under a policy that heeds none, or too many different ones."""
        jobs, policy = self._state.ledger.jobs, self._state.ledger.policy
        required = [spec.required for spec in specs if spec.require]
        if not required:
            return
        if not heeds_labels(policy):
            raise Refused(
                f"policy {policy} does not choose nodes by their labels; leave it out, or put a policy for nodes that "
                "places jobs itself in force (`betimes policy set nodes:fifo`)",
                "require",
            )
        try:
            bits_for([*(jobs[number].spec.required for number in self._state.job_index.requiring), *required])
        except ClusterError as error:
            raise Refused(f"{error}; require fewer, or wait for jobs to end", "require") from None

    def submit(self, spec: JobSpec, user: str) -> list[int]:
        """Take a job, or an array of them; returns the numbers. Raises Refused, Unknown."""
        self.check(spec, user)
        return self.accept(spec, user)

    def accept(self, spec: JobSpec, user: str) -> list[int]:
        """Take a job that `check` has been passed by."""
        return self._submit_set(spec, user) if spec.as_one else self._submit_each(spec, user)

    def _submit_each(self, spec: JobSpec, user: str) -> list[int]:
        ledger = self._state.ledger
        indices, most = parse_array(spec.array) if spec.array else ([None], 0)
        first = ledger.next_job
        believed = ledger.runtime_estimates.believed(user, spec)
        text = _text(spec.model_copy(update={"array": None}) if spec.array else spec)
        numbers: list[int] = []
        follows = self._follows(spec)
        for at, index in enumerate(indices):
            number = ledger.next_job
            data: dict[str, Any] = {
                "spec": text,
                "user": user,
                "believed_s": believed.seconds,
                "basis": believed.basis,
            }
            if spec.array:
                data |= {"array_id": first, "array_index": index, "array_most": most}
            if follows is not None:
                data["reason"] = reasons.after(follows)
            elif most and at >= most:
                data["reason"] = reasons.array(first, most)
            job = self._state.log("submitted", f"user:{user}", number, **data)
            numbers.append(number)
            if spec.hold and job is not None:
                self._state.log("held", f"user:{user}", number, reason=reasons.by_user(user))
        for number in numbers:
            self._jobs.admit(ledger.jobs[number])
        return numbers

    def _submit_set(self, spec: JobSpec, user: str) -> list[int]:
        """Take an array as one job; its trials have the numbers that follow."""
        ledger = self._state.ledger
        number, whole = ledger.next_job, set_spec(spec)
        believed = ledger.runtime_estimates.believed(user, spec)
        indices, _ = parse_array(spec.array or "")
        common: dict[str, Any] = {"user": user, "basis": believed.basis, "array_id": number}
        trials = TrialSet(len(indices), believed.seconds, whole.max_units, whole.max_units)
        data: dict[str, Any] = {
            **common,
            "spec": _text(whole),
            "believed_s": full_run_s(believed.seconds, spec),
            "trials": asdict(trials),
        }
        follows = self._follows(spec)
        if follows is not None:
            data["reason"] = reasons.after(follows)
        job = self._state.log("submitted", f"user:{user}", number, **data)
        each = {**common, "spec": _text(trial_spec(spec)), "believed_s": believed.seconds, "set_id": number}
        for index in indices:
            self._state.log("submitted", f"user:{user}", ledger.next_job, **each, array_index=index)
        for trial in range(number + 1, ledger.next_job):
            self._jobs.admit(ledger.jobs[trial])
        if spec.hold:
            self._state.log("held", f"user:{user}", number, reason=reasons.by_user(user))
        elif job is not None:
            self._jobs.admit(job)
        return [number]

    def _check_budget(self, spec: JobSpec, user: str) -> None:
        """Raise Refused for a job that asks for a machine of its own, which its user's budget does not allow for."""
        run_s = self._state.ledger.runtime_estimates.believed(user, spec).seconds
        holding = [offer for offer in self._engine.offers_for_jobs or () if can_be_rented(spec, [offer])]
        usd = min((rented_usd(spec, offer, run_s) for offer in holding), default=0.0)
        short = self._spending.over_budget(user, usd)
        if short is not None:
            raise Refused(f"{short['text']}; leave it out, or ask for a larger budget", "rent")

    def _follows(self, spec: JobSpec) -> int | None:
        """The first of the jobs that it waits for which is not over."""
        return next((n for n, _ in map(parse_after, spec.after) if self._state.ended_as(n) is None), None)


def _text(spec: JobSpec) -> dict[str, Any]:
    return spec.model_dump(mode="json", exclude_defaults=True)
