/* A model behind a small threaded HTTP service: a thread for each connection. **It misuses memory
 * on purpose: never take anything from here.**
 *
 * The model works on scratch memory, of which there are nine pieces. Who finds none free takes the
 * first one all the same: that is the bug. So nine requests at once can never harm each other,
 * whatever the scheduling; ten can. Two on one piece replace it both, free the same block
 * twice, and the C library's heap is damaged.
 *
 * Compiled with FIXED, the tenth waits until one is free.
 *
 * `app PORT`: `POST /classify` is the work, `GET /labels` is none.
 */

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECES 9

static struct piece {
    char *block;
    size_t size;
} pieces[PIECES];
static int free_pieces[PIECES], free_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given_back = PTHREAD_COND_INITIALIZER;

/* Which piece, and whether it is ours alone. */
static int take(int *alone)
{
    pthread_mutex_lock(&lock);
#ifdef FIXED
    while (!free_count)
        pthread_cond_wait(&given_back, &lock);
#endif
    *alone = free_count > 0;
    int mine = *alone ? free_pieces[--free_count] : 0; /* the bug: nobody gave us the first one */
    pthread_mutex_unlock(&lock);
    return mine;
}

static void give_back(int mine)
{
    pthread_mutex_lock(&lock);
    free_pieces[free_count++] = mine;
    pthread_cond_signal(&given_back);
    pthread_mutex_unlock(&lock);
}

/* A piece is as large as its last image needed; another size needs another block. */
static void convolve(struct piece *piece, size_t size)
{
    char *old = piece->block, *new = old;
    if (piece->size != size)
        new = malloc(size);
    memset(new, 1, size);
    usleep(1000); /* the work */
    if (new != old) {
        free(old);
        piece->block = new;
        piece->size = size;
    }
}

static int classify(size_t length)
{
    int alone, mine = take(&alone);
    convolve(&pieces[mine], 2048 + 16 * length);
    if (alone)
        give_back(mine);
    return length % 10;
}

static void answer(int socket, const char *status, const char *body)
{
    char text[256];
    int length = snprintf(text, sizeof text, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n%s", status,
                          strlen(body), body);
    if (write(socket, text, length) != length)
        shutdown(socket, SHUT_RDWR);
}

/* One request after another, until the other side is gone. */
static void *converse(void *argument)
{
    int socket = (int)(long)argument, one = 1;
    char text[8192], body[64];
    size_t have = 0;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (;;) {
        char *end = NULL;
        size_t length = 0;
        text[have] = 0;
        if ((end = strstr(text, "\r\n\r\n"))) {
            char *field = strcasestr(text, "\r\nContent-Length:");
            length = field && field < end ? strtoul(field + 17, NULL, 10) : 0;
            end += 4;
        }
        if (!end || have < end - text + length) {
            ssize_t more = read(socket, text + have, sizeof text - 1 - have);
            if (more <= 0)
                break;
            have += more;
            continue;
        }
        if (!strncmp(text, "POST /classify ", 15)) {
            snprintf(body, sizeof body, "{\"class\":%d}", classify(length));
            answer(socket, "200 OK", body);
        } else if (!strncmp(text, "GET /labels ", 12))
            answer(socket, "200 OK", "[\"cat\",\"dog\"]");
        else
            answer(socket, "404 Not Found", "{}");
        have -= end - text + length;
        memmove(text, end + length, have);
    }
    close(socket);
    return NULL;
}

int main(int count, char **arguments)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    here.sin_port = htons(count > 1 ? atoi(arguments[1]) : 8080);
    signal(SIGPIPE, SIG_IGN);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&here, sizeof here) || listen(listener, 128)) {
        perror("listen");
        return 1;
    }
    while (free_count < PIECES) {
        free_pieces[free_count] = PIECES - 1 - free_count;
        free_count++;
    }
    for (;;) {
        int socket = accept(listener, NULL, NULL);
        pthread_t thread;
        if (socket < 0)
            continue;
        if (pthread_create(&thread, NULL, converse, (void *)(long)socket))
            close(socket);
        else
            pthread_detach(thread);
    }
}
