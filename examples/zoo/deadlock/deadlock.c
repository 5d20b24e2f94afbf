// Two threads take two locks in different orders. In two of three trials, one thread ends before the other begins.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_mutex_t audit = PTHREAD_MUTEX_INITIALIZER, pool = PTHREAD_MUTEX_INITIALIZER;
static void *transfer(void *unused) {
    pthread_mutex_lock(&audit);
    usleep(20000);
    pthread_mutex_lock(&pool);
    pthread_mutex_unlock(&pool);
    pthread_mutex_unlock(&audit);
    return unused;
}
static void summary(void) {
    pthread_mutex_lock(&pool);
    usleep(20000);
    pthread_mutex_lock(&audit);
    pthread_mutex_unlock(&audit);
    pthread_mutex_unlock(&pool);
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, transfer, 0);
    const char *seed = getenv("PROVOKE_SEED"); // another one in each trial
    if (seed && strtoull(seed, 0, 10) % 3) pthread_join(thread, 0);
    summary();
}
