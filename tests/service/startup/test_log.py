"""The lines of the service's log."""

from __future__ import annotations

import logging
import sys

from betimes.service.startup.log import OneLine


def test_no_text_in_the_log_forges_a_line_of_it() -> None:
    evil = "job x\nbetimes: all is well\x1b[2J"
    try:
        raise ValueError(evil)
    except ValueError:
        record = logging.LogRecord("betimes", logging.ERROR, "here", 1, "%s fails", (evil,), sys.exc_info())
    first, *others = OneLine().format(record).splitlines()
    assert first == "betimes: job x betimes: all is well\\x1b[2J fails"
    assert "    betimes: all is well\\x1b[2J" in others
    assert {line[:4] for line in others} == {"    "}
