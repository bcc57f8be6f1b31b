"""The table `[fleet]` of a cluster file: how a service really rents what the file's `[[offers]]` describe.

::

    [fleet]
    kind = "command"         # local: processes of this machine; ec2: AWS, by the table [ec2]; command: scripts
    scripts = "desks"        # the folder of the scripts, for kind = "command"; beside the file
    ray = "10.0.0.5:6379"    # the Ray cluster that the machines join: for ec2 always, for command if they join one

A file with it is the same as `--cloud FILE --fleet KIND --ray ADDRESS`. Simulations do not look at the table.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from betimes.cluster.checks import file_text
from betimes.cluster.readers import openb
from betimes.cluster.readers.any_format import cluster_path
from betimes.cluster.readers.toml import document
from betimes.errors import ClusterError
from betimes.service.spec.spec_errors import faults_of


class FleetTable(BaseModel):
    """The table `[fleet]`."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    kind: Literal["local", "ec2", "command"]
    scripts: str | None = None
    ray: str | None = None


def fleet_settings(name: str) -> dict[str, str]:
    """The settings in the table `[fleet]` of a cluster file: `fleet`, `cloud` and `ray`, as of the options.

    Empty: the file has no such table. Raises ClusterError, naming file and field.
    """
    path = cluster_path(name)
    text = file_text(path)
    found = {} if openb.recognise(text) else document(text, path)
    if "fleet" not in found:
        return {}
    try:
        table = FleetTable.model_validate(found["fleet"])
    except ValidationError as error:
        first = faults_of(error.errors(include_url=False), FleetTable, "table [fleet]")[0]
        raise ClusterError(f"{path}, field fleet.{first.field}: {first.text}") from None
    if found.get("nodes"):
        raise ClusterError(
            f"{path}, field nodes: a service that really rents ([fleet]) runs jobs on this machine and on those "
            "that it rents; leave [[nodes]] out"
        )
    if (table.kind == "command") != (table.scripts is not None):
        raise ClusterError(
            f'{path}, field fleet.scripts: it names the folder of the scripts, for kind = "command" and no other'
        )
    settings = {"fleet": table.kind, "cloud": name}
    if table.scripts is not None:
        settings["fleet"] = f"command:{path.parent / table.scripts}"
    return settings if table.ray is None else {**settings, "ray": table.ray}
