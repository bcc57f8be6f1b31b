"""Write the reference pages from what the code declares: ``python -m tools.reference`` (``make docs``).

A page is a function that returns Markdown; `PAGES` lists them. Files that begin with `NOTICE` are never edited.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import typer
from betimes_papers.verb import reproduce

from betimes import plugins
from betimes.cli.app import as_command
from betimes.cli.app import command as command_line
from betimes.core.job_states import diagram
from betimes.policies import parse_nodes_policy
from betimes.policies.hooks import Parameter as PolicyParameter
from betimes.policies.hooks import Policy, Value
from betimes.policies.nodes.hooks import NodesPolicy
from betimes.policies.nodes.orders import ORDERS
from betimes.policies.nodes.placement import RULES
from betimes.policies.nodes.registry import NODES_POLICIES
from betimes.policies.pool.renting import RENTING
from betimes.policies.registry import POLICIES
from betimes.service.spec import job_file
from betimes.service.spec.job_file import MOST_BYTES, MOST_JOBS
from betimes.service.spec.job_spec import MOST_UNITS, JobSpec
from betimes.service.spec.spelling import SPELLINGS
from betimes.workload.generators.registry import GENERATORS, named
from betimes.workload.readers.registry import FAMILIES, FORMATS
from betimes.workload.speedup_formulas import FORMULAS
from tools import pictures, reference_clusters, reference_live, reference_python
from tools.job_fields import SPELT, meaning
from tools.wrap_markdown import wrapped

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"
IMAGES = ROOT / "docs" / "images"
JOBS_EXAMPLE = textwrap.dedent((job_file.__doc__ or "").partition("::")[2]).strip()
JOBS_EXAMPLE_YAML = """\
defaults:
  qos: trial
  env: {SEED: "7"}
jobs:
  - name: prepare
    command: [./prepare.sh, --all]
  - name: train
    command: python train.py --epochs 10
    gpu: 1
    memory: 16GiB
    units: 1-8
    estimate: 2h"""
NOTICE = "<!-- Written by `make docs` from the code; a change made here is lost. -->"


def main() -> None:
    """Write every page, and every picture that is drawn from a table, whose text changed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    drawn = {IMAGES / name: pictures.draw(picture) for name, picture in pictures.PICTURES.items()}
    for path, text in ({FOLDER / name: text for name, text in pages().items()} | drawn).items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"==> {path.relative_to(ROOT)}")


def pages() -> dict[str, str]:
    """The text of every page by file name."""
    texts = {name: page() for name, page in PAGES.items()}
    for name, page in (reference_clusters.PAGES | reference_live.PAGES | reference_python.PAGES).items():
        texts[name] = page(_table)
    return {name: wrapped(f"{NOTICE}\n\n{text.strip()}\n") for name, text in texts.items()}


def policies_page() -> str:
    """Every policy for a pool, with its parameters."""
    return "\n\n".join(
        (
            "# Policies for a pool",
            "These share out a pool of identical units; [others](nodes-policies.md) run jobs on nodes. A policy is "
            "named with its parameters after a colon: `wfq:zeta_min=0.85,delta=0.04`. Lists are joined by `+`, and "
            "fractions are allowed: `weights=19/20+1/20`.",
            *_sections(POLICIES.values()),
            "## Renting",
            "Every policy for a pool takes these, too: it rents machines of the cluster file's offers "
            "([how](../how-to/rent-machines.md#rent-for-a-pool)).",
            _table(
                ("parameter", "default", "meaning", "values"),
                ((f"`{p.name}`", _value(p.default), p.help, _policy_range(p)) for p in RENTING),
            ),
        )
    )


def nodes_policies_page() -> str:
    """Every policy for nodes, with its parameters, and the orders and rules that these may name."""
    orders = ((f"`{each.name}`", each.summary) for each in ORDERS.values())
    rules = ((f"`{each.name}`", each.summary) for each in RULES.values())
    of_papers = [parse_nodes_policy(name).policy for name in plugins.OF_PAPERS[plugins.POLICIES]]
    return "\n\n".join(
        (
            "# Policies for nodes",
            "These order a queue, choose nodes, and say who makes room; [how](nodes-engine.md) the engine goes about "
            "it is the same for all. [Others](policies.md) share out a pool of identical units. A policy is named with "
            "its parameters after a colon: `easy:order=sjf,placement=first`.",
            *_sections([*NODES_POLICIES.values(), *of_papers]),
            "## Orders",
            "Values of the parameter `order`:",
            _table(("order", "who goes first"), orders),
            "## Placement",
            "Values of the parameter `placement`. For `best` and `worst`, what a node would have left is taken "
            "resource by resource, over the capacity of the largest node; the scalar is the Euclidean norm of that. "
            "`best-cores` is what the waiting policies do unless told otherwise. Equals: the node with the lower "
            "number.",
            _table(("placement", "which of the nodes with room"), rules),
        )
    )


