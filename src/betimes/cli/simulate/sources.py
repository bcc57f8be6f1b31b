"""FILE on the command line: a trace, a generator's specification, or a sample that ships with Betimes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from betimes.errors import InputError, nearest

if TYPE_CHECKING:
    from betimes.cluster import Cluster
    from betimes.workload import Workload

GENERATED_UNITS = 64
"""The default pool of generators: the machine of the PCS study."""

SAMPLE = "sample:"


def is_generated(text: str) -> bool:
    """Whether `text` names a generator, so that another seed gives another workload; a file of that name wins."""
    from betimes.workload.generators import is_spec

    return not text.startswith(SAMPLE) and not _is_file(text) and is_spec(text)


def is_for_nodes(text: str) -> bool:
    """Whether `text` names a generator that keeps a load on nodes; raises InputError for a wrong parameter."""
    if not is_generated(text):
        return False
    from betimes.twin.noted_cluster import described_cluster

    return described_cluster(text) is not None


def read(
    text: str,
    units: int | None,
    seed: int,
    form: str = "auto",
    on_bad_rows: str = "fail",
    cluster: Cluster | None = None,
) -> Workload:
    """The workload that `text` names; `units`, `cluster` and `seed` apply to generators only.

    Raises InputError, with the nearest name of a file or a generator, if there is neither.
    """
    from betimes.workload import read_trace

    if is_generated(text):
        if form != "auto":
            raise InputError(f"--format {form}: {text} is a generator, not a file; leave --format out")
        return generated(text, units, cluster, seed)
    path = Path(text)
    if not text:
        raise InputError("FILE is empty; name a trace, or a generator such as demo")
    if not path.exists():
        if not text.startswith(SAMPLE):
            raise InputError(f"{text}: there is no such file, and no such generator{_nearest(text)}")
        from betimes.workload import samples

        path = samples.path(text.removeprefix(SAMPLE))
    return read_trace(path, form, "skip" if on_bad_rows == "skip" else "fail")


def generated(spec: str, units: int | None, cluster: Cluster | None, seed: int) -> Workload:
    """The workload of a generator; by default for a pool of 64 units. Raises InputError."""
    from betimes.twin.generate import generate
    from betimes.twin.noted_cluster import described_cluster

    if units is not None and cluster is None and described_cluster(spec) is not None:
        from betimes.cluster import Cluster

        cluster = Cluster.pool(units)
    if units is None and cluster is None and described_cluster(spec) is None:
        units = GENERATED_UNITS
    return generate(spec, units=units, cluster=cluster, seed=seed)


def _is_file(text: str) -> bool:
    path = Path(text)
    return path.exists() and not path.is_dir()


def _nearest(text: str) -> str:
    from betimes import plugins
    from betimes.workload.generators import GENERATORS
    from betimes.workload.samples import SAMPLES

    name, colon, parameters = text.partition(":")
    if name in plugins.OF_PAPERS[plugins.WORKLOADS]:
        return plugins.or_else(plugins.WORKLOADS, name, GENERATORS)
    path = Path(text)
    if not path.parent.is_dir():
        return f"; the folder {path.parent} does not exist either"
    generators = dict.fromkeys([*GENERATORS, *plugins.added(plugins.WORKLOADS)])
    known = {generator: generator + colon + parameters for generator in generators}
    beside = {entry.name: str(path.with_name(entry.name)) for entry in path.parent.iterdir()}
    if near := nearest(name, known) or nearest(path.name, beside):
        return f" (did you mean {(beside | known)[near[0]]!r}?)"
    return f"; generators are {', '.join(generators)}, samples {', '.join(SAMPLE + name for name in SAMPLES)}"
