"""Become a command that can't outlive its parent.

``python -m controller.processes.dies_with PID COMMAND…``

On Linux the kernel kills a process when the thread that started it ends (PR_SET_PDEATHSIG; it
survives ``exec``). Set here, after the fork and before the command, because code run between fork
and exec in a process with threads may deadlock. Elsewhere the command is run as it is.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Never returns: becomes the command, or ends when the parent is already gone."""
    parent, command = int(arguments[0]), arguments[1:]
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(f"the parent {parent} is gone")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
