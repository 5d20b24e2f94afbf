// Two threads take turns, after the first has worked alone.
#include <pthread.h>
#include <semaphore.h>
static sem_t first_turn, second_turn;
volatile int work;
__attribute__((noinline)) void alone(void) { work++; }
__attribute__((noinline)) void first(void) { work++; }
__attribute__((noinline)) void second(void) { work++; }
static void *take_turns(void *x) {
    for (int i = 0; i < 6; i++) {
        sem_wait(&second_turn);
        second();
        sem_post(&first_turn);
    }
    return x;
}
int main(void) {
    sem_init(&first_turn, 0, 1);
    sem_init(&second_turn, 0, 0);
    for (int i = 0; i < 5; i++) alone();
    pthread_t thread;
    pthread_create(&thread, 0, take_turns, 0);
    for (int i = 0; i < 6; i++) {
        sem_wait(&first_turn);
        first();
        sem_post(&second_turn);
    }
    pthread_join(thread, 0);
    for (int i = 0; i < 5; i++) alone();
    return work != 22;
}
