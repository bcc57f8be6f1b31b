"""Old rows go in small transactions, so that the writer never waits long for its turn."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import Delete, delete, select, tuple_

from betimes.service.store.databases import schema
from betimes.service.store.databases.database import Database

_EVENTS, _JOBS, _ANSWERS = schema.events, schema.jobs, schema.answers


class Removal:
    """Removes from a database; `turn` is held for one small transaction at a time."""

    def __init__(self, database: Database, turn: AbstractContextManager[Any]) -> None:
        self._database, self._turn = database, turn

    def events(self, first: int, upto: int, batch: int) -> None:
        """Events `first` to `upto`, oldest first, so that what is left has no gap."""
        for last in range(first + batch - 1, upto + batch, batch):
            self._run(delete(_EVENTS).where(_EVENTS.c.event_id <= min(last, upto)))

    def jobs(self, over_before_at: float, batch: int) -> int:
        """Jobs that ended before that instant; their runs, quotes and labels go with them."""
        oldest = (
            select(_JOBS.c.job_id)
            .where(_JOBS.c.finished_at < over_before_at, _JOBS.c.status.in_(schema.OVER))
            .order_by(_JOBS.c.finished_at, _JOBS.c.job_id)
            .limit(batch)
        )
        return self._until_none_is_left(lambda: delete(_JOBS).where(_JOBS.c.job_id.in_(oldest)))

    def answers(self, before_at: float, batch: int) -> int:
        """Answers that were given before that instant."""
        key = (_ANSWERS.c.user, _ANSWERS.c.key)
        oldest = select(*key).where(_ANSWERS.c.at_s < before_at).limit(batch)
        return self._until_none_is_left(lambda: delete(_ANSWERS).where(tuple_(*key).in_(oldest)))

    def _until_none_is_left(self, statement: Callable[[], Delete]) -> int:
        removed = 0
        while count := self._run(statement()):
            removed += count
        return removed

    def _run(self, statement: Delete) -> int:
        compiled: Any = statement.compile(
            dialect=self._database.dialect, compile_kwargs={"render_postcompile": True}
        )
        parameters = tuple(compiled.params[name] for name in compiled.positiontup)
        with self._turn, self._database.writing() as cursor:
            cursor.execute(str(compiled), parameters)
            return cursor.rowcount
