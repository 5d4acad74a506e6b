// MT19937 (Matsumoto and Nishimura, 1998) driven exactly as NumPy's legacy RandomState drives it, because the sample
// order of every Megatron dataset follows from it: Knuth's seeding, masked rejection for integers, 53-bit doubles out
// of two draws, and a shuffle that runs from the end.
#include "base/rng.h"

enum { STATE_WORDS = 624, SHIFT_WORDS = 397 };

void mt19937_seed(struct mt19937 *mt, uint32_t seed) {
    mt->state[0] = seed;
    for (uint32_t i = 1; i < STATE_WORDS; i++) {
        uint32_t previous = mt->state[i - 1];
        mt->state[i] = 1812433253u * (previous ^ previous >> 30) + i;
    }
    mt->position = STATE_WORDS;
}

static uint32_t twist(uint32_t upper, uint32_t lower) {
    uint32_t mixed = (upper & 0x80000000u) | (lower & 0x7fffffffu);
    return mixed >> 1 ^ (mixed & 1u ? 0x9908b0dfu : 0u);
}

static void refill(struct mt19937 *mt) {
    uint32_t *s = mt->state;
    int i = 0;
    for (; i < STATE_WORDS - SHIFT_WORDS; i++)
        s[i] = s[i + SHIFT_WORDS] ^ twist(s[i], s[i + 1]);
    for (; i < STATE_WORDS - 1; i++)
        s[i] = s[i + SHIFT_WORDS - STATE_WORDS] ^ twist(s[i], s[i + 1]);
    s[i] = s[SHIFT_WORDS - 1] ^ twist(s[i], s[0]);
    mt->position = 0;
}

uint32_t mt19937_next(struct mt19937 *mt) {
    if (mt->position == STATE_WORDS)
        refill(mt);
    uint32_t word = mt->state[mt->position++];
    word ^= word >> 11;
    word ^= word << 7 & 0x9d2c5680u;
    word ^= word << 15 & 0xefc60000u;
    return word ^ word >> 18;
}

static uint64_t next_64(struct mt19937 *mt) {
    uint64_t high = mt19937_next(mt);
    return high << 32 | mt19937_next(mt);
}

uint64_t mt19937_interval(struct mt19937 *mt, uint64_t max) {
    if (max == 0)
        return 0;
    uint64_t mask = UINT64_MAX >> __builtin_clzll(max);
    uint64_t value;
    do {
        value = (max <= UINT32_MAX ? mt19937_next(mt) : next_64(mt)) & mask;
    } while (value > max);
    return value;
}

double mt19937_random(struct mt19937 *mt) {
    uint32_t a = mt19937_next(mt) >> 5, b = mt19937_next(mt) >> 6;
    return ((double)a * 67108864.0 + (double)b) / 9007199254740992.0;
}

void mt19937_shuffle_i32(struct mt19937 *mt, int32_t *x, size_t n) {
    for (size_t i = n; i-- > 1;) {
        uint64_t j = mt19937_interval(mt, i);
        int32_t moved = x[i];
        x[i] = x[j];
        x[j] = moved;
    }
}

void mt19937_shuffle_i64(struct mt19937 *mt, int64_t *x, size_t n) {
    for (size_t i = n; i-- > 1;) {
        uint64_t j = mt19937_interval(mt, i);
        int64_t moved = x[i];
        x[i] = x[j];
        x[j] = moved;
    }
}

void mt19937_permutation(struct mt19937 *mt, int64_t *out, size_t n) {
    for (size_t i = 0; i < n; i++)
        out[i] = (int64_t)i;
    mt19937_shuffle_i64(mt, out, n);
}

// The 64-bit Mersenne Twister (Nishimura and Matsumoto, 2000) as C++'s std::mt19937_64 has it: Megatron orders the
// samples of BERT and T5 with it.

enum { STATE_WORDS_64 = 312, SHIFT_WORDS_64 = 156 };

void mt19937_64_seed(struct mt19937_64 *mt, uint64_t seed) {
    mt->state[0] = seed;
    for (uint64_t i = 1; i < STATE_WORDS_64; i++) {
        uint64_t previous = mt->state[i - 1];
        mt->state[i] = 6364136223846793005u * (previous ^ previous >> 62) + i;
    }
    mt->position = STATE_WORDS_64;
}

static void refill_64(struct mt19937_64 *mt) {
    const uint64_t upper = 0xFFFFFFFF80000000u, lower = 0x7FFFFFFFu;
    uint64_t *s = mt->state;
    for (int i = 0; i < STATE_WORDS_64; i++) {
        uint64_t mixed = (s[i] & upper) | (s[(i + 1) % STATE_WORDS_64] & lower);
        s[i] = s[(i + SHIFT_WORDS_64) % STATE_WORDS_64] ^ mixed >> 1 ^ (mixed & 1 ? 0xB5026F5AA96619E9u : 0);
    }
    mt->position = 0;
}

uint64_t mt19937_64_next(struct mt19937_64 *mt) {
    if (mt->position == STATE_WORDS_64)
        refill_64(mt);
    uint64_t word = mt->state[mt->position++];
    word ^= word >> 29 & 0x5555555555555555u;
    word ^= word << 17 & 0x71D67FFFEDA60000u;
    word ^= word << 37 & 0xFFF7EEE000000000u;
    return word ^ word >> 43;
}
