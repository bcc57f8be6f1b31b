"""The entry point: runs a verb, and ends every failure with one line on standard error and an exit code."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from betimes.cli import verbs
from betimes.cli.live.following import INTERRUPTED, Left
from betimes.errors import BetimesError
from betimes.extras import explained
from betimes.printing import report

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from typer import TyperException

FAILED = 1


def program() -> int:
    """Run the command `betimes`; returns the exit code, unless the process of a verb that simulates has ended here."""
    code = main()
    is_called = sys._getframe(1).f_back is not None  # a profiler, say, that goes on afterwards
    if sys.argv[1:2] and sys.argv[1] in verbs.SIMULATE and not is_called:
        _end_without_freeing(code)
    return code


def main(arguments: Sequence[str] | None = None, run: Callable[[list[str]], int] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 2 for bad input, 130 for Ctrl-C, 1 for anything else.

    run: what runs a verb; by default a call without mistakes runs directly, and another as a command of Typer.
    """
    signal.signal(signal.SIGTERM, _end)
    sys.unraisablehook = _again_if_lost
    try:
        words = verbs.with_verb(sys.argv[1:] if arguments is None else arguments)
        code = _with_interruptions(run or _run, words)
        sys.stdout.flush()
    except BrokenPipeError:
        return _without_reader()
    except Left as left:
        return left.exit_code
    except KeyboardInterrupt:
        code = INTERRUPTED
    except SystemExit as ended:
        _end_at_once_if_busy(ended.code if isinstance(ended.code, int) else FAILED)
        raise
    except BetimesError as error:
        return _fail(str(error), error.exit_code)
    except MemoryError:
        return _fail("there is not enough memory; take fewer jobs (--jobs N) or --processes 1", FAILED)
    except ModuleNotFoundError as error:
        return _fail(explained(error).args[0], FAILED)
    except Exception as error:
        if "typer" in sys.modules:
            from typer import TyperException

            if isinstance(error, TyperException):
                return _fail(_usage(error), error.exit_code)
        hint = "" if _wants_traceback() else " (BETIMES_TRACEBACK=1 shows where)"
        return _fail(f"{type(error).__name__}: {error}{hint}", FAILED)
    if code == INTERRUPTED:
        report("betimes", "interrupted")
        _end_at_once_if_busy(code)
    return code


def _with_interruptions(run: Callable[[list[str]], int], words: list[str]) -> int:
    """Run a verb; an interruption that others have turned into an error of theirs is raised in its place.

    Python does so up to 3.11 while the members of a class, as of an enumeration, are told their names.
    """
    try:
        return run(words)
    except BetimesError:
        raise
    except Exception as error:
        cause = error.__cause__ or error.__context__
        while cause is not None:
            if isinstance(cause, (KeyboardInterrupt, SystemExit)):
                raise cause from None
            cause = cause.__cause__ or cause.__context__
        raise


def _run(words: list[str]) -> int:
    """Run a verb: directly if possible, else as a command of Typer."""
    quick = verbs.quick(words)
    if quick is not None:
        quick()
        return 0
    from betimes.cli.app import command

    return command().main(words, prog_name="betimes", standalone_mode=False) or 0


def _fail(message: str, code: int) -> int:
    if _wants_traceback():
        import traceback

        traceback.print_exc()
    report("betimes", message)
    return code


def _end_at_once_if_busy(code: int) -> None:
    """Exit without waiting for compiled code that cannot be interrupted; unfinished files are removed already."""
    driving = sys.modules.get("betimes.twin.driving")
    if driving is not None and driving.is_left_running():
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _end_without_freeing(code: int) -> None:
    """Exit as the interpreter would, but without freeing compiled code: that takes a fifth of a short simulation.

    Returns if something is left that only the interpreter does: wait for threads, report an output that is lost.
    """
    import atexit
    import threading

    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        return
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code)


def _wants_traceback() -> bool:
    return os.environ.get("BETIMES_TRACEBACK", "") not in ("", "0")


def _usage(error: TyperException) -> str:
    """Typer's message for a mistake in the arguments; for a value that pydantic refused for it, in our words."""
    from typer import BadParameter

    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "betimes"
    if isinstance(error, BadParameter) and error.__cause__ is not None:
        from pydantic import ValidationError

        from betimes.service.spec.spec_errors import first_fault

        if isinstance(error.__cause__, ValidationError):
            error.message = first_fault(error.__cause__)
    message = error.format_message().rstrip(". ")
    return f"{message}{'' if message.endswith('?') else ';'} `{where} --help` shows more"


def _without_reader() -> int:
    """Handle a closed output pipe (`betimes ... | head`): print nothing more, also at the interpreter's end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return FAILED


def _end(number: int, _: FrameType | None) -> None:
    """End on a signal as on Ctrl-C: workers are stopped and unfinished files removed."""
    sys.exit(128 + number)


def _again_if_lost(lost: sys.UnraisableHookArgs) -> None:
    """Raise an interrupt again that arrived inside a finaliser, where Python can only ignore it."""
    error = lost.exc_value
    if not isinstance(error, (KeyboardInterrupt, SystemExit)):
        sys.__unraisablehook__(lost)
        return

    def once_more(_: int, __: FrameType | None) -> None:
        raise error

    signal.signal(signal.SIGALRM, once_more)
    signal.setitimer(signal.ITIMER_REAL, 0.05)


if __name__ == "__main__":
    sys.exit(program())
