#!/usr/bin/env python3
"""What does capturing evidence cost, and does it change the failure rate of a race?

Every mode runs once in every block, in an order that is drawn anew, and is compared with `--capture off` in the same
block: rates of a race drift with whatever else the machine does, by more than most modes change them. See README.md
beside this file for what the columns mean.
"""
import argparse
import json
import math
import os
import random
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from launch import HERE, Accounting, Failed, note

BASE = "off"
TIMEOUT = 600.0


class Mode:
    """A way to run the race: flags for provoke, or None for a loop without it."""

    def __init__(self, name, flags, what, shm=False, share=1.0, cost=True, needs=None):
        self.name, self.flags, self.what = name, flags, what
        self.shm = shm  # trials run, and dump their cores, in memory
        self.share = share  # of the runs: debuggers take their time
        self.cost = cost  # there is a cost of its own for a trial that passes
        self.needs = needs


MODES = [
    Mode("bare", None, "a loop of posix_spawn and waitpid, without provoke"),
    Mode("off", ["--capture", "off"], "no cores: what the others are compared with"),
    Mode("off again", ["--capture", "off"], "the same once more: how much of a difference is chance"),
    Mode("children ignored", ["--capture", "off", "--ignore-child-crashes"], "no process events either"),
    Mode("auto", ["--capture", "auto"], "cores in a few trials after the measurement, which are not counted here"),
    Mode("on, disk", ["--capture", "on"], "cores in every trial"),
    Mode("on, memory", ["--capture", "on"], "cores in every trial, in /dev/shm", shm=True, cost=False),
    Mode("on, light", ["--capture", "on", "--cores", "light"], "small cores in every trial"),
    Mode("trace", ["--capture", "trace"], "cores, and a tracer beside every trial"),
    Mode("strace", ["--capture", "off", "--wrap", "strace -f -o /dev/null -e trace=none"], "--wrap strace", needs="strace"),
    Mode("gdb", ["--capture", "off", "--wrap", "gdb -q -batch -return-child-result -ex run --args"], "--wrap gdb",
         share=0.05, cost=False, needs="gdb"),
]  # fmt: skip


class Bench:
    def __init__(self, options, disk, memory):
        self.options, self.disk, self.memory = options, Path(disk), memory and Path(memory)
        self.accounting, self.order = Accounting(), random.Random(options.seed)
        self.race, self.spins = self.disk / "race", 0
        compiler = [*shlex.split(os.environ.get("CC", "cc")), "-O1", "-pthread", "-o", self.race]
        subprocess.run([*compiler, HERE / "launch" / "race.c"], check=True)
        # A soft limit of 0: provoke raises it to capture a core, and the loop never does.
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))

    def usable(self, mode):
        if mode.needs and not shutil.which(mode.needs):
            return "is not installed"
        if mode.shm and not self.memory:
            return "needs /dev/shm"
        if mode.shm and Path("/proc/sys/kernel/core_pattern").read_text().startswith(("/", "|")):
            return "needs a core_pattern that leaves cores where the program runs"
        try:
            self.rate(mode, 4)
        except Failed as failed:
            return str(failed)
        return None

    def loop(self, runs):
        """Runs the race without provoke; returns the failures."""
        words, failures = [str(self.race), str(self.spins)], 0
        for _ in range(runs):
            pid = os.posix_spawn(words[0], words, os.environ)
            failures += os.waitpid(pid, 0)[1] != 0
        return failures

    def rate(self, mode, runs):
        """Runs the race; returns failures, runs and seconds."""
        begin = time.monotonic()
        if mode.flags is None:
            return self.loop(runs), runs, time.monotonic() - begin
        cwd = self.memory if mode.shm else self.disk
        out = cwd / "out"
        argv = [self.options.provoke, "run", "-q", "-n", str(runs), "--keep", "none", "-o", out, "--cwd", cwd,
                "--json", *mode.flags, "--", self.race, str(self.spins)]  # fmt: skip
        try:
            done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT)
            variant = json.loads(done.stdout)["variants"][0]
        except subprocess.TimeoutExpired:
            raise Failed(f"still running after {TIMEOUT:.0f} s") from None
        except (ValueError, KeyError):
            raise Failed(f"no report: {done.stderr.strip().partition(chr(10))[0]}") from None
        finally:
            shutil.rmtree(out, ignore_errors=True)
            for core in cwd.glob("core*"):
                core.unlink()
        if variant["trials"] == 0:
            raise Failed("no trial counts")
        return variant["failures"], variant["trials"], time.monotonic() - begin

    def cost(self, mode, runs):
        """Returns CPU ms and wall ms that a passing trial takes, without the start of the tool."""
        true = shutil.which("true")
        if mode.flags is None:
            before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            own = time.process_time()
            for _ in range(runs):
                os.waitpid(os.posix_spawn(true, [true], os.environ), 0)
            wall, own = time.monotonic() - begin, time.process_time() - own
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = own + after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            return cpu / runs * 1e3, wall / runs * 1e3

        def invoke(count):
            try:
                head = [self.options.provoke, "run", "-q", "-n", str(count), "-o", self.disk / "out"]
                wall, rusage, group, _ = self.accounting.invoke([*head, *mode.flags, "--", true])
                return wall, rusage if group is None else group
            finally:
                shutil.rmtree(self.disk / "out", ignore_errors=True)

        short, long = invoke(2), invoke(runs + 2)
        return (long[1] - short[1]) / runs * 1e3, (long[0] - short[0]) / runs * 1e3

    def calibrate(self):
        """Finds the turns of the loop with which about 45 % of the runs fail."""
        low, high = 1 << 6, 1 << 26  # few turns fail often, many seldom
        for _ in range(16):
            self.spins = math.isqrt(low * high)
            rate = self.loop(self.options.calibrate) / self.options.calibrate
            if 0.38 <= rate <= 0.52:
                break
            low, high = (self.spins, high) if rate > 0.45 else (low, self.spins)
        note(f"the race: {self.spins} turns, {rate:.0%} of {self.options.calibrate} runs fail in the loop")

    def run(self, modes):
        """Returns the results of each block for each mode."""
        seen = {mode.name: [] for mode in modes}
        for block in range(self.options.blocks):
            for mode in self.order.sample(modes, len(modes)):
                runs = max(2, round(self.options.runs * mode.share))
                failures, ran, seconds = self.rate(mode, runs)
                seen[mode.name].append({"failures": failures, "runs": ran, "seconds": seconds})
            for mode in self.order.sample(modes, len(modes)):
                if mode.cost:
                    seen[mode.name][-1]["cpu"], seen[mode.name][-1]["wall"] = self.cost(mode, self.options.calls)
            note(f"block {block + 1} of {self.options.blocks} done")
        return seen


