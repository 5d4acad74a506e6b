// Two random number generators.
//
// Philox4x32 (Salmon et al., SC 2011) is a function, not a state: the same counter and key give the same four words on
// every machine and backend. All weights and dropout masks come from it, keyed by global element index, which is why
// the layout of ranks never changes the numbers. Ten rounds are its authors' choice, with a margin; dropout uses seven,
// the fewest that passed all their tests (BigCrush).
//
// MT19937 as NumPy's RandomState drives it (legacy seeding, masked rejection) gives the sample order of Megatron
// datasets.
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

struct philox {
    uint32_t word[4];
};

static inline struct philox philox4x32_rounds(int rounds, uint64_t key, struct philox counter) {
    uint32_t c0 = counter.word[0], c1 = counter.word[1], c2 = counter.word[2], c3 = counter.word[3];
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < rounds; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (struct philox){{c0, c1, c2, c3}};
}

static inline struct philox philox4x32(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
    return philox4x32_rounds(10, key, (struct philox){{c0, c1, c2, c3}});
}

static inline struct philox philox4x32_7(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
    return philox4x32_rounds(7, key, (struct philox){{c0, c1, c2, c3}});
}

// Normal deviates by element index: out[i] is deviate number first + i of stream `stream` under `seed`, with mean 0 and
// the given standard deviation. The numbers do not depend on how a range is split.
void philox_normal(float *out, int64_t count, int64_t first, uint64_t seed, uint64_t stream, double standard_deviation);

struct mt19937 {
    uint32_t state[624];
    int position;
};

void mt19937_seed(struct mt19937 *mt, uint32_t seed);  // numpy.random.RandomState(seed)
uint32_t mt19937_next(struct mt19937 *mt);
uint64_t mt19937_interval(struct mt19937 *mt, uint64_t max);         // uniform in [0, max]
double mt19937_random(struct mt19937 *mt);                           // random_sample()
void mt19937_shuffle_i32(struct mt19937 *mt, int32_t *x, size_t n);  // shuffle(), in place
void mt19937_shuffle_i64(struct mt19937 *mt, int64_t *x, size_t n);
void mt19937_permutation(struct mt19937 *mt, int64_t *out, size_t n);  // permutation(n)

// std::mt19937_64 of C++.
struct mt19937_64 {
    uint64_t state[312];
    int position;
};

void mt19937_64_seed(struct mt19937_64 *mt, uint64_t seed);
uint64_t mt19937_64_next(struct mt19937_64 *mt);

#endif
