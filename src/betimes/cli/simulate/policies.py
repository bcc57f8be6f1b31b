"""`betimes policies`: the list of policies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from betimes.cli import options
from betimes.cli.live.jobs.completing import complete_policy
from betimes.cli.verbs import Json

if TYPE_CHECKING:
    from betimes.policies import Parameter, Policy
    from betimes.policies.nodes.hooks import NodesPolicy


def policies(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="One policy, with its parameters; or your own as FILE.py:NAME.",
            autocompletion=complete_policy,
            show_default=False,
        ),
    ] = None,
    engine: options.Engine = "auto",
    as_json: Json = False,
) -> None:
    """List the policies: the engine each is for, the question it answers, the paper it is from, its parameters.

    --engine leaves out those of the other; without it a NAME that both have is shown for each.
    """
    import sys
    from contextlib import redirect_stdout

    from betimes.foresight.engines import engine_for, homes_of, named_engine
    from betimes.outcome import to_json
    from betimes.policies import NODES_POLICIES, POLICIES, Policy, parse_nodes_policy, parse_policy

    if name is None:
        known = {"pool": list(POLICIES.values()), "nodes": list(NODES_POLICIES.values())}
        for other in _of_other_packages(known):
            known["pool" if isinstance(other, Policy) else "nodes"].append(other)
        wanted = [each for each in known if engine in ("auto", each)]
        if as_json:
            print(to_json([_described(one, one.name, each) for each in wanted for one in known[each]]))
        else:
            for each in wanted:
                _show_all(each, known[each])
            print("`betimes policies NAME` shows one.")
        return
    with redirect_stdout(sys.stderr):  # a user's file may print
        named, plain = named_engine(name)
        both = engine == "auto" and named is None
        homes = homes_of(plain) if both else (engine_for(name, engine),)
        chosen = [(each, (parse_policy if each == "pool" else parse_nodes_policy)(plain)) for each in homes]
    if as_json:
        print(to_json(_described(chosen[0][1].policy, chosen[0][1].source, chosen[0][0])))
        return
    for number, (each, one) in enumerate(chosen):
        if number:
            print()
        _show_one(one.policy, one.source, each)


def _of_other_packages(known: Mapping[str, Sequence[Policy | NodesPolicy]]) -> Iterator[Policy | NodesPolicy]:
    """The policies of other packages that can be named; those that cannot be loaded are reported."""
    from betimes import plugins
    from betimes.errors import PolicyError
    from betimes.policies.loading import installed_policy
    from betimes.printing import report

    hidden = {policy.name for policies in known.values() for policy in policies}
    for name in plugins.added(plugins.POLICIES):
        if name in hidden:
            continue
        try:
            found = installed_policy(name)
        except PolicyError as error:
            report("betimes", str(error))
        else:
            if found is not None:
                yield found


def _described(policy: Policy | NodesPolicy, name: str, engine: str) -> dict[str, Any]:
    return {
        "name": name,
        "engine": engine,
        "summary": policy.summary,
        "question": policy.question,
        "paper": policy.paper,
        "parameters": [
            {
                "name": parameter.name,
                "default": _default(parameter),
                "meaning": parameter.help,
                "values": _values(parameter),
            }
            for parameter in policy.parameters
        ],
    }


def _show_all(engine: str, all_policies: Sequence[Policy | NodesPolicy]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    what = {"pool": "On a pool (elastic jobs, identical units)", "nodes": "On nodes (tasks, demands)"}
    table = Table(
        title=what[engine], title_justify="left", title_style="", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.add_column("Policy", no_wrap=True)
    table.add_column("Question it answers", ratio=5)
    table.add_column("Paper", ratio=4)
    table.add_column("Parameters", ratio=3)
    for policy in all_policies:
        names = ", ".join(parameter.name for parameter in policy.parameters)
        table.add_row(policy.name, policy.question, policy.paper, names or "none")
    console = Console(highlight=False)
    with console.capture() as capture:
        console.print(table)
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))


def _show_one(policy: Policy | NodesPolicy, name: str, engine: str) -> None:
    print(f"{name} (on {'a pool' if engine == 'pool' else 'nodes'}): {policy.summary}")
    if policy.question:
        print(policy.question)
    if policy.paper:
        print(f"Source: {policy.paper}")
    if not policy.parameters:
        print("\nIt has no parameters.")
        return
    print("\nParameters, as in", f"{name}:{policy.parameters[0].name}=...")
    width = max(12, *(len(parameter.name) + 2 for parameter in policy.parameters))
    for parameter in policy.parameters:
        default = _default(parameter)
        print(f"  {parameter.name:<{width}}{parameter.help}")
        print(f"  {'':<{width}}{_values(parameter)}; default {'none' if default is None else default}")


def _default(parameter: Parameter) -> Any:
    default = parameter.default
    if isinstance(default, tuple):
        return "+".join(str(part) for part in default)
    if isinstance(default, float) and default.is_integer():
        return int(default)
    return default


def _values(parameter: Parameter) -> str:
    import math

    if parameter.choices:
        return "one of " + ", ".join(parameter.choices)
    if parameter.is_text:
        return "text"
    bounds = [f"from {parameter.low:g}"] if parameter.low > -math.inf else []
    bounds += [f"to {parameter.high:g}"] if parameter.high < math.inf else []
    return " ".join(["numbers joined by +" if parameter.is_list else "a number", *bounds])
