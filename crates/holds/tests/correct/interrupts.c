// Signals interrupt calls that wait; the program repeats them. A signal without SA_RESTART makes most calls fail with EINTR.
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
static int pair[2];
static void tick(int signal) { (void)signal; }
static void read_all(int fd, char *to, size_t size) {
    while (size > 0) {
        ssize_t got = read(fd, to, size);
        if (got < 0) { assert(errno == EINTR); continue; }
        assert(got > 0);
        to += got;
        size -= (size_t)got;
    }
}
static void write_all(int fd, const char *from, size_t size) {
    while (size > 0) {
        ssize_t put = write(fd, from, size);
        if (put < 0) { assert(errno == EINTR); continue; }
        from += put;
        size -= (size_t)put;
    }
}
static void *echo(void *unused) {
    char text[64];
    int queue = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    assert(epoll_ctl(queue, EPOLL_CTL_ADD, pair[1], &event) == 0);
    for (int i = 0; i < 8; i++) {
        int ready;
        do { ready = epoll_wait(queue, &event, 1, -1); } while (ready < 0 && errno == EINTR);
        assert(ready == 1);
        read_all(pair[1], text, sizeof text);
        write_all(pair[1], text, sizeof text);
    }
    close(queue);
    return unused;
}
int main(void) {
    struct sigaction action = {.sa_handler = tick};
    sigaction(SIGALRM, &action, 0);
    assert(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    struct itimerval every = {{0, 700}, {0, 700}}, never = {0};
    pthread_t thread;
    pthread_create(&thread, 0, echo, 0);
    setitimer(ITIMER_REAL, &every, 0);
    for (int i = 0; i < 8; i++) {
        char out[64], in[64];
        memset(out, 'a' + i, sizeof out);
        write_all(pair[0], out, sizeof out);
        read_all(pair[0], in, sizeof in);
        assert(memcmp(in, out, sizeof in) == 0);
    }
    setitimer(ITIMER_REAL, &never, 0);
    pthread_join(thread, 0);
}
