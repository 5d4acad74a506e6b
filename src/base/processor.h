// Processor features beyond C. Only this header, scan.c and sha256_hardware.c ask about the machine.
#ifndef BASE_PROCESSOR_H
#define BASE_PROCESSOR_H

// For the body of a spinning loop: tells the core that nothing happens here, which saves power and helps its sibling
// thread.
static inline void processor_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

#endif
