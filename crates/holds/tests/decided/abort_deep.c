// A new thread decides, and some functions later the program aborts.
#include "decided.h"
#include <pthread.h>
#include <stdio.h>

static __attribute__((noinline)) void give_up(int code) {
    fprintf(stderr, "inconsistent state %d\n", code);
    abort();
}

static __attribute__((noinline)) int check(int value, int is_failing) {
    if (is_failing) give_up(value);
    return value + 1;
}

static void *work(void *argument) {
    int is_failing = fails_in_percent(25);
    volatile int value = *(int *)argument;
    for (int i = 0; i < 100; i++) value = check(value, 0);
    value = check(value, is_failing);
    return 0;
}

int main(void) {
    int starts[2] = {1, 2};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, &starts[i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
