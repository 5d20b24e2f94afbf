// Lock-free counters and a spinning thread.
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
static atomic_int started, sum;
static void *add(void *unused) {
    atomic_fetch_add(&started, 1);
    while (atomic_load(&started) < 2) sched_yield();
    for (int i = 0; i < 10; i++) {
        int old = atomic_load(&sum);
        while (!atomic_compare_exchange_weak(&sum, &old, old + 1)) {}
    }
    return unused;
}
int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, add, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    assert(sum == 20);
}
