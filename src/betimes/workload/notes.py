"""What a reader has to say about a trace besides its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Notes:
    """Where a workload comes from and what was left out of it.

    `skipped` counts rows of the file that are not in the workload, by reason: jobs that never ran (no error)
    and, under `on_bad_rows="skip"`, malformed rows. `header` holds the file's own header, a repeated key's
    values joined by line feeds (copyright and acknowledgement notices travel with converted traces in it).
    """

    format: str = ""
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])
    warnings: tuple[str, ...] = ()
    header: Mapping[str, str] = field(default_factory=dict[str, str])
