#!/usr/bin/env python3
"""What does it cost to run a command many times? Compares provoke with its peers and with a minimal C program.

All peers take turns within each round, and every figure is a ratio or a difference within a round, so that a machine
which slows down or is shared does not favour anybody. See README.md beside this file for what the columns mean.
"""
import argparse
import os
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGES = {"parallel": "parallel", "hyperfine": "hyperfine"}
PEERS = ["bare", "full", "provoke", "parallel", "hyperfine", "bash"]
ONE_JOB_ONLY = {"hyperfine", "bash"}
TIMEOUT = 300.0
MOST_RUNS = 100_000


class Failed(Exception):
    pass


class Accounting:
    """CPU time of everything an invocation started: from a separate cgroup if we may create one, otherwise from wait4."""

    def __init__(self):
        self.base, self.name = None, "rusage (of children that were waited for)"
        for base, file, scale, name in [
            ("/sys/fs/cgroup/cpuacct", "cpuacct.usage", 1e-9, "cgroup v1 cpuacct"),
            ("/sys/fs/cgroup", "cpu.stat", 1e-6, "cgroup v2 cpu.stat"),
            ("/sys/fs/cgroup/unified", "cpu.stat", 1e-6, "cgroup v2 cpu.stat"),
        ]:
            try:
                group = Path(base, f"provoke-bench-{os.getpid()}")
                group.mkdir()
                usable = (group / file).exists() and (group / "cgroup.procs").exists()
                group.rmdir()
            except OSError:
                continue
            if usable:
                self.base, self.file, self.scale, self.name = group, file, scale, name
                return

    def usage(self):
        words = (self.base / self.file).read_text().split()
        return int(words[0] if len(words) == 1 else words[words.index("usage_usec") + 1]) * self.scale

    def members(self):
        return [int(pid) for pid in (self.base / "cgroup.procs").read_text().split()]

    def invoke(self, argv, stdin=os.devnull):
        """Runs argv; returns (wall s, CPU s by rusage, CPU s by cgroup or None, processes it left behind)."""
        if not self.base:
            return self._invoke(argv, stdin)
        self.base.mkdir()
        try:
            return self._invoke(argv, stdin)
        finally:
            self._remove()

    def _invoke(self, argv, stdin):
        joined_r, joined_w = os.pipe()
        go_r, go_w = os.pipe()
        with tempfile.TemporaryFile() as talk:
            pid = os.fork()
            if pid == 0:  # joins the group, then waits for the clock to start: joining can take milliseconds
                try:
                    os.setsid()
                    if self.base:
                        (self.base / "cgroup.procs").write_text("0")
                    os.dup2(os.open(stdin, os.O_RDONLY), 0)
                    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                    os.dup2(talk.fileno(), 2)
                    os.write(joined_w, b".")
                    os.read(go_r, 1)
                    os.execvp(argv[0], argv)
                finally:
                    os._exit(127)
            os.close(joined_w)
            os.read(joined_r, 1)  # or the end of the stream, if the child failed
            pidfd = os.pidfd_open(pid)
            begin = time.monotonic()
            os.write(go_w, b".")
            ended = select.select([pidfd], [], [], TIMEOUT)[0]
            if not ended:
                os.killpg(pid, signal.SIGKILL)
            _, status, usage = os.wait4(pid, 0)
            wall = time.monotonic() - begin
            for end in (pidfd, joined_r, go_r, go_w):
                os.close(end)
            left = len(self.members()) if self.base else 0
            code = os.waitstatus_to_exitcode(status)
            if code or not ended:
                talk.seek(0)
                reason = talk.read().decode(errors="replace").strip().partition("\n")[0] or "it said nothing"
                why = f"exit {code}" if ended else f"still running after {TIMEOUT:.0f} s"
                raise Failed(f"`{' '.join(map(str, argv))}`: {why}: {reason}")
            return wall, usage.ru_utime + usage.ru_stime, self.usage() if self.base else None, left

    def _remove(self):
        for _ in range(1000):
            for pid in self.members():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            try:
                return self.base.rmdir()
            except OSError:
                time.sleep(0.01)
        raise SystemExit(f"cannot empty {self.base}")


