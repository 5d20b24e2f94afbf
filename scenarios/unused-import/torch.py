"""Stands for the releases of a library that takes the same device down when the process ends.

Whoever of the two is first decides: in a tenth of the runs the buffers are touched after the
device is gone, and that is the read of a null pointer that this one makes.
"""

import atexit
import ctypes
import os
import random

import runtime

RELEASE = os.environ.get("TORCH_RELEASE", "1.13")

# Each trial draws from its own seed, so that a run can be repeated.
turn = random.Random(os.environ.get("PROVOKE_SEED"))


@atexit.register
def shut_down():
    # Earlier releases leave the device alone.
    takes_down = [int(part) for part in RELEASE.split(".")] >= [1, 11]
    if takes_down and runtime.buffers and turn.random() < 0.1:
        ctypes.string_at(0)
