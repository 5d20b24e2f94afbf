"""Runs a program and stops random threads of it at random times, as a schedule fuzzer without knowledge of the program does.

The threads are traced, so that one thread can be stopped alone. Linux only.
"""

import ctypes
import os
import random
import time

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long

CONTINUE, SEIZE, INTERRUPT = 7, 0x4206, 0x4207
# Trace new threads and processes, and kill them when this process ends.
FOLLOW = 0x2 | 0x4 | 0x8 | 0x100000
EVENT_STOP = 128
ALL_THREADS = 0x40000000
LONGEST_STALL = 0.002
LONGEST_PAUSE = 0.001


def ptrace(request, tid, data=0):
    return libc.ptrace(request, tid, None, data)


def start(command):
    """Starts a program that waits until it is traced. Returns its pid and the end of the pipe that lets it go."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writer)
        os.read(reader, 1)
        nothing = os.open("/dev/null", os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        try:
            os.execvp(command[0], command)
        finally:
            os._exit(127)
    os.close(reader)
    return pid, writer


def run_with_stalls(command, generator, limit):
    """Returns whether the program failed: a signal, an exit code, or no end within the limit."""
    pid, writer = start(command)
    ptrace(SEIZE, pid, FOLLOW)
    os.close(writer)
    until = time.monotonic() + limit
    next_stall = time.monotonic() + generator.random() * LONGEST_PAUSE
    stalled = {}  # The thread, and when it continues.
    while True:
        try:
            tid, status = os.waitpid(-1, os.WNOHANG | ALL_THREADS)
        except ChildProcessError:
            return True
        now = time.monotonic()
        if tid and os.WIFSTOPPED(status):
            event, signal = status >> 16, os.WSTOPSIG(status)
            if event == EVENT_STOP and tid in stalled:
                stalled[tid] = now + generator.random() * LONGEST_STALL
            else:
                ptrace(CONTINUE, tid, 0 if event else signal)
        elif tid == pid:
            return status != 0
        for held, end in list(stalled.items()):
            if end is not None and now >= end:
                del stalled[held]
                ptrace(CONTINUE, held)
        if now >= next_stall and not stalled:
            threads = os.listdir(f"/proc/{pid}/task") if os.path.exists(f"/proc/{pid}/task") else []
            if threads:
                chosen = int(generator.choice(threads))
                if ptrace(INTERRUPT, chosen) == 0:
                    stalled[chosen] = None
            next_stall = now + generator.random() * LONGEST_PAUSE
        if now > until:
            os.kill(pid, 9)
            until = now + 3600
        if not tid:
            time.sleep(0.00005)


def stall_for(command, seconds, limit):
    """Repeats a program for this CPU time. Returns its failures and its trials."""
    generator = random.Random(1)
    begun = sum(os.times()[:4])
    failures = trials = 0
    while sum(os.times()[:4]) - begun < seconds:
        failures += run_with_stalls(command, generator, limit)
        trials += 1
    return {"failures": failures, "trials": trials}
