"""The module `signal` without its enums, whose import takes as long as all of Python's own start."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    try:
        import _signal as signal
    except ImportError:  # another implementation of Python
        import signal

__all__ = ["signal"]
