// A child process runs the same code as its parent, after a thread was created.
#include <assert.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
static int twice(int x) { return 2 * x; }
static void *work(void *result) { *(int *)result = twice(4); return 0; }
int main(void) {
    pthread_t thread;
    int result = 0;
    pthread_create(&thread, 0, work, &result);
    pthread_join(thread, 0);
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) _exit(twice(i) + 3);
        int status;
        assert(waitpid(child, &status, 0) == child && WIFEXITED(status));
        assert(WEXITSTATUS(status) == twice(i) + 3);
    }
    assert(result == 8);
}
