"""Verbs whose options stand in a dataclass, shared with other verbs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints


def spread_options(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb, with the fields of each parameter that is a dataclass as options of their own, in its place."""
    hints = get_type_hints(verb, include_extras=True)
    records = {name: hints[name] for name in inspect.signature(verb).parameters if is_dataclass(hints[name])}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(verb).parameters.values():
        if parameter.name not in records:
            parameters.append(
                parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[parameter.name])
            )
            continue
        record = records[parameter.name]
        of_fields = get_type_hints(record, include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if field.default is MISSING else field.default,
                annotation=of_fields[field.name],
            )
            for field in fields(record)
        ]

    @wraps(verb)
    def command(**given: Any) -> None:
        for name, record in records.items():
            given[name] = record(
                **{each.name: given.pop(each.name) for each in fields(record) if each.name in given}
            )
        verb(**given)

    vars(command)["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command
