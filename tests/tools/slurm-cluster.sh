#!/bin/bash
# A real Slurm cluster of N pretended nodes on this one machine, for tests. Needs root, slurm-wlm and munge.
#   slurm-cluster.sh up DIR N [CPUS]       make it below DIR (absent or empty); prints: export SLURM_CONF=...
#   slurm-cluster.sh kill-node DIR NAME    all processes of the node die at once, as in a power cut
#   slurm-cluster.sh start-node DIR NAME   boot a killed node, and wait until Slurm uses it again
#   slurm-cluster.sh freeze-node DIR NAME  stop all processes of the node; thaw-node DIR NAME continues them
#   slurm-cluster.sh down DIR              end everything and remove DIR
# Nodes are n1..nN in the partition "main"; odd ones have the features "fast" and "avx2", even ones "slow". A node is a
# slurmd in process, mount and host name namespaces of its own: `hostname` there says n1, and its processes
# see only each other. Files, network and processors are the machine's.
set -euo pipefail
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin${PATH:+:$PATH} LC_ALL=C
umask 022
# The caller may itself run inside a Slurm job, or hand down open files that the daemons must not keep open.
unset "${!SLURM@}" "${!SBATCH@}" "${!SRUN@}" "${!SALLOC@}" "${!SINFO@}" "${!SCONTROL@}"
for fd in /proc/self/fd/*; do if ((${fd##*/} > 2 && ${fd##*/} < 255)); then eval "exec ${fd##*/}>&-"; fi; done
die() { echo "slurm-cluster.sh: $*" >&2; exit 1; }
usage() { sed -n '3,7s/^# *//p' "$0" >&2; exit 2; }
# Starts a daemon in its own session and notes its id, as slurmctld removes its own note before it has gone.
launch() { # NAME COMMAND...
    (cd "$DIR/log" && exec setsid "${@:2}" </dev/null >>"$DIR/log/$1.out" 2>&1) &
    echo $! >"$DIR/pid/$1"
}
# The id of a living daemon. Its command line must name DIR, as ids get used again; a zombie's names nothing.
pid_of() { # NAME
    local pid; pid=$(cat "$DIR/pid/$1" 2>/dev/null) &&
        { tr '\0' ' ' <"/proc/$pid/cmdline" | grep -F "$DIR/" >/dev/null; } 2>/dev/null && echo "$pid"
}
# Repeats a command until it succeeds, for so many seconds at most.
until_true() { # SECONDS COMMAND...
    local end=$((SECONDS + $1))
    until "${@:2}"; do ((SECONDS < end)) && sleep 0.05 || return 1; done
}
is_empty() { [ -z "$(processes_in "$1")" ]; }
is_gone() { ! pid_of "$1" >/dev/null; }
munge_works() { munge -n -S "$DIR/munge" 2>/dev/null | unmunge -S "$DIR/munge" >/dev/null 2>&1; }
controller_works() { scontrol ping 2>/dev/null | grep 'is UP' >/dev/null; }
all_idle() { [ "$(sinfo -h -N -o %T 2>/dev/null | grep -cx idle)" = "$N" ]; }
start_of() { scontrol -o show node "$1" | grep -o 'SlurmdStartTime=[^ ]*'; }
has_come_up() { # NAME START; waits for another start time, as Slurm may not have noticed yet that the node was down
    [ "$(start_of "$1")" != "$2" ] && sinfo -h -N -n "$1" -o %T | grep -xE 'idle|mixed|allocated' >/dev/null
}
# slurmd must not be process 1 of its namespace, as it never reaps orphans; bash does.
launch_node() { # NAME [FLAG OF SLURMD]
    # shellcheck disable=SC2016
    launch "$1" unshare --pid --fork --kill-child=KILL --mount-proc --uts bash -c \
        'echo "$1" >/proc/sys/kernel/hostname; slurmd -D -N "$1" -f "$2" $3 & wait' bash "$1" "$SLURM_CONF" "${2-}"
}
# The namespace that the node's launcher, `unshare`, made for it, and the living processes inside.
namespace_of() { readlink "/proc/$(pid_of "$1")/ns/pid_for_children"; }
processes_in() { # NAMESPACE
    find /proc/[0-9]*/ns/pid -maxdepth 0 -printf '%p %l\n' 2>/dev/null |
        awk -v ns="$1" '$2 == ns { split($1, part, "/"); print "/proc/" part[3] "/status" }' |
        xargs -r grep -ls '^State:.[^ZX]' | cut -d/ -f3 || true
}
kill_node() { # NAME
    local ns; ns=$(namespace_of "$1") || return 0
    kill -KILL "$(pid_of "$1")" # the launcher; its child, process 1 of the namespace, dies with all the others
    until_true 20 is_empty "$ns" || die "processes of $1 survived"
    : >"$DIR/pid/$1"
}
signal_node() { # NAME SIGNAL; twice, for what was just being forked the first time
    local ns; ns=$(namespace_of "$1") || die "$1 is not running"
    for _ in 1 2; do processes_in "$ns" | xargs -r kill "-$2" 2>/dev/null || true; done
}
stop() { # NAME; asks the daemon and its helpers to end, and insists after 5 s
    local pid; pid=$(pid_of "$1") || return 0
    kill -TERM -- "-$pid"
    until_true 5 is_gone "$1" || kill -KILL -- "-$pid" || true
}
down() {
    [ -e "$DIR" ] || return 0
    [ -e "$DIR/made-by-slurm-cluster" ] || die "$DIR was not made by this script"
    # Clients of this cluster that still wait would do so for ever.
    grep -lsxE 'srun|salloc' /proc/[0-9]*/comm | cut -d/ -f3 | while read -r pid; do
        if grep -qszxF "SLURM_CONF=$SLURM_CONF" "/proc/$pid/environ"; then kill -KILL "$pid" 2>/dev/null || true; fi
    done || true
    for file in "$DIR"/pid/n[0-9]*; do [ ! -e "$file" ] || kill_node "${file##*/}"; done
    stop slurmctld
    stop munged
    rm -rf "$DIR"
}
add_with_port() { # LINE; adds it to slurm.conf with a free port for @, below those that the kernel hands out
    local port=$((10000 + RANDOM % 20000))
    while grep -qs "$(printf ':%04X ' $port)" /proc/net/tcp /proc/net/tcp6 || grep -q "=$port\b" "$SLURM_CONF"; do
        port=$((10000 + RANDOM % 20000))
    done
    echo "${1/@/$port}" >>"$SLURM_CONF"
}
write_config() {
    local features=(slow fast,avx2) host && host=$(uname -n) && host=${host%%.*} # slurmctld insists on this name
    (umask 077 && head -c 1024 /dev/urandom >"$DIR/munge.key")
    # Without this line slurmd ends with "cgroup filesystem not mounted", although nothing here uses cgroups.
    echo 'CgroupPlugin=cgroup/v1' >"$DIR/cgroup.conf"
    printf '%s\n' ClusterName=test "SlurmctldHost=$host(127.0.0.1)" SlurmUser=root AuthType=auth/munge \
        "AuthInfo=socket=$DIR/munge" "StateSaveLocation=$DIR/state" "SlurmdSpoolDir=$DIR/%n" \
        "SlurmctldPidFile=$DIR/slurmctld.pid" "SlurmdPidFile=$DIR/%n.pid" \
        "SlurmctldLogFile=$DIR/log/slurmctld" "SlurmdLogFile=$DIR/log/%n" MailProg=/bin/true \
        ProctrackType=proctrack/linuxproc TaskPlugin=task/none SelectType=select/cons_tres \
        SelectTypeParameters=CR_CPU SlurmdParameters=config_overrides SlurmdTimeout=10 KillWait=2 ReturnToService=2 \
        SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1 >"$SLURM_CONF"
    add_with_port "SlurmctldPort=@"
    for ((i = 1; i <= N; i++)); do
        add_with_port "NodeName=n$i NodeHostname=$host NodeAddr=127.0.0.1 Port=@ CPUs=$CPUS Feature=${features[i % 2]}"
    done
    echo "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE" >>"$SLURM_CONF"
}
start_all() {
    mkdir -p "$DIR/log" "$DIR/pid" "$DIR/state" && : >"$DIR/made-by-slurm-cluster" && write_config || return 1
    launch munged munged --foreground --force --socket="$DIR/munge" --key-file="$DIR/munge.key" \
        --pid-file="$DIR/munged.pid" --seed-file="$DIR/munge.seed" --origin=127.0.0.1
    until_true 20 munge_works || return 1
    launch slurmctld slurmctld -D -f "$SLURM_CONF"
    until_true 20 controller_works || return 1
    for ((i = 1; i <= N; i++)); do launch_node "n$i"; done
    until_true 60 all_idle
}
up() {
    local failures=0
    for tool in munged munge unmunge slurmctld slurmd scontrol sinfo srun unshare; do
        command -v "$tool" >/dev/null || die "$tool is missing: apt-get install slurm-wlm munge"
    done
    [ -z "$(ls -A "$DIR" 2>/dev/null)" ] || die "$DIR is not empty"
    until start_all; do # another program may take a port in between, so it tries three times
        tail -n 5 "$DIR"/log/* >&2 || true
        down
        ((++failures < 3)) || die "the cluster did not start; the ends of its logs are above"
    done
    echo "export SLURM_CONF=$SLURM_CONF"
}
(($# >= 2)) || usage
DIR=$(realpath -m -- "$2") NAME=${3-} N=${3-} CPUS=${4-2}
[[ $DIR =~ ^/[A-Za-z0-9/._+-]+$ && ${#DIR} -le 70 ]] || die "DIR must be a path of at most 70 plain characters: $DIR"
((EUID == 0)) || die "only root can do this"
export SLURM_CONF=$DIR/slurm.conf
case $1 in up | down) ;; *) [[ $NAME =~ ^n[0-9]+$ && -e $DIR/pid/$NAME ]] || die "no node $NAME in $DIR" ;; esac
case $1 in
up) if [[ $N =~ ^[1-9][0-9]*$ && $CPUS =~ ^[1-9][0-9]*$ ]]; then up; else usage; fi ;;
down) down ;;
kill-node) kill_node "$NAME" ;;
start-node)
    is_gone "$NAME" || die "$NAME is already running"
    before=$(start_of "$NAME") && sleep 1 # Slurm knows start times to the second
    launch_node "$NAME" -b # -b: report that the machine was booted
    until_true 60 has_come_up "$NAME" "$before" || die "$NAME does not come back: see $DIR/log/$NAME"
    ;;
freeze-node) signal_node "$NAME" STOP ;;
thaw-node) signal_node "$NAME" CONT ;;
*) usage ;;
esac
