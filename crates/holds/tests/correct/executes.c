// A child executes this program again, and another thread waits for it.
#include <assert.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
static char *self;
static int ready(int x) { return x + 1; }
static void *start(void *unused) {
    pid_t child = fork();
    if (child == 0) { execl(self, self, "again", (char *)0); _exit(7); }
    int status;
    assert(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return unused;
}
static void *count(void *result) { for (int i = 0; i < 9; i++) *(int *)result = ready(*(int *)result); return 0; }
int main(int argc, char **argv) {
    self = argv[0];
    pthread_t threads[2];
    int result = 0;
    pthread_create(&threads[0], 0, count, &result);
    if (argc == 1) { pthread_create(&threads[1], 0, start, 0); pthread_join(threads[1], 0); }
    pthread_join(threads[0], 0);
    assert(result == 9);
}
