// Two threads add to a balance without a lock: if both read it before one writes it, one of the deposits is lost.
#include <pthread.h>
#include <stdio.h>
static volatile long balance;
static void *deposit(void *amount) {
    long before = balance;
    balance = before + (long)amount;
    return 0;
}
int main(void) {
    pthread_t alice, bob;
    pthread_create(&alice, 0, deposit, (void *)100);
    pthread_create(&bob, 0, deposit, (void *)50);
    pthread_join(alice, 0);
    pthread_join(bob, 0);
    if (balance == 150) return 0;
    fprintf(stderr, "deposits of 150, balance of %ld\n", balance);
    return 1;
}
