#!/usr/bin/env python3
"""Measures `provoke hunt` on racy programs, next to plain repetition and random stalls for the same CPU time.

    benches/hunt.py PROVOKE PROGRAM...

A program is a C file, which is compiled with `cc -g -O1 -pthread`, or a Python file. The CPU time includes provoke and all
trials. "first" is the working time of the run at the first failure under a hold. "cost" is the duration of a trial with
holds, as a multiple of that of a plain one.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
from stalls import stall_for

# A trial with random stalls that takes longer hangs, in seconds.
HANG_LIMIT = 5


# Without buffers, Python's files have no locks that threads could hold.
os.environ.pop("PYTHONUNBUFFERED", None)


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(command, **options):
    """Returns the CPU time of a command and all processes that it waited for."""
    before = cpu_seconds()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, **options)
    return cpu_seconds() - before


def first_failure(journal):
    """Returns the working time at the first failure of a trial with holds, in seconds."""
    held = set()
    for line in journal.read_text().splitlines():
        event = json.loads(line)
        if started := event.get("trial_started"):
            if started.get("explores"):
                held.add(started["id"])
        if finished := event.get("trial_finished"):
            failed = isinstance(finished["outcome"], dict) and "fail" in finished["outcome"]
            if failed and finished["trial"] in held:
                return finished["at"] / 1e6
    return None


def cost_of_holds(journal):
    """Returns the median duration of passing trials with holds, as a multiple of that of plain ones."""
    plans, durations = {}, {False: [], True: []}
    for line in journal.read_text().splitlines():
        event = json.loads(line)
        if started := event.get("trial_started"):
            plans[started["id"]] = started.get("hold")
        if finished := event.get("trial_finished"):
            plan = plans[finished["trial"]]
            if finished["outcome"] == "pass" and not (plan and "learn" in plan):
                durations[plan is not None].append(finished["seen"]["us"])
    if not (durations[False] and durations[True]):
        return None
    return statistics.median(durations[True]) / statistics.median(durations[False])


def share(counts):
    return f"{counts['failures']}/{counts['trials']}" if counts else "-"


def measure(provoke, source, folder):
    if source.suffix == ".py":
        command = ["python3", str(source)]
    else:
        program = folder / source.stem
        subprocess.run(["cc", "-g", "-O1", "-pthread", "-o", program, source], check=True)
        command = [str(program)]
    out, report = folder / f"{source.stem}.hunt", folder / f"{source.stem}.json"
    cpu = run([provoke, "hunt", "-d", "60s", "--seed", "1", "-o", out, "--", *command])
    subprocess.run([provoke, "report", out, f"--json={report}"], stdout=subprocess.DEVNULL, check=False)
    hunt = json.loads(report.read_text())["answer"]["hunt"]
    plain_out, plain_report = folder / f"{source.stem}.plain", folder / f"{source.stem}.plain.json"
    run([provoke, "run", "-d", f"{max(1, cpu):.0f}s", "-n", "1000000", "--keep-going", "-o", plain_out, "--", *command])
    subprocess.run([provoke, "report", plain_out, f"--json={plain_report}"], stdout=subprocess.DEVNULL, check=False)
    plain = json.loads(plain_report.read_text())["variants"][0]
    stalls = stall_for(command, max(1, cpu), HANG_LIMIT)
    window = sorted({line["line"] for line in hunt["window"] if line["failures"] and line["line"]})
    first = first_failure(out / "events.jsonl")
    cost = cost_of_holds(out / "events.jsonl")
    print(
        f"{source.stem:22} {share(plain):>12} {share(stalls):>10} {cpu:6.1f} {first if first is None else round(first, 2)!s:>6}"
        f" {'-' if cost is None else f'{cost:.1f}':>5}"
        f" {share(hunt['held']):>8} {len(hunt['places'])} {'races' if hunt['races'] else '-':6} lines {window}",
        flush=True,
    )


def main():
    provoke, *sources = sys.argv[1:]
    provoke = os.path.abspath(provoke)
    print(f"{'program':22} {'plain':>12} {'stalls':>10} {'CPU s':>6} {'first':>6} {'cost':>5} {'held':>8} holds")
    with tempfile.TemporaryDirectory() as folder:
        for source in sources:
            measure(provoke, Path(source).resolve(), Path(folder))


main()
