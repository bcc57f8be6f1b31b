"""The reference page of cluster files, from what the code declares."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable

from betimes.cluster import catalogues, read_cluster
from betimes.cluster.checks import MOST_SECONDS, MOST_USD_PER_H
from betimes.cluster.cluster import DEFAULT_GRACE_LIMIT_S, MOST_NODES
from betimes.cluster.labels import ALPHABET, MOST_LABELS
from betimes.cluster.offer import MOST_MACHINES, MOST_SIGMA, NOTICE_S, SPOT_PRICE_FACTOR
from betimes.cluster.readers import toml
from betimes.cluster.resources import MOST
from betimes.cluster.revocation import Bathtub

Table = Callable[[tuple[str, ...], Iterable[tuple[str, ...]]], str]

EXAMPLE = textwrap.dedent((toml.__doc__ or "").partition("::")[2]).strip()

_SECONDS = f"from 0 to {MOST_SECONDS:g}"
_USD = f"from 0 to {MOST_USD_PER_H:g}"
_MACHINES = f"a whole number from 1 to {MOST_MACHINES:,}"
_SIZES = (
    ("`gpu`", f"from 0 to {MOST:g}", "0", "GPUs of each"),
    ("`cpu`", f"above 0, to {MOST:g}", "must be given", "cores of each"),
    ("`memory_gib`", f"above 0, to {MOST:g}", "must be given", "memory of each, GiB"),
)
_TOP = (
    ("`name`", "text", "the file's name", "what the cluster is called"),
    (
        "`grace_limit_s`",
        _SECONDS,
        f"{DEFAULT_GRACE_LIMIT_S:g}",
        "the longest grace period that a job may ask for; those with a longer one are refused",
    ),
    (
        "`quota`",
        f"a whole number to {MOST_MACHINES:,}",
        "any number",
        "the most machines that are rented at once",
    ),
    ("`seed`", "a whole number", "0", "of what is drawn by lot about rented machines"),
    (
        "`interference`",
        "a name or a path",
        "none",
        "the table of how tasks on one machine slow each other: `eva`, or a CSV file beside this one",
    ),
    ("`catalogue`", "a name", "none", "its offers are there too, before those of the file"),
    ("`[[nodes]]`", "tables", "none", "a group of equal nodes that are owned"),
    ("`[[offers]]`", "tables", "none", "an instance type that can be rented"),
    ("`[[maintenance]]`", "tables", "none", "a time in which no job starts on some nodes, in simulations"),
    (
        "`[fleet]`",
        "a table",
        "none",
        "that `betimes up --cluster FILE` really rents the offers, and how; simulations do not look at it",
    ),
    ("`[ec2]`", "a table", "none", "how `betimes up --fleet ec2` rents them; simulations do not look at it"),
)
_MAINTENANCE = (
    (
        "`from_s`",
        _SECONDS,
        "must be given",
        "until then only jobs start that are over by then; seconds of the trace",
    ),
    ("`to_s`", "above `from_s`", "must be given", "from then on all jobs start again"),
    ("`nodes`", "a list of names", "all nodes", "named by type and numbered from 0, as in `a100-0`"),
)
_LABELS = (
    "`labels`",
    f"a table of at most {MOST_LABELS} names and texts",
    "none",
    f"of each: jobs may require them (`require`); a name and a text have {ALPHABET}",
)
_FAMILY = ("`family`", "text", "the type up to its dot", "a task needs the same on all types of one family")
_NODES = (
    ("`type`", "text", "must be given", "what these nodes are called"),
    ("`count`", f"a whole number from 1 to {MOST_NODES:,}", "1", "how many there are"),
    *_SIZES,
    (
        "`usd_per_h`",
        _USD,
        "no price",
        "price of each, USD an hour, used or not; in the live service's quotes",
    ),
    (
        "`reserved_discount_frac`",
        "from 0 to 1",
        "0",
        "what a reservation saves of that: 0.6 is common for three years",
    ),
    _LABELS,
    _FAMILY,
)
_OFFERS = (
    (
        "`type`",
        "text",
        "must be given",
        "what it is called: no other offer, nor a group of nodes, has this name",
    ),
    _FAMILY,
    *_SIZES,
    ("`usd_per_h`", _USD, "must be given", "price of each on demand, USD an hour"),
    ("`capacity`", _MACHINES, "any number", "the most that there are at once"),
    ("`boot_s`", _SECONDS, "0", "from the request until it has booted; the median, with `boot_sigma`"),
    ("`boot_sigma`", f"from 0 to {MOST_SIGMA:g}", "0", "its spread: the standard deviation of its logarithm"),
    ("`boot_failure_frac`", "from 0 to 1", "0", "the share that never boots, which costs nothing"),
    ("`setup_s`", _SECONDS, "0", "from boot until it is up: then tasks start on it"),
    ("`release_s`", _SECONDS, "0", "from being given back until it is gone, and costs nothing more"),
    ("`min_bill_s`", _SECONDS, "0", "the least time that is charged for"),
    (
        "`bill_step_s`",
        _SECONDS,
        "0",
        "charged for in whole steps of that as they begin: 1, by the second; 3600, by the hour; 0, to the moment",
    ),
    (
        "`bill_from`",
        "`boot`, `request`",
        "`boot`",
        "from when it is charged for; setting up comes after boot",
    ),
    (
        "`spot`",
        "true, false, a table",
        "false",
        f"it costs less and may be taken away; true: at {SPOT_PRICE_FACTOR:g} of the price, by the bathtub below",
    ),
    ("`notice_s`", _SECONDS, f"{NOTICE_S:g}", "from the notice that it is taken away until it is"),
    (
        "`price_changes`",
        "a list of `{ at_s, usd_per_h }`",
        "none",
        "the price on demand from then on, in the seconds of the trace, in simulations: bills follow it, policies "
        "decide by `usd_per_h`",
    ),
    (
        "`speeds`",
        "a table of workloads, each above 0",
        "none",
        "how fast a job of the workload (`workload_variant` of a trace, `workload` of a live job) runs on it: 2 takes "
        "half its run time; 1 for others, and on owned nodes. Policies that pack count what its work costs, not its "
        "hours. Live, "
        "[they are learned](../how-to/rent-machines.md#types-of-machines-that-run-jobs-at-different-speeds)",
    ),
    _LABELS,
)


def clusters_page(table: Table) -> str:
    """The files from which a cluster is read."""
    bathtub = Bathtub()
    spot = (
        ("`price_factor`", f"from 0 to 1; {SPOT_PRICE_FACTOR:g} by default", "what it costs of the price"),
        ("`revocation`", "`bathtub` (by default), `exponential`, `never`", "when it gets notice"),
        ("`mean_h`", "above 0; must be given", "of `exponential`: after so many hours in the mean, at a constant rate"),
        (
            "`a`, `tau1_h`, `tau2_h`, `b_h`, `limit_h`",
            f"{bathtub.a:g}, {bathtub.tau1_h:g}, {bathtub.tau2_h:g}, {bathtub.b_h:g}, {bathtub.limit_h:g} by default",
            "of `bathtub`: by x hours F(x) = a (1 - exp(-x / tau1_h) + exp((x - b_h) / tau2_h)) are gone, and at "
            "`limit_h` the rest",
        ),
    )  # fmt: skip
    return "\n\n".join(
        (
            "# Cluster files",
            "`--cluster FILE` and `betimes.read_cluster` read either of these, plain or gzipped, told by content. "
            "Nodes are numbered from 0 in the order of the file. A wrong value is refused with file, table or line, "
            "and field.",
            "## Betimes's own (TOML)",
            f"```toml\n{EXAMPLE}\n```",
            table(("field", "values", "default", "meaning"), _TOP),
            "There is at least one `[[nodes]]` or `[[offers]]`. Policies that rent use the offers; under any other "
            "jobs run on the nodes, and a cluster that has offers only is refused.",
            "### Nodes",
            table(("field", "values", "default", "meaning"), _NODES),
            "Fractions are allowed where a node can have them (`cpu = 7.5`). Inside, resources are whole numbers of "
            "thousandths of a GPU, thousandths of a core and MiB: capacities are rounded down, demands up.",
            "### Maintenance",
            table(("field", "values", "default", "meaning"), _MAINTENANCE),
            "[Which jobs start when](../notes/maintenance.md). A service has `betimes maintenance add` for it.",
            "### Offers",
            table(("field", "values", "default", "meaning"), _OFFERS),
            "A commitment is charged at the price when it began: first the minimum, in whole steps, then each further "
            "step as it begins. A change of price holds for what begins then or later, so that what has been charged "
            "never changes. Sums are exact, and rounded once.",
            'Such a table is `spot = { price_factor = 0.4, revocation = "exponential", mean_h = 10 }`. Machines get '
            "notice at an age, counted from when they are up, that is drawn by seed, type and the machine's number:",
            table(("field", "values", "meaning"), spot),
            "## Catalogues",
            'The offers of some clouds come with Betimes, and have names: `--cluster m5`, or `catalogue = "m5"` in a '
            "file beside your own nodes. The name of a catalogue never means a file; write `./m5` for the file `m5`. "
            "`betimes.cluster.catalogues()` lists the names.",
            table(("name", "types", "what it is"), (_catalogue(name) for name in catalogues())),
            "## openb node lists (CSV)",
            "The node lists of Alibaba's openb traces, as published (cluster-trace-gpu-v2023). Nodes of equal capacity "
            "and model make a group.",
            table(
                ("column", "meaning"),
                (
                    ("`sn`", "the node's name, unique"),
                    ("`cpu_milli`", "thousandths of a core"),
                    ("`memory_mib`", "MiB"),
                    ("`gpu`", "GPUs, a whole number"),
                    ("`model`", "the GPUs' model, which becomes the type; empty without GPUs"),
                ),
            ),
        )
    )  # fmt: skip


_SAID = {
    "ec2-2023": "Amazon EC2 on demand in 2023 (p3, c7i, r7i), `cpu` in physical cores, with Eva's delays",
    "ec2-2023-vcpu": "the same, `cpu` in vCPUs",
    "m5": "Amazon EC2's m5 from 2 to 96 vCPUs at 0.048 USD a core-hour, up at once, charged for to the moment",
}


def _catalogue(name: str) -> tuple[str, str, str]:
    return f"`{name}`", str(len(read_cluster(name).offers)), _SAID[name]


PAGES: dict[str, Callable[[Table], str]] = {"cluster-files.md": clusters_page}
