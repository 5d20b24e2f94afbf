// A server that handles eight requests at a time, and answers 503 to all others.
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
static sem_t free_places;
static void *serve(void *descriptor) {
    int connection = (long)descriptor;
    char request[4096];
    while (read(connection, request, sizeof request) > 0) {
        int is_admitted = !sem_trywait(&free_places);
        if (is_admitted) {
            usleep(2000);
            sem_post(&free_places);
        }
        const char *response = is_admitted ? "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
                                           : "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
        if (write(connection, response, strlen(response)) < 0) break;
    }
    close(connection);
    return 0;
}
int main(int count, char **arguments) {
    if (count != 2) return 2;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1])), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 64)) return 1;
    sem_init(&free_places, 0, 8);
    for (;;) {
        pthread_t thread;
        long connection = accept(listener, 0, 0);
        if (connection >= 0 && !pthread_create(&thread, 0, serve, (void *)connection)) pthread_detach(thread);
    }
}
