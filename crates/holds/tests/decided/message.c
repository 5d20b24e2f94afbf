// The first thread decides before it creates others, and writes a message at the end.
#include "decided.h"
#include <pthread.h>
#include <unistd.h>

static void *work(void *sum) {
    for (int i = 0; i < 1000; i++) *(volatile int *)sum += i;
    return 0;
}

int main(void) {
    int is_failing = fails_in_percent(40);
    int sums[2] = {0, 0};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, &sums[i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    if (is_failing) {
        static const char message[] = "it failed\n";
        if (write(2, message, sizeof message - 1) < 0) return 2;
        return 1;
    }
    return 0;
}
