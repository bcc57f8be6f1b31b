"""Compiling the kernels, which takes a while once for each version and machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from betimes.cli.render.progress import Display
    from betimes.foresight.engines import AnyChosen
    from betimes.processes import Do, Say

NOTICED_S = 1.0
"""Parts that take longer were compiled; others came from the cache."""

Parts = dict[str, Callable[[], Any]]
Told = Callable[[str, float], object]


def compile_kernels(
    policies: Mapping[str, AnyChosen], predict: bool, display: Display, report: Told | None = None
) -> dict[str, float]:
    """Compile or load the kernels of simulations under these policies, each on its engine.

    report: called with each part and its seconds. Returns the seconds that one simulation under a policy had to wait
    for its parts, by the names in `policies`.
    """
    from betimes.policies import Policy

    took: dict[str, float] = {}
    for kind in (True, False):
        named = {
            name: policy for name, policy in policies.items() if isinstance(policy.policy, Policy) == kind
        }
        if chosen := list(named.values()):
            shared = _compiled(_of_pool(predict) if kind else _of_nodes(predict), display, report)
            hooks: Parts = {_named(policy): _hooks(policy) for policy in chosen}
            hooks |= _of_planners(chosen) | _of_portfolios(chosen)
            own = _compiled(hooks, display, report)
            took |= {name: sum(shared.values()) + own[_named(policy)] for name, policy in named.items()}
    return took


def compile_closed_loop(display: Display, report: Told | None = None) -> float:
    """Compile or load the kernels that keep a load on nodes; returns the seconds it took."""
    from betimes.policies import parse_nodes_policy
    from betimes.twin.nodes.closed_loop import run_loaded

    parts: Parts = {"the closed loop on nodes": run_loaded.load}
    fifo = parse_nodes_policy("fifo")
    parts[_named(fifo)] = _hooks(fifo)
    return sum(_compiled(parts, display, report).values())


def compile_all(display: Display, report: Told) -> None:
    """Compile or load all kernels of Betimes; those of nodes and of pools in parallel, given two processors."""
    from betimes.processes import Processes, cpus

    if cpus() == 1:
        for half in (_all_of_nodes, _all_of_pools):
            half(display, report)
        return
    with Processes(_compiling_half, (), 2) as workers:
        labels = ("compiling for nodes", "compiling for pools")
        for label in labels:
            display.expect(label, None)
        halves = (_all_of_nodes, _all_of_pools)
        for number, _ in workers.answers(halves, heard=lambda _, part: report(*part)):
            display.finish(labels[number])


def _compiling_half() -> Do:
    from betimes.cli.render.progress import Display

    def compile_half(half: Callable[[Display, Told], None], say: Say) -> None:
        half(Display(), lambda name, seconds: say((name, seconds)))

    return compile_half


def _all_of_pools(display: Display, report: Told) -> None:
    from betimes.policies import POLICIES, parse_policy

    policies = {name: parse_policy(name) for name in POLICIES}
    compile_kernels(policies, True, display, report)
    _compiled(
        {"the service on a pool": _of_service(f"pool:{policy}" for policy in policies)}, display, report
    )


def _all_of_nodes(display: Display, report: Told) -> None:
    from betimes.policies import NODES_POLICIES, parse_nodes_policy
    from betimes.policies.nodes.placement import RULES

    named = [*NODES_POLICIES, *(f"fifo:placement={rule}" for rule in RULES)]
    policies = {name: parse_nodes_policy(name) for name in named}
    compile_kernels(policies, True, display, report)
    compile_closed_loop(display, report)
    _compiled(
        {"the service on nodes": _of_service(f"nodes:{policy}" for policy in policies)}, display, report
    )


def _of_pool(predict: bool) -> Parts:
    from betimes.foresight.predict import run_rows_predicting
    from betimes.twin.pool.trace_loop import run_rows

    return {"the event loop": run_rows.load} | (
        {"the predictions": run_rows_predicting.load} if predict else {}
    )


def _of_nodes(predict: bool) -> Parts:
    from betimes.foresight.nodes.predict import run_rows_predicting
    from betimes.twin.nodes.trace_loop import run_rows

    parts: Parts = {"the event loop on nodes": run_rows.load}
    return parts | ({"the predictions on nodes": run_rows_predicting.load} if predict else {})


def _of_planners(chosen: Sequence[AnyChosen]) -> Parts:
    from betimes.twin.nodes.planner_rounds import ENTRIES

    if all(getattr(policy.policy, "planner", None) is None for policy in chosen):
        return {}
    return {"the rounds of planners": lambda: [each.load() for each in ENTRIES]}


def _of_portfolios(chosen: Sequence[AnyChosen]) -> Parts:
    from betimes.foresight.portfolio.lookahead import ENTRIES
    from betimes.policies.nodes.families import compiled_hooks

    if all(getattr(policy.policy, "members", None) is None for policy in chosen):
        return {}
    return {"the selection of a portfolio": lambda: [compiled_hooks(), *(each.load() for each in ENTRIES)]}


def _of_service(policies: Iterable[str]) -> Callable[[], Any]:
    from betimes.service.engines.named_policies import compile_policy

    return lambda: [compile_policy(policy) for policy in policies]


def _hooks(policy: AnyChosen) -> Callable[[], Any]:
    from betimes.policies import Policy

    chosen, values = policy.policy, policy.values
    return chosen.rules if isinstance(chosen, Policy) else lambda: chosen.rules(values)


def _named(policy: AnyChosen) -> str:
    from betimes.policies import Policy

    return f"policy {policy}" + ("" if isinstance(policy.policy, Policy) else " on nodes")


def _compiled(parts: Parts, display: Display, report: Told | None) -> dict[str, float]:
    """Make every part; returns the seconds each took."""
    took: dict[str, float] = {}
    for name, make in parts.items():
        started = time.perf_counter()
        label = f"compiling {name}"
        display.expect(label, None)
        make()
        display.finish(label)
        took[name] = time.perf_counter() - started
        if report is not None:
            report(name, took[name])
    return took
