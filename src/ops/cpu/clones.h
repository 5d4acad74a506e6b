// CPU_CLONES before a function compiles it for several levels of x86-64 and picks the best one when the program starts.
// The helpers it uses are CPU_INLINE, so that each clone compiles its own copy. The macro is empty on aarch64, where
// NEON is always available, and under sanitizers, which do not support the choice at start-up.
#ifndef OPS_CPU_CLONES_H
#define OPS_CPU_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(BEVATRON_SANITIZE)
#define CPU_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CPU_CLONES
#endif

// Before a loop that takes a maximum into `max` by vector_max. Clang cannot vectorize such a loop and would warn.
#if defined(__clang__)
#define CPU_SIMD_MAX
#else
#define CPU_SIMD_MAX _Pragma("omp simd reduction(max : max)")
#endif

// Before a loop with a small constant count that must be unrolled, such as one over vector registers.
#define CPU_UNROLL _Pragma("GCC unroll 16")

#define CPU_INLINE static inline __attribute__((always_inline))

#endif
