#!/usr/bin/env python3
"""Compares `provoke bisect` with git-bayesect (PyPI: git-bayesect, scipy) in simulated searches.

    benches/bisect_peers.py SEARCH [searches]

SEARCH is the executable of `cargo bench --bench search --no-run`. Both search the same lists: one failure rate of all bad
versions, one of all good ones. git-bayesect stops at 95 %, as its `run` does, and has no earlier results; the trials of
provoke include those that reproduce the failure.
"""

import random
import re
import subprocess
import sys

import numpy
from git_bayesect import Bisector

CONFIDENCE = 0.95
MOST = 30_000
LISTS = [
    (16, 1, 0), (64, 1, 0), (1024, 1, 0), (64, 1, 0.01), (64, 1, 0.05),
    (16, 0.5, 0), (64, 0.5, 0), (1024, 0.5, 0), (64, 0.5, 0.01), (64, 0.5, 0.05),
    (16, 0.1, 0), (64, 0.1, 0), (1024, 0.1, 0), (64, 0.1, 0.01),
    (64, 0.02, 0), (64, 0.02, 0.01),
]  # fmt: skip


def rate_text(rate):
    return f"{rate:g}".removeprefix("0") or "0"


def bayesect(versions, bad_rate, good_rate, chance):
    """Returns the trials of a search, and whether its answer is wrong."""
    culprit = chance.randrange(versions)
    # Index 0 is the newest version, and the culprit is the last that fails at the rate of the newest.
    search = Bisector([1] * versions + [0])
    for trials in range(1, MOST):
        version = search.select()
        search.record(version, chance.random() < (bad_rate if version <= culprit else good_rate))
        masses = search.distribution
        if masses.max() >= CONFIDENCE:
            return trials, masses.argmax() != culprit
    return MOST, True


def shipped(executable, name, searches):
    """Returns the mean trials and the share of wrong answers of the table `shipped`."""
    lines = subprocess.check_output([executable, "shipped", str(searches), name], text=True)
    line = next(line for line in lines.splitlines() if re.match(rf"{re.escape(name)} +trials", line))
    trials, wrong = re.search(r"trials +([0-9.]+).*wrong ([0-9.]+)", line).groups()
    return float(trials), float(wrong)


def main():
    # git-bayesect takes logarithms of zero.
    numpy.seterr(all="ignore")
    executable = sys.argv[1]
    searches = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    print("versions, rate, background | provoke: trials, wrong | git-bayesect: trials, wrong | ratio")
    for versions, bad_rate, good_rate in LISTS:
        # Long searches take minutes here.
        count = searches if bad_rate > 0.02 else max(searches // 10, 1)
        name = f"{versions}, {rate_text(bad_rate)}, {rate_text(good_rate)}"
        ours, wrong = shipped(executable, name, count)
        chance = random.Random(versions)
        theirs = [bayesect(versions, bad_rate, good_rate, chance) for _ in range(count)]
        trials = sum(trials for trials, _ in theirs) / count
        wrong_there = sum(wrong for _, wrong in theirs) / count
        print(
            f"{name} | {ours:.1f}, {wrong:.3f} | {trials:.1f}, {wrong_there:.3f} | {ours / trials:.2f} ({count})",
            flush=True,
        )


if __name__ == "__main__":
    main()
