// Random numbers beyond those of rng.h: normal deviates, and NumPy's generator.
#include "base/rng.h"

#include <math.h>
#include <string.h>

// ---- normal deviates ----

// Normal deviates addressed by element index: Philox words through the Box-Muller transform, four deviates a call.
//
// Deviate e of a stream comes from block e / 4 (the Philox counter, with the stream in its upper words) and lane e % 4.
// The logarithm, sine and cosine are written out here, in double precision and in +, -, *, / and square root alone,
// which IEEE 754 rounds the same way everywhere: with contraction to fused operations switched off for this file by the
// build, one seed gives the same weights to the bit on every machine. Their error, below 1e-10, drowns in the rounding
// to float. The loops have no branches, so that compilers vectorise them.

enum { BLOCKS = 64 };  // Philox calls worked on at a time

// Words 0…3 of Philox calls, one array per word so that loops run over calls.
struct words {
    uint32_t word[4][BLOCKS];
};

static void draw_words(struct words *out, uint64_t first_block, uint64_t seed, uint64_t stream) {
    for (int i = 0; i < BLOCKS; i++) {
        uint64_t block = first_block + (uint64_t)i;
        struct philox p =
            philox4x32(seed, (uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream, (uint32_t)(stream >> 32));
        for (int lane = 0; lane < 4; lane++)
            out->word[lane][i] = p.word[lane];
    }
}

// Exact; through a signed conversion because older vector units have no unsigned one.
static inline double word_to_double(uint32_t word) {
    return (double)(int32_t)(word ^ 0x80000000u) + 2147483648.0;
}

// Natural logarithm of x in [2^-32, 1]: x = m 2^e with m in [sqrt(1/2), sqrt(2)), ln m = 2 artanh((m - 1) / (m + 1)).
static inline double log_of_fraction(double x) {
    uint64_t bits, exponent_bits;
    memcpy(&bits, &x, sizeof bits);
    // Moving the cut between binades to sqrt(1/2) keeps the series short on both sides of 1.
    uint64_t shifted = bits - 0x3FE6A09E667F3BCDu + ((uint64_t)1023 << 52);
    uint64_t exponent = shifted >> 52;  // e + 1023
    uint64_t mantissa_bits = bits - (exponent << 52) + ((uint64_t)1023 << 52);
    double m, e;
    memcpy(&m, &mantissa_bits, sizeof m);
    exponent_bits = 0x4330000000000000u | exponent;  // 2^52 + exponent, as a double
    memcpy(&e, &exponent_bits, sizeof e);
    e -= 4503599627370496.0 + 1023.0;
    double s = (m - 1.0) / (m + 1.0);
    double z = s * s;  // at most 0.0295
    double series = 1.0 / 15;
    series = series * z + 1.0 / 13;
    series = series * z + 1.0 / 11;
    series = series * z + 1.0 / 9;
    series = series * z + 1.0 / 7;
    series = series * z + 1.0 / 5;
    series = series * z + 1.0 / 3;
    return e * 0.69314718055994530942 + 2.0 * s * (1.0 + z * series);
}

struct point {
    double x, y;
};

// Cosine and sine of a full turn times word / 2^32. The top two bits are the quadrant; the rest, centred, is an angle
// of at most an eighth of a turn, for which short Taylor polynomials suffice.
static inline struct point point_on_circle(uint32_t word) {
    uint32_t centred = word + 0x20000000u;
    uint32_t quadrant = centred >> 30;
    double angle = (double)((int32_t)(centred & 0x3fffffffu) - 0x20000000) * (6.283185307179586477 / 4294967296.0);
    double z = angle * angle;  // at most 0.617
    double s = -1.0 / 39916800;
    s = s * z + 1.0 / 362880;
    s = s * z - 1.0 / 5040;
    s = s * z + 1.0 / 120;
    s = s * z - 1.0 / 6;
    double sine = angle + angle * z * s;
    double c = 1.0 / 479001600;
    c = c * z - 1.0 / 3628800;
    c = c * z + 1.0 / 40320;
    c = c * z - 1.0 / 720;
    c = c * z + 1.0 / 24;
    c = c * z - 0.5;
    double cosine = 1.0 + z * c;
    // Turning by a quadrant swaps the two and changes signs.
    double x = quadrant & 1 ? sine : cosine, y = quadrant & 1 ? cosine : sine;
    return (struct point){(quadrant + 1) & 2 ? -x : x, quadrant & 2 ? -y : y};
}

// Two words into two deviates, for BLOCKS pairs; out is strided by 4 floats.
static void transform(float *restrict out, const uint32_t *restrict radius_words, const uint32_t *restrict angle_words,
                      double standard_deviation) {
    for (int i = 0; i < BLOCKS; i++) {
        double u = (word_to_double(radius_words[i]) + 1.0) * (1.0 / 4294967296.0);  // in (0, 1]
        double radius = standard_deviation * sqrt(-2.0 * log_of_fraction(u));
        struct point p = point_on_circle(angle_words[i]);
        out[4 * i] = (float)(radius * p.x);
        out[4 * i + 1] = (float)(radius * p.y);
    }
}

void philox_normal(float *out, int64_t count, int64_t first, uint64_t seed, uint64_t stream,
                   double standard_deviation) {
    struct words words;
    float deviates[4 * BLOCKS];
    while (count > 0) {
        int64_t block = first / 4, skip = first % 4;
        int64_t taken = 4 * BLOCKS - skip < count ? 4 * BLOCKS - skip : count;
        draw_words(&words, (uint64_t)block, seed, stream);
        transform(deviates, words.word[0], words.word[1], standard_deviation);
        transform(deviates + 2, words.word[2], words.word[3], standard_deviation);
        memcpy(out, deviates + skip, (size_t)taken * sizeof *out);
        out += taken;
        first += taken;
        count -= taken;
    }
}

// ---- MT19937 ----

// MT19937 (Matsumoto and Nishimura, 1998) driven exactly as NumPy's legacy RandomState drives it, because the sample
// order of every Megatron dataset follows from it: Knuth's seeding, masked rejection for integers, 53-bit doubles out
// of two draws, and a shuffle that runs from the end.

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
