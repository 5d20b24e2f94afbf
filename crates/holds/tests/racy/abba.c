// Two threads take two locks in opposite order.
#include <pthread.h>
static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static int x;
static void *first(void *unused) { pthread_mutex_lock(&a); x++; pthread_mutex_lock(&b); x++; pthread_mutex_unlock(&b); pthread_mutex_unlock(&a); return unused; }
static void *second(void *unused) { pthread_mutex_lock(&b); x--; pthread_mutex_lock(&a); x--; pthread_mutex_unlock(&a); pthread_mutex_unlock(&b); return unused; }
int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], 0, first, 0);
    pthread_create(&threads[1], 0, second, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
}
