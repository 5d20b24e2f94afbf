// Blocks that begin with instructions which depend on their place, run by two threads at once.
#include <pthread.h>
#include <stdint.h>
uint64_t table[2] = {40, 2};
uint64_t add_two(uint64_t x) { return x + 2; }
uint64_t (*pointer)(uint64_t) = add_two;
uint64_t mixed(uint64_t x);
__asm__(".text\n"
        ".globl mixed\n"
        ".type mixed, @function\n"
        "mixed:\n"
        ".cfi_startproc\n"
        "  push %rbx\n"
        "  mov %rdi, %rbx\n"
        "  jmp 1f\n"
        "1: mov table(%rip), %rax\n" // A relative address of data.
        "  add %rax, %rbx\n"
        "  mov %rbx, %rdi\n"
        "  jmp 2f\n"
        "2: call add_two\n" // A relative call.
        "  mov %rax, %rdi\n"
        "  jmp 3f\n"
        "3: call *pointer(%rip)\n" // A call by a relative address.
        "  mov %rax, %rdi\n"
        "  lea add_two(%rip), %rdx\n"
        "  push %rdx\n"
        "  push %rdx\n"
        "  jmp 4f\n"
        "4: call *8(%rsp)\n" // A call by an address on the stack.
        "  pop %rdx\n"
        "  pop %rcx\n"
        "  mov %rax, %rdi\n"
        "  jmp 5f\n"
        "5: call *%rdx\n"
        "  mov %rax, %rbx\n"
        "  mov $3, %ecx\n"
        "  jmp 6f\n"
        "6: loop 6b\n" // It reaches only 127 bytes.
        "  jmp 7f\n"
        "7: jrcxz 8f\n"
        "  ud2\n"
        "8: push %rbx\n"
        "  popf\n"
        "  lea -1(%rbx), %rbx\n"
        "  stc\n"
        "  jmp 9f\n"
        "9: jc 10f\n" // A block that is only a branch, and flags that must be kept.
        "  ud2\n"
        "10: mov $39, %eax\n"
        "  jmp 11f\n"
        "11: syscall\n"
        "  cmp $0, %rax\n"
        "  jg 12f\n"
        "  ud2\n"
        "12: lea 13f(%rip), %rdx\n"
        "  jmp *%rdx\n"
        "  ud2\n"
        "13: mov %rbx, %rax\n"
        "  pop %rbx\n"
        "  jmp 14f\n"
        "14: ret\n"
        ".cfi_endproc\n"
        ".size mixed, . - mixed\n");
static uint64_t expected(uint64_t x) { return x + 40 + 8 - 1; }
static void *work(void *failed) {
    for (uint64_t i = 0; i < 50; i++)
        if (mixed(i) != expected(i)) *(int *)failed = 1;
    return 0;
}
int main(void) {
    pthread_t threads[2];
    int failed[2] = {0, 0};
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, &failed[i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return failed[0] || failed[1];
}
