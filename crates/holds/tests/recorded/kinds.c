// A function with a block of each kind, and calls that have not returned when the program ends.
#include <stdlib.h>
#include <string.h>
int kinds(int branches);
__asm__(".text\n"
        ".globl kinds\n"
        ".type kinds, @function\n"
        "kinds:\n"
        ".cfi_startproc\n"
        "  test %edi, %edi\n"
        "  je 1f\n"
        "  call called\n"
        "  jmp 2f\n"
        "1: xor %eax, %eax\n"
        "  inc %eax\n"
        "2: ret\n"
        ".cfi_endproc\n"
        ".size kinds, . - kinds\n"
        ".globl called\n"
        ".type called, @function\n"
        "called:\n"
        ".cfi_startproc\n"
        "  mov $3, %eax\n"
        "  ret\n"
        ".cfi_endproc\n"
        ".size called, . - called\n");
__attribute__((noinline)) int inner(const char *how) {
    if (!strcmp(how, "crash")) *(volatile int *)0 = 1;
    if (!strcmp(how, "exit")) exit(kinds(1));
    return 1;
}
__attribute__((noinline)) int outer(const char *how) { return inner(how) + 1; }
int main(int count, char **words) {
    int result = kinds(1) * 10 + kinds(0);
    if (count > 1) result += outer(words[1]);
    return result != 31;
}
