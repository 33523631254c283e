"""Freed memory back to the system. In: nothing. Out: a smaller process, where the C library can do that."""

from __future__ import annotations

import ctypes
import gc


def give_back() -> None:
    """Free what only refers to itself, and have glibc return what it keeps of freed memory; others keep it.

    Tables hold cycles, which Python frees late. A judge frees tensors of megabytes all the time, and glibc keeps such
    pieces: after a crowd tens of megabytes stay that nobody uses (glibc manual, "Malloc Tunable Parameters").
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
