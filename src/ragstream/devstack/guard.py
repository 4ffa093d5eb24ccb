"""Starts one server so that it can't outlive the process that asked for it.

    guard.py PARENT_PID STOP_SIGNAL GRACE USER MODE command …

``USER`` is ``-`` or ``uid:gid``, to become before the server starts. With ``MODE`` ``exec`` (Linux)
the guard asks the kernel for ``STOP_SIGNAL`` at the end of its parent and becomes the server, so it
costs nothing. With ``watch`` (anywhere) it stays: its standard input is a pipe from the parent, and
the end of that pipe means the parent is gone. It then sends ``STOP_SIGNAL``, and SIGKILL ``GRACE``
seconds later.

The kernel looks at the parent's *thread*: the thread that starts a guard must live as long as the
server. Standard library only, and no import of the package: it starts in a few milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from types import FrameType

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    parent, stop_signal, grace, user, mode, *command = arguments
    become(user)
    if mode == "exec":
        die_with_parent(int(parent), int(stop_signal))
        try:
            os.execvp(command[0], command)  # noqa: S606 - the guard becomes the server
        except OSError as error:
            sys.stderr.write(f"{command[0]}: {error.strerror}\n")
            return 127
    return watch(command, int(stop_signal), float(grace))


def become(user: str) -> None:
    if user == "-":
        return
    uid, gid = map(int, user.split(":"))
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def die_with_parent(parent: int, stop_signal: int) -> None:
    """After ``become``: the kernel forgets the wish when the user changes."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, stop_signal, 0, 0, 0)
    if os.getppid() != parent:  # it died before we asked
        sys.exit(1)


def watch(command: list[str], stop_signal: int, grace: float) -> int:
    try:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return 127

    def forward(signum: int, frame: FrameType | None) -> None:
        server.send_signal(signum)

    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, forward)

    def follow_parent() -> None:
        while os.read(0, 4096):
            pass
        server.send_signal(stop_signal)
        try:
            server.wait(grace)
        except subprocess.TimeoutExpired:
            server.kill()

    threading.Thread(target=follow_parent, daemon=True).start()
    code = server.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
