// A thread that by chance is never woken: the program hangs although its threads are synchronized.
#include "decided.h"
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t woken = PTHREAD_COND_INITIALIZER;
static int is_ready;

static void *wake(void *skips) {
    if (*(int *)skips) return 0;
    pthread_mutex_lock(&lock);
    is_ready = 1;
    pthread_cond_signal(&woken);
    pthread_mutex_unlock(&lock);
    return 0;
}

int main(void) {
    int skips = fails_in_percent(30);
    pthread_t thread;
    pthread_create(&thread, 0, wake, &skips);
    pthread_mutex_lock(&lock);
    while (!is_ready) pthread_cond_wait(&woken, &lock);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, 0);
    return 0;
}
