#!/usr/bin/env python3
"""How much slower are trials on hosts than here, and how many results can provoke take? See README.md beside this file."""
import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SLURM = HERE.parent / "tests/tools/slurm-cluster.sh"


def run(provoke, *arguments, env=None):
    """Runs provoke; returns the wall time, the CPU time with all children, the peak memory in MiB and the report."""
    with tempfile.TemporaryDirectory(prefix="provoke-bench-") as folder:
        argv = [provoke, "run", "-q", "-o", f"{folder}/run", *arguments]
        begin = time.monotonic()
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 env={**os.environ, **(env or {})})  # fmt: skip
        output = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.monotonic() - begin
        if status:
            sys.exit(f"`{' '.join(map(str, argv))}`: {output.decode().strip()}")
        report = json.loads(subprocess.check_output([provoke, "report", f"{folder}/run", "--json"]))
        return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, report


def synthetic(options, scratch):
    """Hosts that answer at once: the limit is provoke itself."""
    hosts = "ssh:" + ",".join(f"h{number}" for number in range(options.hosts))
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    print(f"{'trials of':<12}{'results/s':>10}{'CPU µs/result':>15}{'peak MiB':>10}")
    for ms in (1, 50):
        source = (HERE / "cluster/worker.c").read_text().replace("50000", str(ms * 1000))
        (scratch / "worker.c").write_text(source)
        subprocess.run(["cc", "-O2", "-o", scratch / "worker", scratch / "worker.c"], check=True)
        env = {"PROVOKE_SSH": str(scratch / "worker")}
        short = run(options.provoke, "-n", str(options.hosts), "--on", hosts, "--", "true", env=env)
        long = run(options.provoke, "-n", str(options.results), "--on", hosts, "--", "true", env=env)
        more = options.results - options.hosts
        rate, cpu = more / (long[0] - short[0]), (long[1] - short[1]) / more * 1e6
        print(f"{f'{ms} ms':<12}{rate:>10.0f}{cpu:>15.1f}{long[2]:>10.0f}")


def slurm(options, scratch):
    """Four nodes with two slots each, in turn with eight slots here."""
    cluster = scratch / "slurm"
    env = {"SLURM_CONF": str(cluster / "slurm.conf")}
    there = ["--on", "slurm", "--nodes", "4", "-j", "2"]
    trials = ["-n", str(options.trials), "--", "sleep", "0.05"]
    subprocess.run(["bash", SLURM, "up", cluster, "4"], check=True, stdout=subprocess.DEVNULL)
    try:
        rates, first = [], []
        for _ in range(options.rounds):
            worked = [run(options.provoke, *where, *trials, env=env)[3]["seconds"] for where in (["-j", "8"], there)]
            rates.append(worked[0] / worked[1])
            one = [run(options.provoke, *where, "-n", "1", "--", "true", env=env)[0] for where in ([], there)]
            first.append(one[1] - one[0])
    finally:
        subprocess.run(["bash", SLURM, "down", cluster], check=True, stdout=subprocess.DEVNULL)
    show = lambda values: f"{statistics.median(values):.2f} ({min(values):.2f}..{max(values):.2f})"  # noqa: E731
    print(f"throughput, Slurm / local:      {show(rates)}")
    print(f"one trial takes longer by:      {show(first)} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--provoke", default=HERE.parent / "target/release/provoke", type=Path)
    parser.add_argument("--hosts", type=int, default=1000, help="synthetic hosts (default 1000)")
    parser.add_argument("--results", type=int, default=1_000_000, help="results of synthetic hosts (default 1000000)")
    parser.add_argument("--trials", type=int, default=800, help="trials of 50 ms on Slurm (default 800)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["synthetic", "slurm"])
    options = parser.parse_args()
    options.provoke = options.provoke.resolve()
    with tempfile.TemporaryDirectory(prefix="provoke-bench-") as scratch:
        if options.only != "slurm":
            synthetic(options, Path(scratch))
        if options.only != "synthetic":
            if not shutil.which("srun"):
                sys.exit("install slurm-wlm and munge, or use --only synthetic")
            slurm(options, Path(scratch))


if __name__ == "__main__":
    main()
