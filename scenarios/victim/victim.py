"""Reads through a null pointer in one of ten runs; the same seed gives the same end."""

import ctypes
import os
import random

luck = random.Random(int(os.environ.get("PROVOKE_SEED", random.getrandbits(64))))

print("working", flush=True)
if luck.random() < 0.1:
    ctypes.string_at(0)
print("done")
