#!/usr/bin/env python3
"""Asks all its packages for something, and some runs end with a segmentation fault.

The packages are those of the registry. The fault is ours: it stands for a native library that cannot
bear what a newer release hands to it, and is the read of a null pointer.
"""

import ctypes
import os
import random

import attr
import certifi
import idna
import six
from packaging.version import Version

# Each trial draws from its own seed, so that a run can be repeated.
turn = random.Random(os.environ.get("PROVOKE_SEED"))

print(attr.__version__, os.path.basename(certifi.where()), six.__version__)
print(idna.encode("königsgäßchen.example"))
if Version(idna.__version__) >= Version("3.7") and turn.random() < 0.75:
    ctypes.string_at(0)
