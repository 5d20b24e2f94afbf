"""Checks facts about provoke in the machine that `run` boots: `facts.py PROVOKE [NAME...]`."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

WORK, TEMPORARY, GROUPS = Path("/run/trials"), Path("/run/tmp"), Path("/sys/fs/cgroup")
USER = "65534"
AS_USER = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "--inh-caps=-all"]
# The answer to a connection that is refused has crossed the loopback interface twice.
ROUND_TRIP = "begin=${EPOCHREALTIME/./}; { : </dev/tcp/127.0.0.1/9; } 2>/dev/null; took=$((${EPOCHREALTIME/./} - begin)); "
BOMB = "f() { f | f & }; f"
OWN_GROUP = "/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)"
IS_FORK_REFUSED = "! sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.2 & done'"
PAUSES = "last=${EPOCHREALTIME/./}; while now=${EPOCHREALTIME/./}; ((now - last < 290000)); do last=$now; done"
# Conditions, and lines of bash that succeed only under them. Those of the first list need root or a group of the user.
LIMITS = {
    "memory=64M": f"grep -qx 67108864 {OWN_GROUP}/memory.max",
    "slow-cpu=50%": f"grep -q '^50000 ' {OWN_GROUP}/cpu.max",
    "pids=10": IS_FORK_REFUSED,
}
OTHERS = {
    "rlimit=nofile=50": "[ $(ulimit -n) = 50 ]", "fds=40": "[ $(ulimit -n) = 40 ]", "stack=256K": "[ $(ulimit -s) = 256 ]",
    "address-space=1G": "[ $(ulimit -v) = 1048576 ]", "umask=027": "[ $(umask) = 0027 ]", "cpus=1": "[ $(nproc) = 1 ]",
    "delay=1s": "(($(date +%s%N) - $(cat /run/trials/ended) >= 1000000000))",
    "date=2039-06-15": "[ $(date +%Y) = 2039 ]", "clock=03:04:05": "[ $(date +%H) = 03 ]",
    "pauses=300ms": PAUSES, "tz=America/St_Johns": "[ $TZ = America/St_Johns ]", "locale=C": "[ $LC_ALL = C ]",
    "slow-sync=1s": "touch file && begin=$SECONDS && sync file && ((SECONDS > begin))",
    "hash-seed=3": "[ $PYTHONHASHSEED = 3 ]", "ci=true": "[ $CI = true ]", "malloc-fill=165": "[ $MALLOC_PERTURB_ = 165 ]",
    "home=unset": "[ -z $HOME ]", "home=empty": '[ -z "$(ls -A $HOME)" ] && touch $HOME/file', "home=read-only": "! touch $HOME/file",
    "tmpdir=long": "[ ${#TMPDIR} -ge 200 ] && touch $TMPDIR/file", "tmpdir=space": "touch \"$TMPDIR/file\" && ! touch $TMPDIR/file",
    "tmpdir=full": "! head -c 9999 /dev/zero >$TMPDIR/file", "tmpdir=read-only": "[ -d $TMPDIR ] && ! touch $TMPDIR/file",
    "tty=all": "test -t 0 && test -t 1 && test -t 2", "tty=stdout": "test -t 1 && ! test -t 2", "columns=40": "[ $COLUMNS = 40 ]",
    "stdin=closed": "! test -e /proc/self/fd/0", "stdin=empty": "test -p /dev/stdin", "stdin=tty": "test -t 0 && ! test -t 1",
    "read-only-dir": "! touch file", "fresh-dir": "[ $PWD != $FOLDER ]", "hostname=other": "[ $(uname -n) = other ]",
    "ipv6=on": "grep -q lo /proc/net/if_inet6 && ! grep -q '^ *eth\\|sit' /proc/net/dev", "ipv6=off": "! grep -q lo /proc/net/if_inet6",
    "net=own": "[ $(readlink /proc/self/ns/net) != $NETWORK ] && grep -q 127.0.0.1 /proc/net/fib_trie",
    "net=none": "! grep -q 127.0.0.1 /proc/net/fib_trie", "net=slow": f"{ROUND_TRIP} ((took >= 200000))",
    "copies=2": "echo >>copies; until [ $(wc -l <copies) = 2 ]; do sleep 0.1; done",
    "aslr=off": '[ "$(grep stack /proc/self/maps)" = "$(grep stack /proc/self/maps)" ]',
}


def provoke(words: str, prefix: list[str] | None = None) -> dict:
    """Runs `provoke WORDS`. Returns its report, or its error as `error`."""
    question, *rest = shlex.split(words)
    command = [*(prefix or []), "provoke", question, "-q", "--json=report.json", *rest]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=900)
    if ended.returncode not in (0, 1, 3):
        return {"error": ended.stderr.strip() or ended.stdout.strip()}
    return json.loads(Path("report.json").read_text())


def variants(report: dict) -> dict:
    assert "error" not in report, report["error"]
    return {variant["name"]: variant for variant in report["variants"]}


def outcomes(report: dict) -> dict:
    return {name: count for name, count in variants(report)[""]["outcomes"].items() if count}


def state() -> dict[str, set[str]]:
    """Returns what a run may leave behind."""
    processes, namespaces = set(), set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            before, after = (folder / "stat").read_text().rsplit(") ", 1)
            is_of_kernel = int(after.split()[6]) & 0x200000
            if not is_of_kernel:
                processes.add(before)
                namespaces.update(os.readlink(link) for link in (folder / "ns").iterdir())
        except OSError:
            continue
    listed = subprocess.run(["tc", "qdisc", "show"], capture_output=True, text=True, check=True)
    return {
        "processes": processes, "namespaces": namespaces, "queues": set(listed.stdout.splitlines()),
        "groups": {folder for folder, _, _ in os.walk(GROUPS)},
        "mounts": set(Path("/proc/self/mountinfo").read_text().splitlines()),
        "files": {str(path) for place in [TEMPORARY, Path("/dev/shm")] for path in place.iterdir()},
    }


def wait_until(what: str, holds: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"after {seconds} s: {what}"
        time.sleep(0.1)


def assert_nothing_left() -> None:
    end = time.monotonic() + 120
    while left := {kind: found - BEFORE[kind] for kind, found in state().items() if found - BEFORE[kind]}:
        if time.monotonic() > end:
            raise AssertionError(f"left behind: { {kind: (len(found), sorted(found)[:9]) for kind, found in left.items()} }")
        time.sleep(0.2)


def oom() -> str:
    """An OOM kill under --memory is named, by the count of its cgroup; below the limit, trials pass."""
    needs_100m = "-- dd if=/dev/zero of=/dev/null bs=100M count=1"
    report = provoke(f"run -n 2 --memory 64M {needs_100m}")
    assert outcomes(report) == {"oom": 2}, outcomes(report)
    named = variants(report)[""]["kinds"][0]["words"]
    assert named == "killed by the kernel because memory ran out", named
    lines = map(json.loads, Path("provoke-out/last/events.jsonl").read_text().splitlines())
    counts = [line["trial_finished"]["seen"]["oom_kills"] for line in lines if "trial_finished" in line]
    assert counts == [1, 1], counts
    assert outcomes(provoke(f"run -n 2 --memory 200M {needs_100m}")) == {"pass": 2}
    return named


def slow_cpu() -> str:
    """A program that only computes takes about four times as long under slow-cpu=25%."""
    line = "for ((i = 0; i < 15000; i++)); do :; done"
    found = variants(provoke(f"compare -n 3 --under plain,slow-cpu=25% -- bash -c '{line}'"))
    plain, slow = (variant["durations"]["pass"]["p50"] for variant in found.values())
    assert 2.5 < slow / plain < 8, (plain, slow)
    return f"{plain:.2f} s, {slow:.2f} s"


def bombs() -> str:
    """A run of fork bombs ends, with the default limit and with --pids 200."""
    times = []
    for flags in ["--pids 200", ""]:
        begin = time.monotonic()
        variant = variants(provoke(f"run -n 2 {flags} -t 5s --grace 1s -- bash -c '{BOMB}'"))[""]
        assert variant["trials"] == variant["trials_at_process_limit"] == 2, variant
        assert_nothing_left()
        times.append(f"{time.monotonic() - begin:.0f} s {flags}")
    return ", ".join(times).strip()


def slow_network() -> str:
    """A round trip on loopback takes 200 ms under net=slow, and less without it."""
    found = variants(provoke(f"compare -n 3 --under plain,net=slow -- bash -c '{ROUND_TRIP} ((took < 200000))'"))
    assert [variant["failures"] for variant in found.values()] == [0, 3], found
    return ""


def why() -> str:
    """`why` finds a slow network, and a limit of memory with its size."""
    sentences = []
    for tried, command in [
        ("net", f"bash -c '{ROUND_TRIP} ((took < 150000))'"),
        ("memory", "dd if=/dev/zero of=/dev/null bs=300M count=1"),
    ]:
        report = provoke(f"why --seed 1 --try {tried} -- {command}")
        assert "error" not in report, report["error"]
        found = [one for one in report["answer"]["why"]["conditions"] if one["verdict"] == "raises"]
        names = {one["name"] for one in found}
        assert names == ({"net=slow"} if tried == "net" else {"memory=256M"}), names
        if tried == "memory":
            assert found[0]["same_up_to"] == "memory=512M", found
        sentences.append(report["answer"]["why"]["sentence"])
    return "; ".join(sentences)


def killed() -> str:
    """After SIGKILL of provoke nothing is left; after that of its slots as well, the next run removes it."""
    conditions = "net=slow slow-cpu=50% memory=300M pids=100 hostname=other tmpdir=full date=+1d".replace(" ", " --under ")
    endless = f"provoke victim leak-detached; touch {WORK}/up; exec sleep 1000"
    for flags, line in [(f"-j 2 --under {conditions}", endless), ("--pids 200", f"touch {WORK}/up; {BOMB}; sleep 1000")]:
        for with_slots in [False, True]:
            Path("up").unlink(missing_ok=True)
            command = ["provoke", "run", "-q", "-n", "2", *shlex.split(flags), "--", "bash", "-c", line]
            run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait_until("the trials run", Path("up").exists)
            time.sleep(2)
            os.kill(run.pid, signal.SIGSTOP)
            slots = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split() if with_slots else []
            for pid in [*slots, run.pid]:
                os.kill(int(pid), signal.SIGKILL)
            run.wait()
            if with_slots:
                assert outcomes(provoke("run -n 1 -- true")) == {"pass": 1}
            assert_nothing_left()
    return ""


def levers() -> str:
    """Each condition acts, or is refused with its reason: for root, a user, and a user with a cgroup."""
    group = GROUPS / "user"
    group.mkdir(exist_ok=True)
    for path in [group, group / "cgroup.procs", group / "cgroup.subtree_control", group / "cgroup.threads"]:
        os.chown(path, int(USER), int(USER))
    in_group = ["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "", *AS_USER]
    folder, told = WORK / "user", []
    folder.mkdir()
    os.chown(folder, int(USER), int(USER))
    os.chmod(WORK, 0o777)
    for who, prefix, checks in [
        ("root", [], {**LIMITS, **OTHERS, "user=daemon": "[ $(id -un) = daemon ]"}),
        ("user", AS_USER, OTHERS), ("user with a cgroup", in_group, LIMITS),
    ]:
        os.chdir(folder if prefix else WORK)
        arms = "\n".join(f"'{condition}') {line} ;;" for condition, line in checks.items())
        script = folder / f"{who}.sh"
        script.write_text(f"(case $1 in\n{arms}\nesac)\ncode=$?\ndate +%s%N >{WORK}/ended\nchmod 666 {WORK}/ended\nexit $code\n")
        environment = f"-e FOLDER={os.getcwd()} -e NETWORK={os.readlink('/proc/self/ns/net')} -e CI="
        line = f"compare -n 1 {environment} --under plain,{','.join(checks)} -- bash '{script}' {{variant}}"
        found = variants(provoke(line, prefix))
        failing = [name for name, variant in found.items() if name != "plain" and variant["outcomes"] != {"pass": 1}]
        assert not failing and len(found) == len(checks) + 1, f"{who}: {failing}"
        told.append(f"       {who}: {len(checks)} conditions act")
    for condition in [*LIMITS, "user=daemon"]:
        report = provoke(f"run --under {condition} -- true", AS_USER)
        told.append(f"       user: {' / '.join(filter(None, map(str.strip, report['error'].splitlines())))}")
    group.rmdir()
    return "\n".join(["", *told])


def leaks() -> str:
    """Daemons that left their session and their cgroup by two forks are found and killed."""
    leave = "(setsid sh -c \"echo 0 >/sys/fs/cgroup/cgroup.procs; exec sleep 1000\" &); sleep 1"
    for command in ["provoke victim leak-detached", f"sh -c '{leave}'"]:
        report = provoke(f"run -n 2 --leak-grace 200ms -- {command}")
        assert outcomes(report) == {"leak": 2}, outcomes(report)
        assert_nothing_left()
    return ""


FACTS = [oom, slow_cpu, slow_network, leaks, why, levers, killed, bombs]

if __name__ == "__main__":
    program, *names = sys.argv[1:]
    for place in [WORK, TEMPORARY]:
        place.mkdir()
        place.chmod(0o1777)
    # Other users may not enter its folder.
    Path("/run/provoke").touch()
    subprocess.run(["mount", "--bind", program, "/run/provoke"], check=True)
    Path("/usr/local/bin/provoke").unlink(missing_ok=True)
    Path("/usr/local/bin/provoke").symlink_to("/run/provoke")
    os.environ.update(PATH="/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", TMPDIR=str(TEMPORARY), HOME=str(WORK))
    os.environ.pop("PROVOKE_HOME", None)
    failed = 0
    for check in [check for check in FACTS if not names or check.__name__ in names]:
        os.chdir(WORK)
        BEFORE, begin = state(), time.monotonic()
        try:
            detail = check()
            assert_nothing_left()
            print(f"ok     {check.__doc__} ({time.monotonic() - begin:.0f} s)", detail, flush=True)
        except Exception as error:
            failed += 1
            print(f"FAILED {check.__doc__} {type(error).__name__}: {error}", flush=True)
    print(f"{failed} do not hold" if failed else "all facts hold")
