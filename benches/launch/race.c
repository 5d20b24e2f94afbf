// race SPINS: a thread publishes a pointer, and main follows it after SPINS turns of a loop, whether it is published or not.
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

static int value = 7;
static _Atomic(int *) published;
static volatile long turn;

static void *publish(void *unused) {
    atomic_store(&published, &value);
    return unused;
}

int main(int count, char **words) {
    long spins = count > 1 ? atol(words[1]) : 0;
    pthread_t late;
    if (pthread_create(&late, NULL, publish, NULL)) return 2;
    for (turn = 0; turn < spins; turn++) {}
    int got = *atomic_load(&published);
    pthread_join(late, NULL);
    return got != value;
}
