"""`betimes policies`: what there is to choose from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from betimes.cli import options

if TYPE_CHECKING:
    from betimes.policies import Parameter, Policy


def policies(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="One policy, with its parameters; or your own as FILE.py:NAME.",
            autocompletion=options.complete_policy,
            show_default=False,
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """List the policies: the question that each answers, the paper it is from, its parameters."""
    import sys
    from contextlib import redirect_stdout

    from betimes.outcome import to_json
    from betimes.policies import POLICIES, parse_policy

    if name is None:
        if as_json:
            print(to_json([_described(policy, policy.name) for policy in POLICIES.values()]))
        else:
            _show_all(list(POLICIES.values()))
        return
    with redirect_stdout(sys.stderr):  # a user's file may print
        chosen = parse_policy(name)
    if as_json:
        print(to_json(_described(chosen.policy, chosen.source)))
    else:
        _show_one(chosen.policy, chosen.source)


def _described(policy: Policy, name: str) -> dict[str, Any]:
    return {
        "name": name,
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


def _show_all(all_policies: list[Policy]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
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
    print("`betimes policies NAME` says more of one.")


def _show_one(policy: Policy, name: str) -> None:
    print(f"{name}: {policy.summary}")
    if policy.question:
        print(policy.question)
    if policy.paper:
        print(f"Source: {policy.paper}")
    if not policy.parameters:
        print("\nIt has no parameters.")
        return
    print("\nParameters, as in", f"{name}:{policy.parameters[0].name}=...")
    for parameter in policy.parameters:
        default = _default(parameter)
        print(f"  {parameter.name:<12}{parameter.help}")
        print(f"  {'':<12}{_values(parameter)}; default {'none' if default is None else default}")


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
    bounds = [f"from {parameter.low:g}"] if parameter.low > -math.inf else []
    bounds += [f"to {parameter.high:g}"] if parameter.high < math.inf else []
    return " ".join(["numbers joined by +" if parameter.is_list else "a number", *bounds])
