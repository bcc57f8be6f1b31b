"""The text of a file, plain or gzipped."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path

from betimes.errors import ClusterError

_GZIP_MAGIC = b"\x1f\x8b"
_MOST_BYTES = 64 * 2**20


def read_text(path: Path) -> str:
    """The text of a file, plain or gzipped; raises ClusterError."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if data.startswith(_GZIP_MAGIC):
            # Bounded, so that a tiny archive cannot fill the memory.
            with gzip.open(io.BytesIO(data)) as packed:
                data = packed.read(_MOST_BYTES + 1)
    except (EOFError, zlib.error) as error:
        raise ClusterError(
            f"{path}: the gzip data is truncated or damaged ({error}); fetch the file again"
        ) from None
    except (OSError, ValueError) as error:
        # gzip.BadGzipFile is an OSError, too: it has no strerror.
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ClusterError(f"{path}: cannot be read ({reason})") from None
    if len(data) > _MOST_BYTES:
        raise ClusterError(f"{path}: larger than {_MOST_BYTES >> 20} MiB: this is not a list of nodes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ClusterError(f"{path}, line {line}: not UTF-8 text; save the file in UTF-8") from None
