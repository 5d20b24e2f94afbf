// Traces its child, as debuggers and some crash reporters do.
#include <pthread.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
static void *idle(void *argument) { return argument; }
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, idle, 0);
    pthread_join(thread, 0);
    pid_t child = fork();
    if (child == 0) { ptrace(PTRACE_TRACEME, 0, 0, 0); _exit(0); }
    int status;
    waitpid(child, &status, 0);
    return 0;
}
