"""A task with helpers that Python starts for it, and that end with it, in most ways to fail.

The helpers wait for work in a pipe, or for a connection. Whoever ends by an exception says
goodbye to them; whoever crashes does not, and they wait for ever.

The settings are words: who helps, and how the task ends.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor

helpers, end = sys.argv[1:]


def square(number):
    return number * number


if __name__ == "__main__":
    if helpers == "executor":
        helper = ProcessPoolExecutor(2)
        helper.submit(square, 3).result()
    elif helpers == "pool":
        helper = multiprocessing.Pool(2)
        helper.map(square, range(3))
    else:
        helper = multiprocessing.Manager()
        shared = helper.dict(a=1)
    if end == "exception":
        raise RuntimeError("the task failed")
    if end == "crash":
        ctypes.string_at(0)
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(3)
