// Both owners of an object read the reference count before either writes it: both free the object, or neither does.
#include <pthread.h>
#include <stdlib.h>
struct object { volatile int references; };
static void *drop(void *argument) {
    struct object *object = argument;
    int references = object->references;
    object->references = references - 1;
    if (references == 1) free(object);
    return 0;
}
int main(void) {
    struct object *object = malloc(sizeof *object);
    object->references = 2;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, drop, object);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    // After one of them freed it, the count is overwritten.
    return object->references == 1;
}
