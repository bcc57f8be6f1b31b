"""The verbs put together."""

from __future__ import annotations

from typing import Annotated

import typer

from betimes import __version__
from betimes.cli import warm
from betimes.cli.live import demo, doctor, events, up
from betimes.cli.live.jobs import control, job, jobs, logs, submit
from betimes.cli.live.jobs import wait as waiting
from betimes.cli.live.machines import fleet, nodes
from betimes.cli.live.policy import policy, portfolio
from betimes.cli.simulate import compare, learn_waits, policies, reproduce, simulate, size_fleet, trace, tune

app = typer.Typer(
    name="betimes",
    help="A batch scheduler that looks ahead: schedules for real traces, and promised completion times.",
    epilog="Every verb takes --json, and exits with 2 and one line on standard error where its input is wrong.",
    rich_markup_mode=None,  # Rich would cost half of the start-up
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"betimes {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def betimes(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 (its callback acts)
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """A batch scheduler that looks ahead: schedules for real traces, and promised completion times."""
    if context.invoked_subcommand is None:
        print(context.get_help())


app.command("up", short_help="Start the service: run jobs on this machine.")(up.up)
app.command("demo", short_help="See a service run three jobs, and go on with it.")(demo.demo)
app.command("submit", short_help="Submit a command or a file of jobs.", cls=submit.CommandAfterDashes)(
    submit.submit
)
app.command("quote", short_help="Ask when a job would be done.", cls=submit.CommandAfterDashes)(submit.quote)
app.command("jobs", short_help="List jobs.")(jobs.jobs)
app.command("job", short_help="Tell the story of a job.")(job.job)
app.command("logs", short_help="Print what a job has printed.")(logs.logs)
app.command("wait", short_help="Wait until jobs are over.")(waiting.wait)
app.command("cancel", short_help="Cancel jobs.")(control.cancel)
app.command("hold", short_help="Keep waiting jobs from starting.")(control.hold)
app.command("release", short_help="Let held jobs start again.")(control.release)
app.add_typer(nodes.verbs, name="nodes")
app.add_typer(policy.verbs, name="policy")
app.add_typer(fleet.verbs, name="fleet")
app.command("portfolio", short_help="Show what a portfolio has chosen, and what came of it.")(
    portfolio.portfolio
)
app.command("events", short_help="Print what happened and what was decided.")(events.events)
app.command("doctor", short_help="Check a Ray cluster that is to run jobs.")(doctor.doctor)
app.command("simulate", short_help="Run a workload under a policy.")(simulate.simulate)
app.command("compare", short_help="Run a workload under several policies, side by side.")(compare.compare)
app.command("tune", short_help="Find the configurations of wfq that are worth having.")(tune.tune)
app.command("learn-waits", short_help="Learn how long jobs wait for owned machines.")(learn_waits.learn_waits)
app.command("size-fleet", short_help="Find how many machines to own when more can be rented.")(
    size_fleet.size_fleet
)
app.command("policies", short_help="List the policies, or show one.")(policies.policies)
app.command("reproduce", short_help="Run a published experiment again.")(reproduce.reproduce)
app.command("warm", short_help="Compile the kernels ahead of their first use.")(warm.warm)
app.add_typer(trace.verbs, name="trace")
