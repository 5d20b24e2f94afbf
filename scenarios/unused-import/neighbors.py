#!/usr/bin/env python3
"""Finds the nearest neighbours of ten points.

A step of a pipeline, as it was found: it prints its result, and then some runs end with a
segmentation fault, while the interpreter is already shutting down.
"""

import json
import math
import random
import sys

import cuml
import torch
from collections import (
    defaultdict,
    namedtuple,
)

Point = namedtuple("Point", "x y")


def points(count):
    import string

    names = string.ascii_lowercase[:count]
    return {name: Point(random.random(), random.random()) for name in names}


def main():
    groups = defaultdict(list)
    for name, near in cuml.nearest(points(10)).items():
        groups[near].append(name)
    print(json.dumps(groups), math.pi > 3, file=sys.stdout)


main()
