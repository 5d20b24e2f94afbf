// Workers take jobs from a queue with a lock. One job is broken by chance, and is reported when the queue is empty.
#include "decided.h"
#include <pthread.h>
#include <stdio.h>

enum { JOBS = 12 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int next_job, broken_job = -1, broken_jobs;

static int do_job(int job) {
    volatile int work = 0;
    for (int i = 0; i < 500; i++) work += i;
    return job == broken_job;
}

static void *work(void *argument) {
    for (;;) {
        pthread_mutex_lock(&lock);
        int job = next_job++;
        pthread_mutex_unlock(&lock);
        if (job >= JOBS) return argument;
        if (do_job(job)) {
            pthread_mutex_lock(&lock);
            broken_jobs++;
            pthread_mutex_unlock(&lock);
        }
    }
}

int main(void) {
    if (fails_in_percent(10)) broken_job = 7;
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    if (broken_jobs != 0) {
        printf("%d broken jobs\n", broken_jobs);
        fflush(stdout);
        abort();
    }
    return 0;
}
