// Two threads update two counters under two locks, always taken in the same order.
#include <assert.h>
#include <pthread.h>
static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static int x, y;
static void *work(void *unused) {
    for (int i = 0; i < 5; i++) {
        pthread_mutex_lock(&a);
        x++;
        pthread_mutex_lock(&b);
        y += x;
        pthread_mutex_unlock(&b);
        pthread_mutex_unlock(&a);
    }
    return unused;
}
int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    assert(x == 10 && y == 55);
}
