// Detached threads that end early, and semaphores.
#include <assert.h>
#include <pthread.h>
#include <semaphore.h>
static sem_t done;
static void *work(void *unused) { sem_post(&done); return unused; }
int main(void) {
    sem_init(&done, 0, 0);
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        assert(pthread_create(&thread, 0, work, 0) == 0);
        pthread_detach(thread);
    }
    for (int i = 0; i < 4; i++) while (sem_wait(&done) != 0) {}
}
