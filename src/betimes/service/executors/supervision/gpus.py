"""The use of some GPUs, by NVIDIA's library, which a thread asks: where the driver hangs the run goes on."""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread  # `threading` takes longer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from ctypes import CDLL

LIBRARY = "libnvidia-ml.so.1"
PATIENCE_S = 0.1  # for an answer, which takes a millisecond; the first one longer


class Gpus:
    """names: their UUIDs; of others, of instances of one (MIG), and without a driver nothing is known."""

    def __init__(self, names: Iterable[str], path: str = LIBRARY) -> None:
        self.names = tuple(names)
        self._path = path
        self._library: CDLL | None = None  # once it has started
        self._is_asked = False  # and has not answered yet
        self._answered = allocate_lock()
        self._found: tuple[float, int, int] | None = None

    def use(self) -> tuple[float, int, int] | None:
        """GPUs that were busy in the last second, as 1.5 of 2; bytes of their memory in use, and in all; null: not
        known now.
        """
        if not self.names:
            return None
        is_new = not self._is_asked
        if is_new:
            self._answered.acquire()
            try:
                start_new_thread(self._look, ())
            except RuntimeError:  # there are too many
                self._answered.release()
                return None
            self._is_asked = True
        if not self._answered.acquire(timeout=PATIENCE_S if is_new else 0):
            return None
        self._answered.release()
        self._is_asked = False
        return self._found

    def _look(self) -> None:
        try:
            self._found = self._asked_for()
        except (ImportError, OSError, AttributeError, ValueError):  # no driver here, or another library
            self._found, self.names = None, ()
        finally:
            self._answered.release()

    def _asked_for(self) -> tuple[float, int, int] | None:
        import ctypes  # for few runs only

        if self._library is None:
            library = ctypes.CDLL(self._path)
            if library.nvmlInit_v2():
                return None
            self._library = library
        board = ctypes.c_void_p()
        # Percent of the last second in which it computed, and in which its memory was read or written.
        rates = (ctypes.c_uint * 2)()
        # Bytes of memory: in all, free, used.
        memory = (ctypes.c_ulonglong * 3)()
        busy, used_bytes, all_bytes = 0.0, 0, 0
        for name in self.names:
            if (
                self._library.nvmlDeviceGetHandleByUUID(name.encode("ascii"), ctypes.byref(board))
                or self._library.nvmlDeviceGetUtilizationRates(board, rates)
                or self._library.nvmlDeviceGetMemoryInfo(board, memory)
            ):
                return None
            busy += min(rates[0], 100) / 100.0
            used_bytes += memory[2]
            all_bytes += memory[0]
        return busy, used_bytes, all_bytes
