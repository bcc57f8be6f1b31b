"""`betimes users`: who shares the service, and how much each may have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from betimes.cli.live.listing import Shown, show_list
from betimes.cli.render.tables import Column
from betimes.cli.verbs import Argument, Json, Option, Output, State
from betimes.errors import InputError, Refused
from betimes.printing import report

if TYPE_CHECKING:
    from betimes.client.plain import PlainClient
    from betimes.service.views.groups import GroupView
    from betimes.service.views.models import TokenView, UserView

Name = Annotated[str, Argument(metavar="NAME", help="The user's name.", show_default=False)]
Role = Annotated[
    Literal["viewer", "user", "operator"] | None,
    Option(
        "--role",
        help="viewer: sees the queue and the account; user: runs jobs, too; operator: everything.",
        show_default=False,
    ),
]
Weight = Annotated[
    float | None,
    Option(
        "--weight",
        metavar="W",
        help="Of the fair share: a user of weight 2 is to have twice as much as one of weight 1.",
        show_default=False,
    ),
]


def _limit(flag: str, metavar: str, what: str) -> Option:
    return Option(flag, metavar=metavar, help=f"{what}; none: no limit.", show_default=False)


Running = Annotated[str | None, _limit("--max-running-jobs", "N", "Jobs that run at once")]
Queued = Annotated[str | None, _limit("--max-queued-jobs", "N", "Jobs that wait at once")]
Units = Annotated[str | None, _limit("--max-units", "N", "Units of the jobs that run, together")]
Memory = Annotated[
    str | None, _limit("--max-memory", "SIZE", "Memory of the jobs that run, together, as in 64GiB")
]
Money = Annotated[str | None, _limit("--max-usd-per-day", "USD", "Money for rented machines, a day")]
Longest = Annotated[str | None, _limit("--max-time", "TIME", "The longest time limit of a job, as in 4h")]
Usual = Annotated[
    str | None,
    _limit("--default-time", "TIME", "The time limit of a job that has none; by default the longest"),
]
Elements = Annotated[str | None, _limit("--max-array", "N", "Elements of an array")]

_LIMITS = {
    "max_running_jobs": "--max-running-jobs",
    "max_queued_jobs": "--max-queued-jobs",
    "max_units": "--max-units",
    "max_memory_gib": "--max-memory",
    "max_usd_per_day": "--max-usd-per-day",
    "max_time_s": "--max-time",
    "default_time_s": "--default-time",
    "max_array": "--max-array",
}
_COLUMNS = (
    Column("User", flexible=True),
    Column("Role"),
    Column("Weight", rank=1, right=True),
    Column("Running", rank=2, right=True),
    Column("Queued", rank=3, right=True),
    Column("Units", rank=2, right=True),
    Column("Memory", rank=4, right=True),
    Column("Longest", rank=5, right=True),
    Column("Array", rank=6, right=True),
    Column("Today", rank=4, right=True),
    Column("This month", rank=5, right=True),
)


def _part(frac: float | None) -> str:
    return "" if frac is None else f"{frac:.0%}"


_GROUP_COLUMNS: Shown[GroupView] = (
    (Column("Group", flexible=True), lambda group: group.name),
    (Column("Users", rank=1, flexible=True), lambda group: ", ".join(group.users)),
    (Column("Weight", rank=1, right=True), lambda group: f"{group.weight:g}"),
    (
        Column("Running", rank=2, right=True),
        lambda group: _count_of(group.held.running_jobs, group.max_running_jobs),
    ),
    (
        Column("Queued", rank=3, right=True),
        lambda group: _count_of(group.held.queued_jobs, group.max_queued_jobs),
    ),
    (Column("Units", rank=2, right=True), lambda group: _count_of(group.held.units, group.max_units)),
    (Column("Of late", rank=3, right=True), lambda group: _part(group.recent_frac)),
    (Column("Share", rank=3, right=True), lambda group: _part(group.share_frac)),
    (Column("Today", rank=4, right=True), lambda group: _spent(group, "day")),
    (Column("This month", rank=5, right=True), lambda group: _spent(group, "month")),
)


_TOKEN_COLUMNS = (
    Column("User", flexible=True),
    Column("Token", flexible=True),
    Column("Made", rank=2),
    Column("Good until"),
    Column("Last used", rank=1),
)


def list_users(output: Output = None, state: State = None, as_json: Json = False) -> None:
    """List the users: role, weight of the fair share, and what each has of the most that it may have.

    The last columns are what rented machines have cost for the user's jobs in this day and month (UTC), of the budget:
    the share that each run held of machines that jobs share, and all of machines rented for one job alone.
    """
    from betimes.cli.live.connection import connect

    with connect(state) as service:
        _print(service.users(), as_json, wide=output is not None)


def list_groups(output: Output = None, state: State = None, as_json: Json = False) -> None:
    """List the groups of users: what each has of its limits and budgets, and of the fair share.

    They are tables [[groups]] in the service's settings. Who does not operate the service sees the own one.
    """
    none = "There are no groups; tables [[groups]] in the service's settings make some."
    show_list(
        lambda service: service.groups(),
        _GROUP_COLUMNS,
        none,
        state,
        as_json=as_json,
        wide=output is not None,
    )


def add(
    name: Name,
    role: Role = None,
    weight: Weight = None,
    running: Running = None,
    queued: Queued = None,
    units: Units = None,
    memory: Memory = None,
    usd: Money = None,
    longest: Longest = None,
    usual: Usual = None,
    elements: Elements = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Add a user, by default of the role `user` and the weight 1, without limits."""
    limits = _limits(running, queued, units, memory, usd, longest, usual, elements)
    fields = _given(role=role, weight=weight, limits=_given(**limits) or None)
    _do(state, as_json, lambda service: service.add_user(name, **fields))


