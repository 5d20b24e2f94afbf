// A program without a C library that only ends: what is left of a run's cost is the launcher's and the kernel's.
void _start(void) {
#if defined(__x86_64__)
    __asm__ volatile("mov $231, %eax\n xor %edi, %edi\n syscall");
#elif defined(__aarch64__)
    __asm__ volatile("mov x8, #94\n mov x0, #0\n svc #0");
#else
#error "add exit_group(0) for this processor"
#endif
}
