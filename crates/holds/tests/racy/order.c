// A thread reads what its creator writes only after the creation.
#include <pthread.h>
#include <string.h>
static char *volatile name;
static void *work(void *unused) { (void)unused; for (volatile int i = 0; i < 300000; i++) {} return (void *)strlen(name); }
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    name = "alpha";
    pthread_join(thread, 0);
}
