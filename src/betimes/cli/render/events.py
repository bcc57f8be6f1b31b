"""The details of an event in words; `--json` has all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from betimes.units import usd

if TYPE_CHECKING:
    from betimes.service.views.models import EventView

Data = Mapping[str, Any]


def details(event: EventView, at_now: float) -> str:
    """An event's details in a few words; those of an unknown kind as names and values."""
    from betimes.cli.render.times import sentence

    phrase = _PHRASES.get(event.kind)
    where = f"on {event.node}" if event.node is not None else ""
    try:
        text = sentence(phrase(event.data, at_now), at_now) if phrase is not None else _plainly(event.data)
    except (KeyError, TypeError):  # a later version of the service has other fields
        text = _plainly(event.data)
    return " ".join(filter(None, (where, text)))


def _submitted(data: Data, _: float) -> str:
    from betimes.units import length

    place = f"element {data['array_index']} of array {data['array_id']}, " if "array_index" in data else ""
    place += f"{data['trials']['count']} trials, " if "trials" in data else ""
    return f"{place}estimated at {length(data['believed_s'])} ({data['basis']})"


def _queued(data: Data, _: float) -> str:
    from betimes.units import length

    return f"estimated at {length(data['believed_s'])} ({data['basis']})"


def _fair_share(data: Data, _: float) -> str:
    from betimes.units import length

    half_life_s = data["half_life_s"]
    return (
        "users share no more" if half_life_s is None else f"use that is {length(half_life_s)} old counts half"
    )


def _edited(data: Data, _: float) -> str:
    named = ", ".join(f"{name}={_stated(value)}" for name, value in data["changes"].items())
    return named + ("; its promise is void" if data["voids"] else "")


