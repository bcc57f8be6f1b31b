"""Functions that Numba compiles, and the data that they share with Python.

``kernel``    a function that other kernels call. It is linked into each entry that needs it.
``entry``     a kernel that Python calls: compiled, or loaded from the cache, when it is first called.
``hook``      a function that a compiled loop calls through a pointer, such as a policy's.
``Struct``    arrays, numbers and hooks, passed to a kernel as one address.

Numba optimises every function by itself together with all that it calls, so that compile time grows with the depth of
the calls. Here a kernel is only translated; LLVM optimises once for each entry, all of its kernels together
(`linking`). Compiled code is cached under a hash of the code that it depends on (`cache`, `fingerprint`).

Environment: ``NUMBA_DISABLE_JIT=1`` runs the same sources interpreted; ``BETIMES_BOUNDSCHECK=1`` compiles them with
index checks; ``BETIMES_CACHE_DIR`` moves the cache.
"""

from betimes.kernels.compiling import (
    Entry,
    checking_indices,
    entry,
    full_kernel,
    hook,
    is_hook_ready,
    kernel,
)
from betimes.kernels.records import (
    Each,
    Floats,
    FloatTable,
    Ints,
    IntTable,
    Records,
    as_array,
    blank,
    record_type,
)
from betimes.kernels.settings import BOUNDSCHECK, INTERPRETED, cache_root
from betimes.kernels.structs import Hook, Struct
from betimes.kernels.views import view_by

__all__ = [
    "BOUNDSCHECK",
    "INTERPRETED",
    "Each",
    "Entry",
    "FloatTable",
    "Floats",
    "Hook",
    "IntTable",
    "Ints",
    "Records",
    "Struct",
    "as_array",
    "blank",
    "cache_root",
    "checking_indices",
    "entry",
    "full_kernel",
    "hook",
    "is_hook_ready",
    "kernel",
    "record_type",
    "view_by",
]