def t_quantile(freedom):
    """97.5 % quantile of Student's t, by the expansion around the normal one; within 1 % from 3 on."""
    z = statistics.NormalDist().inv_cdf(0.975)
    terms = [(z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96,
             (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384]  # fmt: skip
    return z + sum(term / freedom ** (power + 1) for power, term in enumerate(terms))


def paired(values, base):
    """Mean difference and half the width of its 95 % interval."""
    off = [value - other for value, other in zip(values, base)]
    if len(off) < 4:
        return statistics.fmean(off), math.nan
    return statistics.fmean(off), t_quantile(len(off) - 1) * statistics.stdev(off) / math.sqrt(len(off))


def table(modes, seen):
    share = lambda name: [100 * one["failures"] / one["runs"] for one in seen[name]]  # noqa: E731
    print("| mode | failures / runs | rate, % | to `off`, points (95 %) | ms a run of the race "
          "| CPU ms a passing trial | to `off` (95 %) | wall ms |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- |")  # fmt: skip
    for mode in modes:
        name, all_seen = mode.name, seen[mode.name]
        failures, runs = (sum(one[what] for one in all_seen) for what in ("failures", "runs"))
        seconds = statistics.median(one["seconds"] / one["runs"] for one in all_seen)
        difference = cost = "|"
        if name != BASE:
            difference = "{:+.1f} ± {:.1f} |".format(*paired(share(name), share(BASE)))
        if mode.cost:
            cpu, wall = ([one[what] for one in all_seen] for what in ("cpu", "wall"))
            to_base = ""
            if name != BASE:
                to_base = "{:+.3f} ± {:.3f}".format(*paired(cpu, [one["cpu"] for one in seen[BASE]]))
            cost = f"{statistics.median(cpu):.3f} | {to_base} | {statistics.median(wall):.2f} |"
        else:
            cost = "| | |"
        print(f"| {name} | {failures}/{runs} | {100 * failures / runs:.1f} | {difference} {seconds * 1e3:.1f} | {cost}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=40, help="how often every mode is run (default 40)")
    parser.add_argument("--runs", type=int, default=40, help="runs of a mode in a block (default 40)")
    parser.add_argument("--quick", action="store_true", help="4 blocks of 10 runs: does it work at all?")
    parser.add_argument("--modes", type=lambda text: text.split(";"), metavar="'off;on, disk'", help="only these")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--provoke", help="the binary to measure (default: build it with cargo build --release)")
    parser.add_argument("--out", type=argparse.FileType("w"), help="write what was seen here, as JSON")
    options = parser.parse_args()
    options.calibrate, options.calls = 300, 100  # runs that find the rate; runs of `true` in a block
    if options.quick:
        options.blocks, options.runs, options.calibrate, options.calls = 4, 10, 100, 20
    if not options.provoke:
        subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=HERE.parent, check=True)
        options.provoke = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target"), "release/provoke")
    options.provoke = Path(options.provoke).resolve()
    wanted = [mode for mode in MODES if mode.name in (options.modes or [mode.name]) or mode.name == BASE]

    load = lambda: ", ".join(f"{average:.1f}" for average in os.getloadavg())  # noqa: E731
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="provoke-bench-") as disk:
        memory = tempfile.mkdtemp(prefix="provoke-bench-", dir=shm) if shm else None
        try:
            bench = Bench(options, disk, memory)
            note(f"{os.uname().sysname} {os.uname().release}, {os.cpu_count()} processors, load {load()}")
            note(f"CPU time from {bench.accounting.name}")
            bench.calibrate()
            modes = []
            for mode in wanted:
                if why := bench.usable(mode):
                    note(f"left out: {mode.name}: {why}")
                else:
                    modes.append(mode)
            begin = time.monotonic()
            seen = bench.run(modes)
            note(f"{time.monotonic() - begin:.0f} s; load {load()} at the end")
        finally:
            if memory:
                shutil.rmtree(memory, ignore_errors=True)
    if options.out:
        json.dump(seen, options.out, indent=1)
    table(modes, seen)


if __name__ == "__main__":
    sys.exit(main())
