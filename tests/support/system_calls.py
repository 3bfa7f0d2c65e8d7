"""A process that is stopped before one of its system calls, whichever it makes, and killed there.

What a process leaves outside itself changes by its system calls alone, so that to be killed before each of them is to
be killed at every moment.
"""

from __future__ import annotations

import ctypes
import os
import posix
import signal
from collections.abc import Callable

TRACE_ME, NEXT_CALL, SET_OPTIONS = 0, 24, 0x4200  # of ptrace(2)
OPTIONS = 0x100001  # calls' stops are told from signals; who is traced dies with who traces
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
LIBC.ptrace.restype = ctypes.c_long
Work = Callable[[], None]


def ptrace(request: int, process: int, data: int = 0) -> None:
    """Ask the system to trace.

    Raises:
        OSError: it doesn't.
    """
    if LIBC.ptrace(request, process, 0, data) == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def system_calls(prepare: Callable[[], Work], *, kill_before: int | None, before_kill: Work = lambda: None) -> int:
    """Do some work in a process of its own, which is killed before one of its system calls.

    Args:
        prepare: called in that process; what it returns is the work, whose calls count.
        kill_before: number of the call, from 0; None to let it end.
        before_kill: called once it stands there.

    Returns:
        How many calls it began, that before which it was killed among them.

    Raises:
        RuntimeError: the work failed.
    """
    process = os.fork()
    if process == 0:
        try:
            ptrace(TRACE_ME, 0)
            work = prepare()
            os.kill(os.getpid(), signal.SIGSTOP)
            work()
            # While coverage is measured `os._exit` is another function, which writes a file by calls that would count.
            posix._exit(0)
        finally:
            posix._exit(1)
    status = os.waitpid(process, 0)[1]
    if os.WIFSTOPPED(status):
        ptrace(SET_OPTIONS, process, OPTIONS)
    stops = passed_on = 0
    while os.WIFSTOPPED(status):
        begun, begins = divmod(stops, 2)  # there is a stop before a call and one after it
        if begins and begun == kill_before:
            before_kill()
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return begun + 1
        ptrace(NEXT_CALL, process, passed_on)
        status = os.waitpid(process, 0)[1]
        passed_on = 0
        if os.WIFSTOPPED(status):
            if os.WSTOPSIG(status) == signal.SIGTRAP | 0x80:
                stops += 1
            else:
                passed_on = os.WSTOPSIG(status)
    code = os.waitstatus_to_exitcode(status)
    if code != 0:
        raise RuntimeError(f"the work ended with {code}")
    return (stops + 1) // 2
