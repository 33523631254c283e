"""A command that ends when its parent does. In: ``python tied.py <command>``. Out: the command in this process's place.

A server or a training that outlives a soak which was killed would load the machine for ever.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Have the system kill this process when the thread that started it ends; Linux only, elsewhere nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    end_with_parent()
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606 - our own command, which the parent wrote
