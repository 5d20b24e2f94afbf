#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

static int requests[2], answers[2];
static int balance;

/* Milliseconds that a payment takes. */
static int work_time(void) {
    unsigned char number;
    getrandom(&number, 1, 0);
    return number % 14;
}

static void *serve(void *unused) {
    char request;
    while (read(requests[0], &request, 1) == 1) {
        usleep(work_time() * 1000);
        balance += 10;
        write(answers[1], &request, 1);
    }
    return unused;
}

static void send_request(char number) {
    write(requests[1], &number, 1);
}

static void pay(char number) {
    struct pollfd answer = {.fd = answers[0], .events = POLLIN};
    send_request(number);
    if (poll(&answer, 1, 10) == 0)
        send_request(number);
}

int main(void) {
    pthread_t server;
    pipe(requests);
    pipe(answers);
    pthread_create(&server, NULL, serve, NULL);
    pay(1);
    close(requests[1]);
    pthread_join(server, NULL);
    if (balance != 10) {
        fprintf(stderr, "the balance is %d instead of 10\n", balance);
        return 1;
    }
    return 0;
}
