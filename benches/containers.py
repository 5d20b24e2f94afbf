#!/usr/bin/env python3
"""What does provoke add to a trial in a container? Compares provoke with a loop of `docker run --rm`, in turn within each round.

The image holds one static program that does nothing. Every figure is a ratio within a round, so that a machine which
slows down or is shared favours neither.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def timed(argv, times, folder):
    begin = time.monotonic()
    for _ in range(times):
        done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=folder)
        if done.returncode:
            sys.exit(f"`{' '.join(argv)}`: exit {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
    return time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--provoke", default="target/release/provoke")
    parser.add_argument("--engine", default="docker")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--runs", type=int, default=10, help="containers of each in a round")
    parser.add_argument("--limit", action="append", default=[], metavar="NAME=N", help="for an engine that sets more than it may")
    options = parser.parse_args()
    provoke = str(Path(options.provoke).resolve())
    image = f"provoke-bench-{os.getpid()}:1"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "noop.c").write_text("int main(void) { return 0; }\n")
        subprocess.run([os.environ.get("CC", "cc"), "-static", "-o", "noop", "noop.c"], cwd=folder, check=True)
        subprocess.run(["tar", "-cf", "image.tar", "noop"], cwd=folder, check=True)
        subprocess.run([options.engine, "import", "image.tar", image], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        mounted = ["--volume", f"{folder}:{folder}", "--workdir", str(folder)]
        limits = [f"--ulimit={limit}" for limit in options.limit]
        plain = [options.engine, "run", "--rm", "--init", "--network=none", *limits, *mounted, image, "/noop"]
        ours = [provoke, "run", "-q", "-n", str(options.runs), "--engine", options.engine, "--image", image, "-o", "out"]
        ours += [f"--rlimit={limit}" for limit in options.limit]
        try:
            ratios = []
            for round_ in range(options.rounds):
                def by_provoke():
                    shutil.rmtree(folder / "out", ignore_errors=True)
                    return timed([*ours, "--", "/noop"], 1, folder)
                def by_hand():
                    return timed(plain, options.runs, folder)
                # The order within a round alternates, too.
                if round_ % 2:
                    one, other = by_provoke(), by_hand()
                else:
                    other, one = by_hand(), by_provoke()
                ratios.append(one / other)
                print(f"round {round_ + 1}: {options.engine} run --rm {other / options.runs * 1e3:.0f} ms, provoke {one / options.runs * 1e3:.0f} ms, ratio {one / other:.3f}", flush=True)
            print(f"median ratio {statistics.median(ratios):.3f} ({min(ratios):.3f} .. {max(ratios):.3f})")
        finally:
            subprocess.run([options.engine, "image", "rm", "--force", image], stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
