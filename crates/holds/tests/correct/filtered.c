// A program installs a system call filter, as a sandbox does, and creates threads and processes in it. One process is created
// without the tracer of its creator.
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static void use_files(void) {
    char byte;
    int file = open("/dev/zero", O_RDONLY);
    assert(file >= 0 && read(file, &byte, 1) == 1 && byte == 0 && close(file) == 0);
    // The filter of the program refuses this call.
    assert(syscall(SYS_mkdir, "/nonexistent/folder", 0700) == -1 && errno == EPERM);
}
static void *work(void *unused) { for (int i = 0; i < 4; i++) use_files(); return unused; }
static void await_success(pid_t child) {
    int status;
    assert(child > 0 && waitpid(child, &status, __WALL) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
int main(void) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mkdir, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof steps / sizeof *steps, steps};
    assert(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    assert(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    use_files();
    pid_t untraced = (pid_t)syscall(SYS_clone, CLONE_UNTRACED | SIGCHLD, 0, 0, 0, 0);
    if (untraced == 0) { use_files(); _exit(0); }
    await_success(untraced);
    struct { unsigned long long flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls; } arguments =
        {.flags = CLONE_UNTRACED, .exit_signal = SIGCHLD};
    untraced = (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
    if (untraced == 0) { use_files(); _exit(0); }
    await_success(untraced);
    pthread_join(thread, 0);
}
