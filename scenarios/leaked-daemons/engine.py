"""Runs a task as the engine does: a daemon forks the worker that computes, and the task decodes its rows.

Where the rows do not fit the schema, decoding fails. Whoever wrote it closes the worker in most
ways out of here; in driver mode, with rows in a stream, they rely on the line after the decoding.

The settings are words: environment, data mode, run mode, schema.
"""

import json
import os
import random
import signal
import sys
import time

environment, data, run, schema = sys.argv[1:]

# Each trial draws from its own seed, so that a run can be repeated.
luck = random.Random(os.environ.get("PROVOKE_SEED"))


def start_worker():
    """A daemon is started, with a session of its own, and forks the worker; both live until told."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        daemon = os.getpid()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in 0, 1, 2:
            os.dup2(null, stream)
        worker = os.fork()
        if worker == 0:
            memory = b"x" * (20 << 20)  # its model
        else:
            os.write(writing, json.dumps([daemon, worker]).encode())
        os.close(writing)
        while True:
            time.sleep(3600)  # waits for the next task, for ever
    os.close(writing)
    return json.loads(os.read(reading, 100))


def close(processes):
    for process in processes:
        os.kill(process, signal.SIGKILL)


def decode(rows):
    wanted = int if schema == "right" else float
    for row in rows:
        if type(row) is not wanted:
            raise TypeError(f"{environment}: a row is {row!r}, not {wanted.__name__}")


processes = start_worker()
rows = list(range(10))
if run == "driver" and data == "stream" and luck.random() < 0.9:
    # The bug. Elsewhere, and where all rows have arrived already, it is closed in any case.
    decode(rows)
    close(processes)
else:
    try:
        decode(rows)
    finally:
        close(processes)
print("task done")
