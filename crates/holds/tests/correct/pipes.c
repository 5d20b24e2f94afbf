// Threads talk through pipes and wait with poll.
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>
static int to[2], from[2];
static void *echo(void *unused) {
    char byte;
    while (read(to[0], &byte, 1) == 1) assert(write(from[1], &byte, 1) == 1);
    return unused;
}
int main(void) {
    assert(pipe(to) == 0 && pipe(from) == 0);
    pthread_t thread;
    pthread_create(&thread, 0, echo, 0);
    for (char i = 0; i < 5; i++) {
        char back = -1;
        assert(write(to[1], &i, 1) == 1);
        struct pollfd wait = {from[0], POLLIN, 0};
        while (poll(&wait, 1, -1) < 0) assert(errno == EINTR);
        assert(read(from[0], &back, 1) == 1 && back == i);
    }
    close(to[1]);
    pthread_join(thread, 0);
}