class Bench:
    def __init__(self, options, scratch):
        self.options, self.scratch, self.accounting = options, Path(scratch), Accounting()
        compiler = os.environ.get("CC", "cc")
        for source, flags in [("launcher.c", []), ("noop.c", ["-static", "-nostdlib"])]:
            target = self.scratch / Path(source).stem
            subprocess.run([compiler, "-O2", *flags, "-o", target, HERE / "launch" / source], check=True)
        self.commands = {"true": shutil.which("true"), "noop": str(self.scratch / "noop")}
        self.provoke = options.provoke

    def argv(self, peer, runs, jobs, command):
        if peer in ("bare", "full"):
            return [self.scratch / "launcher", peer, str(runs), str(jobs), command]
        if peer == "provoke":
            return [self.provoke, "run", "-q", "-n", str(runs), "-j", str(jobs), "-o", self.scratch / "out", "--", command]
        if peer == "parallel":  # reads one line per run
            return ["parallel", "--will-cite", "-j", str(jobs), "-N0", command]
        if peer == "hyperfine":
            return ["hyperfine", "-N", "-w", "0", "-r", str(runs), "--style", "none", command]
        return ["bash", "-c", f'for ((i = 0; i < {runs}; i++)); do "$0" || exit 1; done', command]

    def cell(self, peer, runs, jobs, command):
        lines = self.scratch / "lines"
        lines.write_text("x\n" * (runs if peer == "parallel" else 0))
        try:
            return self.accounting.invoke(self.argv(peer, runs, jobs, command), lines)
        finally:
            shutil.rmtree(self.scratch / "out", ignore_errors=True)

    def calibrate(self, peer, jobs, command):
        """Finds a number of runs that takes about --seconds."""
        runs = 50
        while True:
            wall = self.cell(peer, runs, jobs, command)[0]
            if wall > self.options.seconds / 3 or runs >= MOST_RUNS:
                return max(50, min(MOST_RUNS, int(runs * self.options.seconds / wall)))
            runs *= 3

    def run(self, peers):
        tasks = []
        for name in self.options.commands:
            for jobs in self.options.jobs:
                for peer in peers:
                    if jobs > 1 and peer in ONE_JOB_ONLY:
                        continue
                    try:
                        tasks.append((name, jobs, peer, self.calibrate(peer, jobs, self.commands[name])))
                    except Failed as failed:
                        note(f"{peer} left out of {name}, jobs {jobs}: {failed}")
        cells = []
        for number in range(self.options.rounds):
            shift = number % max(1, len(tasks))
            _, rusage, group, _ = self.accounting.invoke([self.commands["noop"]])  # the cost of being invoked
            idle = rusage if group is None else group
            for name, jobs, peer, runs in tasks[shift:] + tasks[:shift]:
                try:
                    short = self.cell(peer, 2, jobs, self.commands[name])
                    long = self.cell(peer, runs, jobs, self.commands[name])
                except Failed as failed:
                    note(f"round {number + 1}, {peer}: {failed}")
                    continue
                if long[3]:
                    note(f"processes left behind by {peer} in {name}, jobs {jobs}: {long[3]}")
                cells.append(Cell(number, name, jobs, peer, runs, short, long, idle))
            note(f"round {number + 1} of {self.options.rounds} done")
        return cells


class Cell:
    """One peer in one round: a short and a long invocation."""

    def __init__(self, number, command, jobs, peer, runs, short, long, idle):
        self.round, self.command, self.jobs, self.peer, self.runs = number, command, jobs, peer, runs
        self.wall, self.rusage, self.group, self.left = long
        self.short_wall, self.short_rusage, self.short_group, _ = short
        use = (self.short_rusage, self.rusage) if self.group is None else (self.short_group, self.group)
        self.cpu = (use[1] - use[0]) / (runs - 2) * 1e3  # ms per run
        self.start_up = (use[0] - idle) * 1e3 - 2 * self.cpu
        self.speed = runs / self.wall
        per_run = (self.rusage - self.short_rusage) / (runs - 2) * 1e3
        self.unseen = None if self.group is None else 100 * (1 - per_run / self.cpu)

    FIELDS = """round command jobs peer runs wall rusage group short_wall short_rusage short_group left
        cpu start_up speed unseen""".split()

    def row(self):
        return "\t".join("" if (value := getattr(self, field)) is None else str(value) for field in self.FIELDS)