def _sections(policies: Iterable[Policy | NodesPolicy]) -> list[str]:
    """A table of all, and a section for each."""
    policies = list(policies)
    parts = [
        _table(("policy", "what it does"), ((f"[`{p.name}`](#{p.name})", p.summary) for p in policies)),
    ]
    for policy in policies:
        source = f"{policy.question} Source: {policy.paper}."
        if policy.name in plugins.OF_PAPERS[plugins.POLICIES]:
            source += f" It is in the package `{plugins.PAPERS}`."
        parts += [f"## {policy.name}", policy.summary, source]
        if policy.parameters:
            rows = ((f"`{p.name}`", _value(p.default), p.help, _policy_range(p)) for p in policy.parameters)
            parts.append(_table(("parameter", "default", "meaning", "values"), rows))
        else:
            parts.append("It has no parameters.")
    return parts


def job_files_page() -> str:
    """The files from which jobs are submitted: every field with its limits."""
    schema: dict[str, dict[str, Any]] = JobSpec.model_json_schema()["properties"]
    rows = [("`command`", "", "text, or a list of 1 to 4,096 texts", meaning("command"))]
    names = [SPELT.get(field, field) for field in schema]
    for name in dict.fromkeys(names):
        if name == "command":
            continue
        fields = SPELLINGS[name].fields if name in SPELLINGS else (name,)
        also = ", ".join(f"`{field}`" for field in fields if field != name)
        rows.append((f"`{name}`", also, _job_values(name, schema[fields[0]]), meaning(name)))
    return "\n\n".join(
        (
            "# Job files",
            "`betimes submit FILE` and `betimes quote FILE` read jobs from a TOML file (`.toml`) or a YAML file "
            "(`.yaml`, `.yml`). A file is either one job, its fields at the top, or `[[jobs]]`: one table or more, "
            "with what they share under `[defaults]`. All jobs of a file are submitted, or none.",
            f"```toml\n{JOBS_EXAMPLE}\n```",
            "The same in YAML:",
            f"```yaml\n{JOBS_EXAMPLE_YAML}\n```",
            _table(("field", "in plain numbers", "values", "meaning"), rows),
            "- A field of a job replaces that of the defaults; of `env`, `labels`, `require` and `demand` each name "
            "does. An option of the command line replaces both. In YAML, `estimate: null` takes a default away.\n"
            "- Times are written as `90s`, `2h`, `1h30m`, `1d`, `12:00:00` or `1-12:00:00`; a plain number is seconds. "
            "Memory is written as `512MiB` or `4GiB`; a plain number is GiB. The names of the second column take "
            "plain numbers only.\n"
            "- A text as `command` is split as a shell would split it, and nothing more: for variables, pipes and `&&` "
            'write `["bash", "-c", "..."]`.\n'
            "- `workdir`, `checkpoint_dir`, `venv` and `upload` are relative to the file. Without `workdir` and "
            "`upload` a job runs in the folder in which it is submitted.\n"
            "- Values of `env`, `labels` and `require` are text: numbers go in quotes.\n"
            "- Unquoted words of YAML mean what YAML 1.2 says (`no` and `12:30` are text). Aliases, merges and tags "
            f"are not read. A file has at most {MOST_BYTES >> 20} MiB and {MOST_JOBS:,} jobs.",
        )
    )


def _job_values(name: str, schema: dict[str, Any]) -> str:
    """The values that a field of a job file may have, from the model that checks it."""
    choice = next((each for each in schema.get("anyOf", ()) if each["type"] != "null"), schema)
    low, high = choice.get("minimum", choice.get("exclusiveMinimum")), choice.get("maximum")
    bounds = ""
    if high is not None:
        bounds = f"{'above' if 'exclusiveMinimum' in choice else 'from'} {low:,.0f} to {high:,.0f}"
    if name == "demand":
        return f"tables by family, at most {schema['maxProperties']}, of `gpu`, `cpu`, `memory` and `speed`"
    if name == "curve":
        return f"text, or a table `speedup` of units and speed-ups; {', '.join(FORMULAS)}"
    if name == "units":
        return f"a whole number, or two as in `1-8`, {bounds}"
    if name == "units_per_task":
        return f"`pack`, `spread`, or a whole number from 1 to {MOST_UNITS:,}, a divisor of the (most) units"
    if name in SPELLINGS:
        kind, unit = ("an amount of memory", "GiB") if name == "memory" else ("a time", "s")
        return f"{kind}, {bounds} {unit}"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    match choice["type"]:
        case "number":
            return f"a number {bounds}"
        case "integer":
            return f"a whole number {bounds}"
        case "boolean":
            return "`true` or `false`"
        case "array":
            return f"text, or a list of at most {choice['maxItems']:,}"
        case "object":
            most = choice.get("maxProperties")
            return "a table of names and texts" + (f", at most {most}" if most is not None else "")
        case _:
            most = choice.get("maxLength")
            return f"text, at most {most:,} characters" if most is not None else "text"


