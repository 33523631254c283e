"""Freed memory back to the system. In: nothing. Out: a smaller process, where the C library can do that."""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """Have glibc return what it keeps of freed memory; elsewhere nothing happens.

    A judge frees tensors of megabytes all the time, and glibc keeps such pieces: after a crowd tens of megabytes stay
    that nobody uses (glibc manual, "Malloc Tunable Parameters"; `malloc_trim(3)`).
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
