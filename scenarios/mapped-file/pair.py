#!/usr/bin/env python3
"""Reads a file of tensors for half a second while another process writes it anew.

What is read is mapped, and the mapping ends where the file did when it was opened: whoever makes
the file shorter in the meantime, to write it from the start, takes the ground away under it.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time

import numpy
from safetensors.numpy import load_file, save_file

COUNT = 1_000_000
SECONDS = 0.5


def write(file):
    save_file({"weights": numpy.zeros(COUNT, dtype=numpy.float32)}, file)


def write_for_ever(file):
    reader = os.getppid()
    while os.getppid() == reader:
        write(file)


def read(file):
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        try:
            load_file(file)
        except Exception:
            # Half a file is no file of tensors; that much a reader can bear.
            pass


if len(sys.argv) > 1:
    write_for_ever(sys.argv[1])

with tempfile.TemporaryDirectory() as folder:
    file = os.path.join(folder, "checkpoint")
    write(file)
    writer = subprocess.Popen([sys.executable, __file__, file])
    try:
        read(file)
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()
