"""`read_cluster`: a cluster from a file, in whichever of the known formats it is, or a catalogue by its name."""

from __future__ import annotations

import os
from pathlib import Path

from betimes.cluster.catalogue import catalogue_path, catalogues, is_bare
from betimes.cluster.checks import file_text
from betimes.cluster.cluster import Cluster
from betimes.cluster.readers import openb, toml
from betimes.errors import ClusterError


def read_cluster(path: str | os.PathLike[str]) -> Cluster:
    """The cluster that a file describes: Betimes's TOML or an openb node list, plain or gzip, recognised by content.

    A text that is the name of a catalogue, such as `m5`, means that, whatever files there are; a file of that name is
    written as a path (`./m5`), or given as a `Path`. Raises ClusterError, on one line, naming file, table or line,
    field and what to do.
    """
    path = cluster_path(path)
    text = file_text(path)
    return openb.parse(text, path) if openb.recognise(text) else toml.parse(text, path)


def cluster_path(name: str | os.PathLike[str]) -> Path:
    """The file that a user means by a name: a catalogue's, or that of the path. Raises ClusterError for neither."""
    if not os.fspath(name):
        raise ClusterError("the name of the cluster file is empty: name a file, as in --cluster racks.toml")
    if not isinstance(name, str):
        return Path(name)
    if name in catalogues():
        return catalogue_path(name)
    path = Path(name)
    if is_bare(name) and not path.exists():
        try:
            catalogue_path(name)
        except ClusterError as error:
            raise ClusterError(f"{error}; and no file of this name is here: it cannot be read") from None
    return path
