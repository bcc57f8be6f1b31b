"""Workloads by name: `generate("synthetic:jobs=3000,load=0.8", units=64, seed=1)`.

A specification is a generator's name and, after a colon, its parameters: `name=value` joined by commas.
`GENERATORS` lists those that ship with Betimes; other installed packages add theirs by the entry points
`betimes.workloads`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from betimes import plugins
from betimes.errors import InputError
from betimes.workload.generators import demo, fitgpp, synthetic, year
from betimes.workload.generators.parameters import Generator, Value
from betimes.workload.workload import Workload

GENERATORS: dict[str, Generator] = {
    generator.name: generator
    for generator in (demo.GENERATOR, synthetic.GENERATOR, fitgpp.GENERATOR, year.GENERATOR)
}


def named(name: str) -> Generator:
    """The generator of a name, of Betimes or of another installed package; raises InputError for none."""
    if name in GENERATORS:
        return GENERATORS[name]
    entry = plugins.added(plugins.WORKLOADS).get(name)
    if entry is None:
        raise InputError(f"no generator {name!r}{plugins.or_else(plugins.WORKLOADS, name, GENERATORS)}")
    found = plugins.load(entry)
    if not isinstance(found, Generator):
        raise InputError(
            f"generator {name} of the package {plugins.package_of(entry)}: {entry.value} is not a Generator; repair or "
            "remove the package"
        )
    return replace(found, name=name)


def is_spec(text: str) -> bool:
    """Whether a text begins with a generator's name, so that it is not (only) a file's."""
    name = text.partition(":")[0]
    return name in GENERATORS or name in plugins.added(plugins.WORKLOADS)


def parse_spec(spec: str) -> tuple[Generator, dict[str, Value]]:
    """The generator that a specification names and the values of all its parameters; raises InputError."""
    name, colon, rest = spec.strip().partition(":")
    generator = named(name)
    given: dict[str, str] = {}
    for part in rest.split(",") if colon else []:
        key, equals, text = (piece.strip() for piece in part.partition("="))
        if not key or not equals:
            raise InputError(
                f"generator {name}: expected name=value joined by commas, got {part!r} in {spec!r}"
            )
        if key in given:
            raise InputError(f"generator {name}: parameter {key} is given twice in {spec!r}")
        given[key] = text
    return generator, generator.read(given)


def generate(spec: str, *, units: int, seed: int = 0) -> Workload:
    """The workload of a specification on a machine of `units` units; the same for the same arguments.

    Its name is the specification. Raises InputError naming generator, parameter and what was expected.
    """
    if units < 1:
        raise InputError(f"a workload is generated for a machine of at least 1 unit, got {units}")
    if seed < 0:
        raise InputError(f"expected a seed from 0, got {seed}")
    generator, values = parse_spec(spec)
    made = generator.function(units=units, seed=seed, **values)
    origin = {"generator": spec.strip(), "units": str(units), "seed": str(seed)}
    notes = replace(
        made.notes, format=made.notes.format or "generated", header={**made.notes.header, **origin}
    )
    return replace(made, name=spec.strip(), notes=notes)


def generate_in_chunks(spec: str, *, units: int, seed: int = 0) -> Iterator[Workload] | None:
    """The jobs of `generate` as several workloads, one after the other; None: the generator makes them all at once.

    Raises InputError as `generate` does.
    """
    generator, values = parse_spec(spec)
    if generator.in_chunks is None:
        return None
    return generator.in_chunks(units=units, seed=seed, **values)
