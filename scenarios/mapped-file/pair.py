#!/usr/bin/env python3
"""Reads a file of tensors, and another process writes the next checkpoint under the same name.

What is read is mapped, and the mapping ends where the file did when it was opened: whoever makes
the file shorter in the meantime, to write it from the start, takes the ground away under it.

Whether the next one is written in that moment or a little earlier is what chance decides elsewhere.
Here each trial draws it from its own seed, so that it does not depend on the machine.
"""

import os
import random
import subprocess
import sys
import tempfile

import numpy
from safetensors import safe_open
from safetensors.numpy import save_file

COUNT = 1_000_000


def write(file, count):
    save_file({"weights": numpy.ones(count, dtype=numpy.float32)}, file)


def write_when_told(file):
    for _ in sys.stdin:
        write(file, COUNT // 2)
        print("written", flush=True)


def read(file, write_next):
    in_that_moment = random.Random(os.environ.get("PROVOKE_SEED")).random() < 0.75
    if not in_that_moment:
        write_next()
    with safe_open(file, framework="numpy") as tensors:
        if in_that_moment:
            write_next()
        print(tensors.get_tensor("weights").sum())


def main(file):
    write(file, COUNT)
    pipe = subprocess.PIPE
    writer = subprocess.Popen([sys.executable, __file__, file], stdin=pipe, stdout=pipe, text=True)

    def write_next():
        print("now", file=writer.stdin, flush=True)
        writer.stdout.readline()

    with writer:
        read(file, write_next)


if len(sys.argv) > 1:
    write_when_told(sys.argv[1])
else:
    with tempfile.TemporaryDirectory() as folder:
        main(os.path.join(folder, "checkpoint"))
