// Normal deviates addressed by element index: Philox words through the Box-Muller transform, four deviates a call.
//
// Deviate e of a stream comes from block e / 4 (the Philox counter, with the stream in its upper words) and lane e % 4.
// The logarithm, sine and cosine are written out here, in double precision and in +, -, *, / and square root alone,
// which IEEE 754 rounds the same way everywhere: with contraction to fused operations switched off for this file by the
// build, one seed gives the same weights to the bit on every machine. Their error, below 1e-10, drowns in the rounding
// to float. The loops have no branches, so that compilers vectorise them.
#include "base/rng.h"

#include <math.h>
#include <string.h>

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
