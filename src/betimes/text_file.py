"""The text of a small file that a user hands over, plain or gzipped."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable
from pathlib import Path

_GZIP_MAGIC = b"\x1f\x8b"
_MOST_BYTES = 64 * 2**20


def read_text(path: Path, failure: Callable[[str, int | None], Exception], what: str) -> str:
    """All of a UTF-8 file. `what` names its expected content ("a list of nodes").

    Raises what `failure(message, line)` returns for an unreadable file, a damaged archive, more than 64 MiB, or text
    that is not UTF-8 (with its line).
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if data.startswith(_GZIP_MAGIC):
            # Bounded, so that a tiny archive cannot fill the memory.
            with gzip.open(io.BytesIO(data)) as packed:
                data = packed.read(_MOST_BYTES + 1)
    except (EOFError, zlib.error) as error:
        message = f"the gzip data is truncated or damaged ({error}); fetch the file again"
        raise failure(message, None) from None
    except (OSError, ValueError) as error:
        # gzip.BadGzipFile is an OSError, too: it has no strerror.
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise failure(f"cannot be read ({reason})", None) from None
    if len(data) > _MOST_BYTES:
        raise failure(f"larger than {_MOST_BYTES >> 20} MiB: this is not {what}", None)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise failure("not UTF-8 text; save the file in UTF-8", line) from None