def formats_page() -> str:
    """Every trace format that can be read, and where its columns come from."""
    families = [
        f"`{name}` stands for {' or '.join(f'`{n}`' for n in names)}." for name, names in FAMILIES.items()
    ]
    parts = [
        "# Trace formats",
        "A file is recognised by its content, plain or gzipped; `--format` names a format instead. "
        + " ".join(families),
        _table(("format", "what it is"), ((f"[`{f.name}`](#{f.name})", f.summary) for f in FORMATS.values())),
    ]
    for form in FORMATS.values():
        parts += [f"## {form.name}", f"{form.summary}.", form.details]
        if form.rules:
            rows = ((f"`{rule.column}`", rule.source, rule.rule) for rule in form.rules)
            parts.append(_table(("column", "from", "how"), rows))
    return "\n\n".join(parts)


def generators_page() -> str:
    """Every generator of workloads, with its parameters."""
    generators = [named(name) for name in (*GENERATORS, *plugins.OF_PAPERS[plugins.WORKLOADS])]
    parts = [
        "# Generated workloads",
        "A generator is named where a trace file could stand, with its parameters after a colon: "
        "`betimes simulate demo:jobs=500 --policy fifo --units 64`.",
        _table(
            ("generator", "what it makes"),
            ((f"[`{g.name}`](#{g.name})", g.description) for g in generators),
        ),
    ]
    for made in generators:
        is_of_papers = made.name in plugins.OF_PAPERS[plugins.WORKLOADS]
        parts += [
            f"## {made.name}",
            made.description,
            made.details,
            f"Source: {made.source}." if made.source else "",
            f"It is in the package `{plugins.PAPERS}`." if is_of_papers else "",
        ]
        rows = (
            (
                f"`{p.name}`",
                _value(p.default) if p.default is not None else "must be given",
                p.description,
                p.expected,
            )
            for p in made.parameters
        )
        parts.append(_table(("parameter", "default", "meaning", "values"), rows))
    return "\n\n".join(part for part in parts if part)


def cli_page() -> str:
    """Every verb of the command line, with its arguments and options."""
    command = command_line()
    context = typer.Context(command, info_name="betimes")
    parts = [
        "# Command line",
        command.help or "",
        "Every verb takes `--json`: one JSON value on standard output, and nothing else there. Progress and notes "
        "go to standard error. The exit code is 0 on success, 2 on bad input (one line on standard error says "
        "where and what to do), 130 after Ctrl-C, and 1 on anything else; `BETIMES_TRACEBACK=1` then shows where. "
        "`wait` and `submit --wait` tell apart what they wait in vain for: 1 a job that failed or was cancelled, 3 the "
        "time of `--timeout`, 4 a service that never answered. "
        "`betimes VERB --help` shows the options of daily use where there are many, and `--help-all` all of them. "
        "`ps`, `ls` and `queue` are `jobs`. `betimes --install-completion` teaches your shell the verbs and options.",
    ]
    of_papers = typer.Context(as_command("reproduce", reproduce), info_name="reproduce", parent=context)
    for verb in (*_verbs(command, context), of_papers):
        name, rows = verb.command_path, []
        for parameter in verb.command.get_params(verb):
            record = parameter.get_help_record(verb)
            if record is not None and parameter.name != "help":
                rows.append((f"`{record[0]}`", record[1]))
        usage = " ".join(verb.command.get_usage(verb).removeprefix("Usage: ").split())
        described = "\n\n".join(" ".join(part.split()) for part in (verb.command.help or "").split("\n\n"))
        if verb is of_papers:
            described += f" It is in the package `{plugins.PAPERS}`."
        parts += [f"## {name}", f"```console\n$ {usage}\n```", described, _table(("option", "meaning"), rows)]
    return "\n\n".join(parts)


def _verbs(command: Any, context: Any) -> Iterator[Any]:
    """The contexts of all verbs that do something, groups resolved into theirs."""
    for name, verb in command.commands.items():
        inner = typer.Context(verb, info_name=name, parent=context)
        if hasattr(verb, "commands"):
            yield from _verbs(verb, inner)
        else:
            yield inner


def life_of_a_job_page() -> str:
    """The table of legal moves, drawn."""
    return "\n\n".join(
        (
            "# The life of a job",
            "What can happen to a job in each of its states. Whatever is not drawn is refused.",
            f"```mermaid\n{diagram()}```",
        )
    )


PAGES: dict[str, Callable[[], str]] = {
    "life-of-a-job.md": life_of_a_job_page,
    "cli.md": cli_page,
    "policies.md": policies_page,
    "nodes-policies.md": nodes_policies_page,
    "job-file.md": job_files_page,
    "formats.md": formats_page,
    "generators.md": generators_page,
}


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    cells = ((" ".join(cell.split()).replace("|", "\\|") for cell in line) for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _value(value: Value | bool | None) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return "`" + "+".join(str(part) for part in value) + "`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _policy_range(parameter: PolicyParameter) -> str:
    if parameter.choices:
        return "one of " + ", ".join(parameter.choices)
    if parameter.is_text:
        return "text"
    bounds = [f"from {parameter.low:g}"] if parameter.low > -math.inf else []
    bounds += [f"to {parameter.high:g}"] if parameter.high < math.inf else []
    return " ".join(["numbers" if parameter.is_list else "a number", *bounds])


if __name__ == "__main__":
    main()
