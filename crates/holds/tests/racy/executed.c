// Two programs with one thread each, started by a third one, add to a number in a shared mapping.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static void add_one(volatile int *number) {
    int old = *number;
    *number = old + 1;
}
int main(int count, char **arguments) {
    if (count > 1) {
        int *number = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(arguments[1]), 0);
        add_one(number);
        return 0;
    }
    int file = memfd_create("number", 0);
    if (ftruncate(file, 4096)) return 2;
    int *number = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    char descriptor[] = {(char)('0' + file), 0};
    for (int i = 0; i < 2; i++) if (fork() == 0) { execl("/proc/self/exe", arguments[0], descriptor, (char *)0); _exit(3); }
    for (int i = 0; i < 2; i++) wait(0);
    return *number != 2;
}
