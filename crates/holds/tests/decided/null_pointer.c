// A lookup that finds nothing by chance; the caller uses the result without a check.
#include "decided.h"
#include <pthread.h>

struct entry { int key, value; };
static struct entry entries[4] = {{1, 10}, {2, 20}, {3, 30}, {4, 40}};

static __attribute__((noinline)) struct entry *find(int key) {
    if (fails_in_percent(8)) return 0;
    for (int i = 0; i < 4; i++)
        if (entries[i].key == key) return &entries[i];
    return 0;
}

static void *work(void *argument) {
    static __thread volatile int sum;
    for (int key = 1; key <= 4; key++) sum += find(key)->value;
    return argument;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    work(0);
    pthread_join(thread, 0);
    return 0;
}
