// Threads run code that was written into memory at run time.
#include <assert.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
static const unsigned char code[] = {0x8d, 0x47, 0x01, 0xc3}; // lea eax, [rdi + 1]; ret
static int (*add_one)(int);
static void *work(void *result) { for (int i = 0; i < 5; i++) *(int *)result = add_one(*(int *)result); return 0; }
int main(void) {
    void *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    assert(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
    add_one = (int (*)(int))page;
    pthread_t threads[2];
    int results[2] = {0, 10};
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, &results[i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    assert(results[0] == 5 && results[1] == 15);
}
