// A timer interrupts two threads that count; a signal may arrive at any instruction.
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
static volatile sig_atomic_t ticks;
static void tick(int signal) { (void)signal; ticks++; }
static void *count(void *result) {
    int sum = 0;
    for (volatile int i = 0; i < 3000; i++) sum += i & 1;
    *(int *)result = sum;
    return 0;
}
int main(void) {
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    struct itimerval every = {{0, 200}, {0, 200}};
    setitimer(ITIMER_REAL, &every, 0);
    pthread_t threads[2];
    int sums[2] = {0, 0};
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, count, &sums[i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    assert(sums[0] == 1500 && sums[1] == 1500);
}
