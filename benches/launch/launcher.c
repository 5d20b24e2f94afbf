// launcher bare|full RUNS JOBS COMMAND [ARG...]: the two yardsticks of the launch benchmark.
// bare: posix_spawn and waitpid, streams inherited. No launcher can be much cheaper.
// full: the minimum of a harness: a process group, /dev/null as stdin, two pipes drained through poll,
//       the child's rusage, and the clock before and after.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static char **command;
static double busy; // seconds inside runs, as a harness would report them

static void check(int bad, const char *what) { if (bad) { perror(what); exit(2); } }

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void spawn(pid_t *pid, const posix_spawn_file_actions_t *files, const posix_spawnattr_t *attributes) {
    int error = posix_spawn(pid, command[0], files, attributes, command, environ);
    if (error) { fprintf(stderr, "cannot start %s: %s\n", command[0], strerror(error)); exit(2); }
}

static long bare(long runs, long jobs) {
    long started = 0, failed = 0;
    pid_t pid;
    for (; started < runs && started < jobs; started++) spawn(&pid, NULL, NULL);
    for (long ended = 0; ended < runs; ended++) {
        int status;
        check(waitpid(-1, &status, 0) < 0, "waitpid");
        failed += status != 0;
        if (started < runs) { spawn(&pid, NULL, NULL); started++; }
    }
    return failed;
}

struct run { pid_t pid; int open; double begin; };

static void start(struct run *run, struct pollfd *streams) {
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t files;
    int ends[2][2];
    run->begin = now();
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    for (int i = 0; i < 2; i++) {
        check(pipe2(ends[i], O_CLOEXEC), "pipe2");
        posix_spawn_file_actions_adddup2(&files, ends[i][1], i + 1);
        streams[i] = (struct pollfd){ .fd = ends[i][0], .events = POLLIN };
    }
    spawn(&run->pid, &files, &attributes);
    for (int i = 0; i < 2; i++) close(ends[i][1]);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    run->open = 2;
}

static long full(long runs, long jobs) {
    static char buffer[65536];
    struct run *run = calloc(jobs, sizeof *run);
    struct pollfd *streams = calloc(2 * jobs, sizeof *streams);
    long started = 0, ended = 0, failed = 0;
    check(!run || !streams, "calloc");
    for (long i = 0; i < 2 * jobs; i++) streams[i].fd = -1;
    for (; started < runs && started < jobs; started++) start(&run[started], &streams[2 * started]);
    while (ended < runs) {
        check(poll(streams, 2 * jobs, -1) < 0, "poll");
        for (long i = 0; i < 2 * jobs; i++) {
            struct run *owner = &run[i / 2];
            if (streams[i].fd < 0 || !streams[i].revents || read(streams[i].fd, buffer, sizeof buffer) > 0) continue;
            close(streams[i].fd);
            streams[i].fd = -1;
            if (--owner->open) continue;
            int status;
            struct rusage usage;
            check(wait4(owner->pid, &status, 0, &usage) < 0, "wait4");
            busy += now() - owner->begin;
            failed += status != 0;
            ended++;
            if (started < runs) { start(owner, &streams[i / 2 * 2]); started++; }
        }
    }
    return failed;
}

int main(int count, char **words) {
    long runs = count > 4 ? atol(words[2]) : 0, jobs = count > 4 ? atol(words[3]) : 0;
    if (runs < 1 || jobs < 1) { fputs("usage: launcher bare|full RUNS JOBS COMMAND [ARG...]\n", stderr); return 2; }
    command = words + 4;
    long failed = strcmp(words[1], "full") ? bare(runs, jobs) : full(runs, jobs);
    fprintf(stderr, "%ld runs, %ld failed, %.3f s inside them\n", runs, failed, busy);
    return failed != 0;
}
