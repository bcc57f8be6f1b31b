"""A drain has a reason and an author, which stay with the node until it is used again. Two nodes of two cores."""

from __future__ import annotations

import pytest

from betimes.cluster import Cluster
from betimes.errors import Unknown
from betimes.testing import InMemoryService


def _drained(service: InMemoryService, name: str) -> tuple[str, str | None, str, float | None]:
    node = next(each for each in service.nodes() if each.name == name)
    return node.status, node.drained_by, node.drain_reason, node.since_at


def test_the_reason_and_its_author_stay_until_the_node_is_used_again() -> None:
    with InMemoryService(Cluster.uniform(2, cpu=2, memory_gib=4), policy="easy") as service:
        user = service.me().user
        service.submit(command=["x"], estimate_s=50.0, min_units=2, max_units=2)
        view = service.drain("node-0", "bad fan")
        assert (view.status, view.drained_by, view.drain_reason) == ("draining", user, "bad fan")
        service.advance(60.0)
        assert _drained(service, "node-0") == ("drained", user, "bad fan", 50.0)
        service.drain("node-0", "bad fan, new one ordered")
        assert _drained(service, "node-0") == ("drained", user, "bad fan, new one ordered", 50.0)
        service.drain("node-0", "bad fan, new one ordered")
        said = [event.data.get("drain_reason") for event in service.events(kinds=["node-status"])]
        assert said == ["bad fan", None, "bad fan, new one ordered"], "the same again is no event"
        service.undrain("node-0")
        assert _drained(service, "node-0") == ("up", None, "", None)
        service.drain("node-1")
        assert _drained(service, "node-1") == ("drained", user, "", 60.0)
        with pytest.raises(Unknown, match="there is no node 'other'"):
            service.drain("other", "bad fan")
