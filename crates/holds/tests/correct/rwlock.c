// Readers and a writer with a read-write lock, and a barrier.
#include <assert.h>
#include <pthread.h>
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t all;
static int a, b;
static void *read_both(void *unused) {
    pthread_barrier_wait(&all);
    for (int i = 0; i < 4; i++) {
        pthread_rwlock_rdlock(&lock);
        assert(a == b);
        pthread_rwlock_unlock(&lock);
    }
    return unused;
}
int main(void) {
    pthread_barrier_init(&all, 0, 3);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, read_both, 0);
    pthread_barrier_wait(&all);
    for (int i = 0; i < 4; i++) {
        pthread_rwlock_wrlock(&lock);
        a++;
        b++;
        pthread_rwlock_unlock(&lock);
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
}
