#!/usr/bin/env python3
"""Injects random faults into runs on several hosts, and checks that no trial is lost or counted twice.

The hosts are one sshd on several addresses of this machine, and a real Slurm whose nodes are namespaces (as root). The outcome of
a trial is fixed by its number.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
CLUSTER = REPOSITORY / "tests/tools/slurm-cluster.sh"
SSHD = "/usr/sbin/sshd"
HOSTS = 3
TRIALS = 150
FAULTS = ["kill-worker", "kill-provoke", "stop-worker", "close-connection", "power-cut"]
# Time for everything that ends by itself.
PATIENCE = 120


def fails(trial):
    return trial * 7919 % 100 < 10


# Seconds after which a frozen worker is lost are 10, so the trials must not be over before the fault.
COMMAND = "sleep 0.05; test $((PROVOKE_TRIAL * 7919 % 100)) -ge 10 || kill -SEGV $$"


class Failure(Exception):
    """What was lost, counted twice, or left behind."""


def wait_until(what, condition):
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        if time.monotonic() > end:
            raise Failure(f"condition not met in time: {what}")
        time.sleep(0.01)
    return value


def processes():
    """Returns the command line and the environment of every process that can be read."""
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            yield int(entry.name), (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
        except OSError:
            pass


def kill(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Hosts:
    """Hosts of one engine, with a directory for the runs on them."""

    def __init__(self, folder, provoke, cache):
        self.folder, self.provoke = folder, provoke
        self.temporary = folder / "tmp"
        self.temporary.mkdir(parents=True)
        self.cache = cache
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("PROVOKE_")}

    def start(self, arguments):
        log = open(self.folder / "log", "ab")
        return subprocess.Popen(
            [self.provoke, *arguments], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )

    def workers(self):
        mark = f"TMPDIR={self.temporary}\0".encode()
        return [pid for pid, line, environ in processes() if mark in environ and line.endswith(b"\0worker\0")]

    def events(self, name):
        try:
            text = (self.folder / "provoke-out/last/events.jsonl").read_text()
        except FileNotFoundError:
            return []
        lines = text.split("\n")[:-1]
        return [json.loads(line)[name] for line in lines if line.startswith(f'{{"{name}":')]

    def has_left_nothing(self):
        return not self.workers()


class SshHosts(Hosts):
    faults = FAULTS[:4]
    engine = "ssh"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        for key in ["host_key", "user_key"]:
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key], check=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        addresses = [f"127.0.0.{number}" for number in range(1, HOSTS + 1)]
        listen = "".join(f"ListenAddress {address}:{port}\n" for address in addresses)
        (self.folder / "sshd_config").write_text(
            f"HostKey {self.folder}/host_key\nAuthorizedKeysFile {self.folder}/user_key.pub\nPidFile none\nStrictModes no\n"
            f"UsePAM no\nPermitRootLogin yes\n{listen}SetEnv XDG_CACHE_HOME={self.cache} TMPDIR={self.temporary}\n"
        )
        names = "".join(f"Host h{number}\n  HostName {address}\n" for number, address in enumerate(addresses, 1))
        (self.folder / "ssh_config").write_text(
            f"{names}Host *\n  Port {port}\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n"
            "  IdentitiesOnly yes\n"
        )
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        self.server = subprocess.Popen([SSHD, "-D", "-f", self.folder / "sshd_config"], stderr=subprocess.DEVNULL)
        self.environment["PROVOKE_SSH"] = f"ssh -F {self.folder}/ssh_config -i {self.folder}/user_key"
        self.on = ["--on", "ssh:" + ",".join(f"h{number}" for number in range(1, HOSTS + 1))]

    def close(self):
        self.server.kill()
        self.server.wait()


class SlurmHosts(Hosts):
    faults = FAULTS
    engine = "slurm"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.cluster = self.folder / "cluster"
        self.control("up", str(HOSTS))
        self.environment |= {
            "SLURM_CONF": f"{self.cluster}/slurm.conf",
            "TMPDIR": str(self.temporary),
            "XDG_CACHE_HOME": str(self.cache),
        }
        self.on = ["--on", "slurm", "--nodes", str(HOSTS)]

    def control(self, action, *arguments):
        subprocess.run(["bash", CLUSTER, action, self.cluster, *arguments], check=True, stdout=subprocess.DEVNULL)

    def has_left_nothing(self):
        queue = subprocess.run(["squeue", "--noheader"], env=self.environment, capture_output=True)
        return super().has_left_nothing() and not queue.stdout

    def close(self):
        self.control("down")


def inject(fault, hosts, process, generator):
    """Injects a fault into a run. Returns the process that continues the run, and a function that repairs the hosts."""
    lost = len(hosts.events("host_lost"))
    if process.poll() is not None:
        raise Failure(f"provoke ended with {process.returncode} before the fault {fault}")
    is_lost = lambda: len(hosts.events("host_lost")) > lost or process.poll() is not None
    if fault == "kill-provoke":
        process.kill()
        process.wait()
        wait_until("the workers have ended", hosts.has_left_nothing)
        return hosts.start(["resume", "last", *hosts.on, "--progress=none"]), None
    if fault == "close-connection":
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        kill(int(generator.choice(children)), signal.SIGKILL)
    elif fault == "power-cut":
        up = {joined["joined"]["destination"] for joined in hosts.events("host_joined")}
        node = generator.choice(sorted(up))
        hosts.control("kill-node", node)
        return process, lambda: hosts.control("start-node", node)
    else:
        worker = generator.choice(sorted(wait_until("a worker runs", hosts.workers)))
        if fault == "kill-worker":
            kill(worker, signal.SIGKILL)
        else:
            kill(worker, signal.SIGSTOP)
            wait_until("the stopped worker is lost", is_lost)
            kill(worker, signal.SIGCONT)
    wait_until("the host is lost", is_lost)
    return process, None


def check(hosts, exit_code):
    """Compares the counted trials with the fixed outcomes. Returns the number of attempts that ran again."""
    if exit_code != 1:
        raise Failure(f"provoke ended with {exit_code}")
    conclusive = collections.Counter()
    failed, lost = set(), collections.Counter()
    for event in hosts.events("trial_finished"):
        trial, outcome = event["trial"], event["outcome"]
        if isinstance(outcome, dict) and "void" in outcome:
            lost[trial] += 1
            continue
        conclusive[trial] += 1
        if outcome != "pass":
            failed.add(trial)
    twice = [trial for trial, count in conclusive.items() if count > 1]
    if twice:
        raise Failure(f"trials {twice} were counted twice")
    report = json.loads((hosts.folder / "report.json").read_text())
    lost_twice = {trial for trial, count in lost.items() if count > 1}
    missing = set(range(1, max(conclusive) + 1)) - set(conclusive) - lost_twice
    if missing:
        raise Failure(f"trials {sorted(missing)} are missing")
    expected = {trial for trial in conclusive if fails(trial)}
    if failed != expected:
        raise Failure(f"the outcomes of {sorted(failed ^ expected)} are wrong")
    variant = report["variants"][0]
    on_hosts = sum(host["trials"] for host in report["hosts"])
    counts = (variant["trials"], variant["failures"], on_hosts)
    if counts != (TRIALS, len(expected), TRIALS):
        raise Failure(f"the report has {counts} trials, failures and trials on hosts")
    wait_until("workers and jobs have ended", hosts.has_left_nothing)
    return len(lost)


def run_with_faults(hosts, faults, generator):
    shutil.rmtree(hosts.folder / "provoke-out", ignore_errors=True)
    run = ["run", *hosts.on, "-j", "2", "-n", str(TRIALS), "--capture", "off", "--progress=none"]
    process = hosts.start([*run, "--shell", COMMAND])
    repairs = []
    try:
        for fault in faults:
            before = len(hosts.events("trial_finished"))
            after = before + generator.randint(5, 30)
            is_due = lambda: len(hosts.events("trial_finished")) >= after or process.poll() is not None
            wait_until("trials have ended", is_due)
            process, repair = inject(fault, hosts, process, generator)
            repairs += [repair] if repair else []
        exit_code = process.wait(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
    # Repeats the report of the finished run.
    subprocess.run(
        [hosts.provoke, "report", "last", "--export-json", "report.json"],
        cwd=hosts.folder,
        env=hosts.environment,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        return check(hosts, exit_code)
    finally:
        for repair in repairs:
            repair()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--provoke", type=pathlib.Path, default=REPOSITORY / "target/release/provoke")
    parser.add_argument("--faults", type=int, default=50, help="number of faults (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="for the choice of faults and moments")
    parser.add_argument("--engines", default="ssh,slurm", help="engines, separated by commas (default: %(default)s)")
    parser.add_argument("--cache", type=pathlib.Path, help="directory for the copies of provoke on hosts")
    options = parser.parse_args()
    generator = random.Random(options.seed)
    engines = {"ssh": SshHosts, "slurm": SlurmHosts}
    counts = collections.Counter()
    runs = repeated = failures = 0
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        folder = pathlib.Path(folder)
        cache = options.cache or folder / "cache"
        provoke = options.provoke.resolve()
        hosts = []
        try:
            for name in options.engines.split(","):
                hosts.append(engines[name](folder / name, provoke, cache))
            while counts.total() < options.faults:
                chosen = hosts[runs % len(hosts)]
                count = min(generator.choice([1, 2]), options.faults - counts.total())
                # Each kind comes equally often.
                kinds = sorted(chosen.faults, key=lambda kind: (counts[kind], generator.random()))
                # While a worker is stopped, the other hosts run nearly all trials.
                faults = sorted(kinds[:count], key=lambda kind: kind == "stop-worker")
                runs += 1
                counts.update(faults)
                try:
                    lost = run_with_faults(chosen, faults, generator)
                    repeated += lost
                    print(f"{chosen.engine:6} {' '.join(faults):30} ok, {lost} trials ran again", flush=True)
                except Failure as failure:
                    failures += 1
                    print(f"{chosen.engine:6} {' '.join(faults):30} FAILED: {failure}", flush=True)
                    print((chosen.folder / "log").read_text(errors="replace")[-2000:], file=sys.stderr)
        finally:
            for one in hosts:
                one.close()
    kinds = ", ".join(f"{counts[kind]} {kind}" for kind in FAULTS if counts[kind])
    print(
        f"{counts.total()} faults ({kinds}) in {runs} runs of {TRIALS} trials, {repeated} trials ran again, "
        f"{failures} runs failed, {time.monotonic() - begun:.0f} s"
    )
    sys.exit(failures > 0)


main()