def change(
    name: Name,
    role: Role = None,
    weight: Weight = None,
    running: Running = None,
    queued: Queued = None,
    units: Units = None,
    memory: Memory = None,
    usd: Money = None,
    longest: Longest = None,
    usual: Usual = None,
    elements: Elements = None,
    enable: Annotated[
        bool, Option("--enable", help="Let a disabled user in again, with the tokens that are still good.")
    ] = False,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Change a user's role, weight or limits; what is not given stays as it is."""
    changes = _given(
        role=role,
        weight=weight,
        limits=_limits(running, queued, units, memory, usd, longest, usual, elements) or None,
        disabled=False if enable else None,
    )
    if not changes:
        raise InputError(
            "nothing to change: give --role, --weight, --enable or a limit, as in --max-units 64"
        )
    _do(state, as_json, lambda service: service.change_user(name, **changes))


def disable(name: Name, state: State = None, as_json: Json = False) -> None:
    """Let a user in no more, with any token; `users set --enable` undoes it. The user's jobs go on."""
    _do(state, as_json, lambda service: service.change_user(name, disabled=True))


def make_token(
    name: Name,
    token_name: Annotated[
        str, Option("--name", metavar="NAME", help="Of the user's tokens, as in laptop; to revoke it by.")
    ] = "token",
    expires: Annotated[
        str | None,
        Option(
            "--expires",
            metavar="TIME",
            help="For how long it is good, as in 90d; by default until it is revoked.",
            show_default=False,
        ),
    ] = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Make a token for a user, and print it this once: whoever has it is that user.

    The user gives it to commands as BETIMES_TOKEN, with BETIMES_URL, and signs in to the pages with it.
    """
    from betimes.cli.duration_options import parse_option
    from betimes.cli.live.connection import connect
    from betimes.cli.render.as_json import print_json

    expires_s = None if expires is None else parse_option("--expires", expires, least_s=1.0)
    with connect(state) as service:
        found = service.make_token(name, token_name, expires_s)
    if as_json:
        print_json(found)
    else:
        print(found.token)
        _warn(found.note)


def list_tokens(
    name: Annotated[
        str | None, Argument(metavar="[NAME]", help="Of this user; by default of all.", show_default=False)
    ] = None,
    output: Output = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """List the tokens of users: until when each is good, and when it was used last."""
    from betimes.cli.live.connection import connect

    with connect(state) as service:
        _print_tokens(service.tokens(name), as_json, wide=output is not None)


def revoke(
    name: Name,
    token_name: Annotated[str, Argument(metavar="TOKEN", help="The token's name.", show_default=False)],
    state: State = None,
    as_json: Json = False,
) -> None:
    """Accept a token of a user no more."""
    from betimes.cli.live.connection import connect

    with connect(state) as service:
        _print_tokens(service.revoke_token(name, token_name), as_json)


def _limits(*texts: str | None) -> dict[str, float | None]:
    """The limits that were given, in the order of `_LIMITS`; None: to be removed. Raises InputError."""
    from betimes.units import parse_duration, parse_gib

    kinds: tuple[Callable[[str], float], ...]
    kinds = (int, int, int, parse_gib, float, parse_duration, parse_duration, int)
    found: dict[str, float | None] = {}
    for (name, flag), text, kind in zip(_LIMITS.items(), texts, kinds, strict=True):
        if text is None:
            continue
        try:
            found[name] = None if text == "none" else kind(text)
        except ValueError as error:
            why = (
                str(error)
                if kind in (parse_gib, parse_duration)
                else f"expected a number or none, not {text!r}"
            )
            raise InputError(f"{flag}: {why}") from None
    return found


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _do(state: str | None, as_json: bool, act: Callable[[PlainClient], UserView]) -> None:
    from betimes.cli.live.connection import connect

    with connect(state) as service:
        try:
            found = act(service)
        except Refused as refused:
            field = refused.field or ""
            option = _LIMITS.get(
                field.removeprefix("limits."), f"--{field}" if field in ("role", "weight") else field
            )
            text = str(refused).removeprefix(f"{field}: ")
            raise InputError(f"{option}: {text}" if option else text) from None
    _print([found], as_json, alone=True)


def _print(found: Sequence[UserView], as_json: bool, *, wide: bool = False, alone: bool = False) -> None:
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.tables import say, show
    from betimes.units import gib, length

    if as_json:
        print_json(found[0] if alone else found)
        return
    if not found:
        say(
            "No user was added: whoever has the token in STATE/token does everything. `betimes users add` adds one."
        )
        return
    rows = []
    for user in found:
        limits, held = user.limits, user.held
        counts = (
            (held.running_jobs, limits.max_running_jobs),
            (held.queued_jobs, limits.max_queued_jobs),
            (held.units, limits.max_units),
        )
        rows.append(
            [
                user.name,
                f"{user.role}, disabled" if user.disabled else user.role,
                f"{user.weight:g}",
                *(_count_of(has, most) for has, most in counts),
                _of(
                    gib(held.memory_gib),
                    None if limits.max_memory_gib is None else gib(limits.max_memory_gib),
                ),
                "" if limits.max_time_s is None else length(limits.max_time_s),
                "" if limits.max_array is None else f"{limits.max_array:,}",
                *(_spent(user, period) for period in ("day", "month")),
            ]
        )
    show(_COLUMNS, rows, wide=wide)
    if alone:
        _warn(found[0].note)


def _of(has: str, most: str | None) -> str:
    """`3 of 40`; without a limit `3`, or nothing where nothing is held."""
    return ("" if has in ("0", "0 GiB", "$0.00") else has) if most is None else f"{has} of {most}"


def _count_of(has: int, most: int | None) -> str:
    return _of(f"{has:,}", None if most is None else f"{most:,}")


def _spent(user: UserView | GroupView, period: str) -> str:
    """`$1.20 of $5.00`, in the present day or month."""
    from betimes.units import usd

    found = next((each for each in user.spent if each.period == period), None)
    if found is None:
        return ""
    return _of(usd(found.spent_usd), None if found.budget_usd is None else usd(found.budget_usd))


def _warn(note: str | None) -> None:
    """Say on standard error why the user's jobs would be refused."""
    if note is not None:
        report("betimes: note", f"jobs of this user would be refused: {note}")


def _print_tokens(found: Sequence[TokenView], as_json: bool, *, wide: bool = False) -> None:
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.tables import say, show
    from betimes.cli.render.times import clock, now, relative

    if as_json:
        print_json(found)
        return
    if not found:
        say("No such token was made; `betimes users token NAME` makes one.")
        return
    at_now = now()

    def until(token: TokenView) -> str:
        if token.revoked_at is not None:
            return f"revoked {relative(token.revoked_at, at_now)}"
        if token.expires_at is None:
            return "no end"
        return (
            f"expired {relative(token.expires_at, at_now)}"
            if token.expires_at <= at_now
            else clock(token.expires_at, at_now)
        )

    rows = [
        [
            token.user,
            token.name,
            clock(token.made_at, at_now),
            until(token),
            "never" if token.used_at is None else relative(token.used_at, at_now),
        ]
        for token in found
    ]
    show(_TOKEN_COLUMNS, rows, wide=wide)
