// System calls with each class of result, a signal with a handler, and children.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void handle(int signal) { (void)signal; }
__attribute__((noinline)) void child(void) { _exit(0); }
int main(int count, char **words) {
    if (count > 1 && !strcmp(words[1], "wait"))
        for (;;) pause();
    char buffer[8];
    int ends[2];
    if (pipe(ends)) return 1;
    struct pollfd waiting = {.fd = ends[0], .events = POLLIN};
    poll(&waiting, 1, 1);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    if (read(ends[0], buffer, 8) != -1 || errno != EAGAIN) return 2;
    if (write(ends[1], "abc", 3) != 3) return 3;
    if (read(ends[0], buffer, 8) != 3) return 4;
    int empty = open("/dev/null", O_RDONLY);
    if (read(empty, buffer, 8) != 0) return 5;
    if (open("/nonexistent/job.12345", O_RDONLY) != -1) return 6;
    if (access("/nonexistent/file", F_OK) != -1) return 7;
    if (write(1, "text", 4) != 4) return 8;
    signal(SIGUSR1, handle);
    raise(SIGUSR1);
    pid_t process = fork();
    if (!process) child();
    waitpid(process, 0, 0);
    return 0;
}
