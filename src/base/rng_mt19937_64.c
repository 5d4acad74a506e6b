// The 64-bit Mersenne Twister (Nishimura and Matsumoto, 2000) as C++'s std::mt19937_64 has it: Megatron orders the
// samples of BERT and T5 with it.
#include "base/rng.h"

enum { STATE_WORDS = 312, SHIFT_WORDS = 156 };

void mt19937_64_seed(struct mt19937_64 *mt, uint64_t seed) {
    mt->state[0] = seed;
    for (uint64_t i = 1; i < STATE_WORDS; i++) {
        uint64_t previous = mt->state[i - 1];
        mt->state[i] = 6364136223846793005u * (previous ^ previous >> 62) + i;
    }
    mt->position = STATE_WORDS;
}

static void refill(struct mt19937_64 *mt) {
    const uint64_t upper = 0xFFFFFFFF80000000u, lower = 0x7FFFFFFFu;
    uint64_t *s = mt->state;
    for (int i = 0; i < STATE_WORDS; i++) {
        uint64_t mixed = (s[i] & upper) | (s[(i + 1) % STATE_WORDS] & lower);
        s[i] = s[(i + SHIFT_WORDS) % STATE_WORDS] ^ mixed >> 1 ^ (mixed & 1 ? 0xB5026F5AA96619E9u : 0);
    }
    mt->position = 0;
}

uint64_t mt19937_64_next(struct mt19937_64 *mt) {
    if (mt->position == STATE_WORDS)
        refill(mt);
    uint64_t word = mt->state[mt->position++];
    word ^= word >> 29 & 0x5555555555555555u;
    word ^= word << 17 & 0x71D67FFFEDA60000u;
    word ^= word << 37 & 0xFFF7EEE000000000u;
    return word ^ word >> 43;
}
