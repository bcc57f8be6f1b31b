"""Lots that depend only on a seed, the number of the draw and the job: the same live and simulated."""

from __future__ import annotations

from betimes.kernels import kernel

LOW_32 = 0xFFFFFFFF


@kernel
def lot(seed: int, draw: int, seq: int) -> float:
    """A uniform number from 0 up to 1 for one job in one draw."""
    return _mixed(_mixed(_mixed(seed & LOW_32) + draw) + seq) / 4294967296.0


@kernel
def _mixed(number: int) -> int:
    """A 32-bit hash of `number`; products stay within 63 bits."""
    bits = number & LOW_32
    bits = ((bits ^ (bits >> 16)) * 0x45D9F3B) & LOW_32
    bits = ((bits ^ (bits >> 16)) * 0x45D9F3B) & LOW_32
    return bits ^ (bits >> 16)
