// Two clients add to a balance and take the same amount back later: an update is lost if both are between load and store.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static volatile long balance;
static void deposit(long amount) { balance = balance + amount; }
static void withdraw(long amount) { balance = balance - amount; }
static void *serve(void *argument) {
    unsigned seed = getpid() + (unsigned)(long)argument;
    for (int i = 0; i < 2; i++) {
        usleep(rand_r(&seed) % 250);
        deposit(10);
        usleep(rand_r(&seed) % 250);
        withdraw(10);
    }
    return 0;
}
int main(void) {
    pthread_t clients[2];
    for (long i = 0; i < 2; i++) pthread_create(&clients[i], 0, serve, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(clients[i], 0);
    return balance != 0;
}
