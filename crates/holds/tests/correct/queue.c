// A bounded queue with condition variables.
#include <assert.h>
#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static int items[2], count, sum;
static void *consume(void *unused) {
    for (int i = 0; i < 6; i++) {
        pthread_mutex_lock(&lock);
        while (count == 0) pthread_cond_wait(&filled, &lock);
        sum += items[--count];
        pthread_cond_signal(&emptied);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, consume, 0);
    for (int i = 1; i <= 6; i++) {
        pthread_mutex_lock(&lock);
        while (count == 2) pthread_cond_wait(&emptied, &lock);
        items[count++] = i;
        pthread_cond_signal(&filled);
        pthread_mutex_unlock(&lock);
    }
    pthread_join(thread, 0);
    assert(sum == 21);
}
