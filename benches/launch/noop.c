// A program without a C library that only exits: the cost of its runs comes from the launcher and the kernel.
void _start(void) {
#if defined(__x86_64__)
    __asm__ volatile("mov $231, %eax\n xor %edi, %edi\n syscall");
#elif defined(__aarch64__)
    __asm__ volatile("mov x8, #94\n mov x0, #0\n svc #0");
#else
#error "add exit_group(0) for this processor"
#endif
}
