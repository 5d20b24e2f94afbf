// Loads a plugin while a thread runs: with -DPLUGIN it is the plugin, which counts without a lock.
#ifdef PLUGIN
static volatile int calls;
int count_call(void) {
    int now = calls + 1;
    calls = now;
    return now;
}
#else
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
static int (*count_call)(void);
static pthread_barrier_t loaded;
static void *call(void *argument) {
    pthread_barrier_wait(&loaded);
    count_call();
    return argument;
}
int main(int count, char **arguments) {
    (void)count;
    char path[4096];
    snprintf(path, sizeof path, "%s.so", arguments[0]);
    pthread_t threads[2];
    pthread_barrier_init(&loaded, 0, 3);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, call, 0);
    void *plugin = dlopen(path, RTLD_NOW);
    if (!plugin) return 2;
    count_call = (int (*)(void))dlsym(plugin, "count_call");
    pthread_barrier_wait(&loaded);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return count_call() != 3;
}
#endif