def _stated(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{name}={one}" for name, one in value.items())
    return (",".join(value) or "none") if isinstance(value, list) else f"{value}"


def _granted(data: Data, _: float) -> str:
    if data["units"] == 0:
        return "no unit: other jobs come first"
    return _units(data["units"]) + _on(data["places"])


def _width(data: Data, _: float) -> str:
    return f"at most {_units(data['units'])}"


def _nominated(data: Data, _: float) -> str:
    if not data.get("places"):
        return "no job is preempted for it any more"
    if not any(any(one) for one in data.get("owed", ())):
        return f"it is to start{_on(data['places'])}, once all of it is up"
    return f"other jobs are preempted for it{_on(data['places'])}"


def _migrating(data: Data, _: float) -> str:
    from betimes.units import usd

    when = "once there is room, and all of it is up" if data["keeps_running"] else "at once"
    text = f"moves {when}:{_on(data['places'])} instead of{_on(data['before'])}"
    if "move" not in data:
        return text
    from betimes.service.scheduling.job import MoveRecord

    move = MoveRecord(**data["move"])
    saving = usd(move.expected_saving_usd_per_h)
    return f"{text}; expected to save {saving} an hour, for {usd(move.expected_cost_usd)}"


def _moved(data: Data, _: float) -> str:
    from betimes.cli.render.times import length
    from betimes.service.scheduling.job import MoveRecord

    move = MoveRecord(**data["move"])
    if move.saving_usd_per_h is None or move.cost_usd is None:
        return "the run that followed the move was over at once"
    expected = f"{usd(move.expected_saving_usd_per_h)} an hour, for {usd(move.expected_cost_usd)}"
    ran = length(move.hours * 3600.0)
    came = f"{usd(move.saving_usd_per_h)} an hour for {ran}, for {usd(move.cost_usd)}"
    return f"the move saved {came}; expected: {expected}"


def _reserved(data: Data, _: float) -> str:
    return f"a start{_on(data['places'])}"


def _told(data: Data, at_now: float) -> str:
    from betimes.cli.render.times import clock

    by_at = data["stop_by_at"]
    return data["reason"]["text"] + (f", by {clock(by_at, at_now)} at the latest" if by_at else "")


def _launched(data: Data, _: float) -> str:
    text = f"run {data['number']}, {_units(data['units'])}{_on(data['places'])}"
    return text + _cost("its restart", data, "restart_node_s")


def _started(data: Data, _: float) -> str:
    return f"run {data['number']}" + (" was found running" if data["adopted"] else "")


def _resized(data: Data, _: float) -> str:
    return f"run {data['number']}, {_units(data['units'])}{_on(data['places'])}"


def _restarted(data: Data, _: float) -> str:
    return f"{data['took_s']:.3g} s after the request to stop"


def _ended(data: Data, _: float) -> str:
    text = f"run {data['number']}, {data['outcome']}"
    if data.get("exit_code") is not None:
        text += f", exit code {data['exit_code']}"
    if data.get("signal") is not None:
        text += f", signal {data['signal']}"
    text += f": {data['message']}" if data.get("message") else ""
    return text + _cost("making room", data, "vacating_node_s")


def _trouble(data: Data, _: float) -> str:
    return f"run {data['number']}: {data['message']}"


def _displaces(data: Data, _: float) -> str:
    return f"job {data['victim']} makes room for it"


def _goes_on(data: Data, _: float) -> str:
    return f"run {data['number']} goes on at {data['frac']:.0%}" + _cost("doing again", data, "lost_node_s")


def _finished(data: Data, _: float) -> str:
    from betimes.units import length

    return f"{length(data['run_s'])} of work"


def _believed(data: Data, _: float) -> str:
    from betimes.units import length

    left = f"{length(data['account']['left_s'])} of work left"
    if data.get("slept"):
        return f"its machine slept, in which time it did not run; {left}, the sleep counted"
    if data["basis"] == "progress":
        return f"{left}, by its progress"
    if data["basis"] == "grace":
        return f"it is cancelled and ends within its grace period; {left}"
    if "suspended" in data:
        return f"it is suspended{', for a day as is assumed' if data['suspended'] else ' no more'}; {left}"
    if not data.get("outran"):
        return f"a user has changed its estimate or limit; {left}"
    return f"it outran its estimate; {left}"


def _quoted(data: Data, at_now: float) -> str:
    from betimes.cli.render.times import clock

    finish_at, reason = data["finish_at"], data["quote"]["reason"]
    done = (
        "never, unless the load or the nodes change"
        if finish_at is None
        else f"done {clock(finish_at, at_now)}"
    )
    return done + (f"; {reason['text']}" if reason else "")


def _broken(data: Data, at_now: float) -> str:
    from betimes.cli.render.jobs import between
    from betimes.cli.render.times import clock

    promise = data["promise"]
    if promise["finish_high_at"] is None:
        text = f"promised {clock(promise['finish_at'], at_now)}"
    else:
        ends = between(promise["finish_low_at"], promise["finish_high_at"], at_now)
        text = f"promised {clock(promise['finish_median_at'], at_now)} {ends}"
    why = f"; {data['because']}" if "because" in data else ""
    if data["finish_at"] is None:
        is_never = data["why"] == "never"
        return f"{text}; it is {'never done as things stand' if is_never else 'not done yet'}{why}"
    was = "was" if data["why"] == "ended" else "is expected to be"
    return f"{text}; it {was} done {clock(data['finish_at'], at_now)}{why}"


def _reason(data: Data, _: float) -> str:
    return data["reason"]["text"] if data["reason"] else ""


def _clock_set(data: Data, _: float) -> str:
    from betimes.units import length

    back = data["wall_s"] < 0
    return f"the machine's clock went {'back' if back else 'forward'} {length(abs(data['wall_s']))}"


def _set_aside(data: Data, _: float) -> str:
    if not data:
        return ""  # operators see more
    return f"{data['what']} could not be carried out: {data['error']}; --json shows the traceback"


def _node(data: Data, _: float) -> str:
    machine = data["machine"]
    gpus = f", {machine['gpu']:g} GPU{'' if machine['gpu'] == 1 else 's'}" if machine["gpu"] else ""
    rented = f", rented, {data['status']}" if data.get("rented_at") is not None else ""
    return f"{machine['cpu']:g} cores, {machine['memory_gib']:.3g} GiB{gpus}{rented}"


def _node_is(data: Data, _: float) -> str:
    return data["status"]


def _node_noticed(data: Data, at_now: float) -> str:
    from betimes.cli.render.times import both

    return f"the cloud takes it away {both(data['goes_at'], at_now)}"


def _node_gone(data: Data, _: float) -> str:
    return {
        "given-back": "given back",
        "reclaimed": "reclaimed by the cloud",
        "boot-failed": "it did not boot",
        "left": "it has left its cluster",
    }[data["why"]]


def _node_billed(data: Data, _: float) -> str:
    from betimes.units import usd

    more_usd = data["more_usd"]
    return (
        f"{usd(data['cost_usd'])}, {usd(abs(more_usd))} {'more' if more_usd > 0 else 'less'} than was counted"
    )


def _not_rented(data: Data, _: float) -> str:
    return data["text"]


def _selected(data: Data, _: float) -> str:
    reported = ", reported only" if data["shadow"] else ""
    return f"{data['member']}, the best of {len(data['scores'])} for {data['waiting']} waiting jobs{reported}"


def _problem(data: Data, _: float) -> str:
    return data["problem"]


def _measured(data: Data, _: float) -> str:
    on = f" on {' and '.join(data['on'])}" if data.get("on") else ""
    return f"{data['alone_per_s']:.4g} steps a second with its machines to itself{on}"


def _ordered(data: Data, _: float) -> str:
    return f"a machine of type {data['type']}"


def _maintenance(data: Data, at_now: float) -> str:
    from betimes.cli.render.times import to_the_minute

    when = f"from {to_the_minute(data['from_at'], at_now)} to {to_the_minute(data['to_at'], at_now)}"
    window = f"{data['number']}, of {', '.join(data['nodes']) or 'all nodes'}, {when}"
    window += f": {data['reason']}" if data["reason"] else ""
    if not data["running"]:
        return window
    return f"{window}; may hit job{'s' if len(data['running']) > 1 else ''} {', '.join(map(str, data['running']))}"


def _opened(_data: Data, _: float) -> str:
    return "for the first time"


def _policy(data: Data, _: float) -> str:
    front = data.get("front")
    if front is None:
        return data["policy"]
    names = "".join(f", {name}" for name in front["names"])
    return f"{data['policy']} (point {front['point']}{names} of the front of event {front['event']})"


def _user_set(data: Data, _: float) -> str:
    limits = "".join(f", {name}={value:g}" for name, value in data["limits"].items())
    off = ", disabled" if data["disabled"] else ""
    return f"{data['user']}: {data['role']}, weight {data['weight']:g}{limits}{off}"


_PHRASES: dict[str, Callable[[Data, float], str]] = {
    "opened": _opened,
    "submitted": _submitted,
    "queued": _queued,
    "granted": _granted,
    "nominated": _nominated,
    "migrating": _migrating,
    "moved": _moved,
    "measured": _measured,
    "parallelism-changed": _width,
    "reserved": _reserved,
    "stopping": _told,
    "launched": _launched,
    "started": _started,
    "resized": _resized,
    "restarted": _restarted,
    "preempts": _displaces,
    "trouble": _trouble,
    "set-aside": _set_aside,
    "clock-set": _clock_set,
    "ended": _ended,
    "work-lost": _goes_on,
    "requeued": _reason,
    "suspended": _reason,
    "resumed": lambda data, _: f"run {data['number']} goes on",
    "signalled": lambda data, _: f"run {data['number']} is sent {data['signal']}",
    "blocked": _reason,
    "retries": _reason,
    "held": _reason,
    "edited": _edited,
    "failed": _reason,
    "cancelled": _reason,
    "idle": _reason,
    "finished": _finished,
    "estimate-changed": _believed,
    "quoted": _quoted,
    "promise-broken": _broken,
    "node-added": _node,
    "node-status": _node_is,
    "node-noticed": _node_noticed,
    "node-gone": _node_gone,
    "node-billed": _node_billed,
    "maintenance-set": _maintenance,
    "maintenance-removed": lambda data, _: f"maintenance {data['number']}",
    "maintenance-over": lambda data, _: f"maintenance {data['number']}",
    "not-rented": _not_rented,
    "limit-reached": _not_rented,
    "ordered": _ordered,
    "selected": _selected,
    "not-selected": _problem,
    "not-planned": _problem,
    "instruction-refused": _problem,
    "rents": _reason,
    "unrented": _reason,
    "policy-set": _policy,
    "user-set": _user_set,
    "fair-share-set": _fair_share,
}


def _cost(of_what: str, data: Data, name: str) -> str:
    """The cost that an event adds to a preemption, if any."""
    from betimes.cli.render.jobs import node_seconds

    cost = data["preemption"][name] if "preemption" in data else None
    return f"; {of_what} cost {node_seconds(cost)}" if cost else ""


def _units(units: float) -> str:
    return f"{units:g} unit{'' if units == 1 else 's'}"


def _on(places: list[list[Any]]) -> str:
    """` on here`, ` on a (3), b (1)`; empty if the policy leaves the nodes open."""
    if len(places) <= 1:
        return f" on {places[0][0]}" if places else ""
    return " on " + ", ".join(f"{node} ({units})" for node, units in places)


def _plainly(data: Data) -> str:
    parts: list[str] = []
    for name, value in data.items():
        text = _short(value)
        if text:
            parts.append(text if isinstance(value, dict) else f"{name}={text}")
    return " ".join(parts)


def _short(value: Any) -> str:
    """A value in few words; of a table only its `text`."""
    if isinstance(value, dict):
        return str(value.get("text", ""))
    if isinstance(value, list):
        return ",".join(filter(None, map(_of_list, value)))
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.0f}"
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _of_list(item: Any) -> str:
    """An entry of a list; a pair, such as a node and its units, becomes `here:4`."""
    return ":".join(map(str, item)) if isinstance(item, list) else _short(item)
