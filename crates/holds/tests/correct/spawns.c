// posix_spawn creates a process that shares the memory until it executes a program.
#include <assert.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static void *start(void *unused) {
    char *const words[] = {"true", 0};
    pid_t child;
    int status;
    assert(posix_spawn(&child, "/bin/true", 0, 0, words, environ) == 0);
    assert(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return unused;
}
int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, start, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
}
