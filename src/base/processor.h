// What the processor under us can do. The only #if on the kind of machine in base/ are in this header's users' hot
// loops: scan.c, sha256_hardware.c and here.
#ifndef BASE_PROCESSOR_H
#define BASE_PROCESSOR_H

// For the body of a spinning loop: tells the core that nothing happens here, which saves power and frees its sibling.
static inline void processor_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

#endif