def table(cells):
    head = f"{'command':<8}{'jobs':>4}  {'peer':<10}{'CPU ms/run':>11}{'x bare':>8}  {'(min..max)':<15}"
    print(f"{head}{'start-up ms':>12}{'runs/s':>9}{'x bare':>8}{'unseen %':>10}")
    for key in dict.fromkeys((cell.command, cell.jobs) for cell in sorted(cells, key=lambda cell: cell.round)):
        group = [cell for cell in cells if (cell.command, cell.jobs) == key]
        bare = {cell.round: cell for cell in group if cell.peer == "bare"}
        for peer in [peer for peer in PEERS if any(cell.peer == peer for cell in group)]:
            mine = [cell for cell in group if cell.peer == peer]
            pairs = [(cell, bare[cell.round]) for cell in mine if cell.round in bare]
            cpu = [cell.cpu / other.cpu for cell, other in pairs] or [float("nan")]
            speed = [cell.speed / other.speed for cell, other in pairs] or [float("nan")]
            median = statistics.median
            unseen = "" if mine[0].unseen is None else f"{median(cell.unseen for cell in mine):.1f}"
            print(f"{key[0]:<8}{key[1]:>4}  {peer:<10}{median(cell.cpu for cell in mine):>11.3f}{median(cpu):>8.2f}  "
                  f"{f'({min(cpu):.2f}..{max(cpu):.2f})':<15}{median(cell.start_up for cell in mine):>12.1f}"
                  f"{median(cell.speed for cell in mine):>9.0f}{median(speed):>8.2f}{unseen:>10}")  # fmt: skip


def note(text):
    print(f"# {text}", file=sys.stderr, flush=True)


def main():
    words = lambda text: [word for word in text.split(",") if word]  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="length of one cell (default 1.5)")
    parser.add_argument("--jobs", type=lambda text: [int(word) for word in words(text)], default=[1, 2], metavar="1,2")
    parser.add_argument("--peers", type=words, default=PEERS, metavar=",".join(PEERS))
    parser.add_argument("--commands", type=words, default=["true", "noop"], metavar="true,noop")
    parser.add_argument("--provoke", help="the binary to measure (default: build it with cargo build --release)")
    parser.add_argument("--install", action="store_true", help="apt-get install the peers that are missing")
    parser.add_argument("--out", type=argparse.FileType("w"), help="write the raw cells here, as TSV")
    options = parser.parse_args()
    if unknown := (set(options.peers) - set(PEERS)) | (set(options.commands) - {"true", "noop"}):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")

    missing = [peer for peer in options.peers if peer in PACKAGES and not shutil.which(peer)]
    if missing and options.install:
        subprocess.run(["apt-get", "install", "-y", "-q", *(PACKAGES[peer] for peer in missing)], stdout=2)
        missing = [peer for peer in missing if not shutil.which(peer)]
    for peer in missing:
        note(f"{peer} is absent" + (", still" if options.install else " (--install would get it)"))
    if "provoke" in options.peers and not options.provoke:
        subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=HERE.parent, check=True)
        options.provoke = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target"), "release/provoke")

    with tempfile.TemporaryDirectory(prefix="provoke-bench-") as scratch:
        bench = Bench(options, scratch)
        load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
        note(f"{os.uname().sysname} {os.uname().release}, {os.cpu_count()} processors, load {load}")
        note(f"CPU time from {bench.accounting.name}")
        cells = bench.run([peer for peer in options.peers if peer not in missing])
    if options.out:
        print("\t".join(Cell.FIELDS), *(cell.row() for cell in cells), sep="\n", file=options.out)
    table(cells)


if __name__ == "__main__":
    main()
