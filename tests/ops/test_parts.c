// The split of attention into parts: against a search through all splits, and for the sizes of real models.
#include "ops/attention_parts.h"
#include "ops/ops.h"
#include "test.h"

struct attention_sizes {
    int64_t B, Tq, Tk, H, G, D, V;
};

// Only shapes are read.
static struct attention_part cut(const struct attention_sizes *s, int64_t most) {
    static char memory[1];
    return attention_part(tensor_4d(memory, DTYPE_BF16, s->B, s->Tq, s->H, s->D),
                          tensor_4d(memory, DTYPE_BF16, s->B, s->Tk, s->G, s->D),
                          tensor_4d(memory, DTYPE_BF16, s->B, s->Tk, s->G, s->V), most);
}

static int64_t workspace(const struct attention_sizes *s) {
    static char memory[1];
    return attention_workspace_bytes(
        tensor_4d(memory, DTYPE_BF16, s->B, s->Tq, s->H, s->D), tensor_4d(memory, DTYPE_BF16, s->B, s->Tk, s->G, s->D),
        tensor_4d(memory, DTYPE_BF16, s->B, s->Tk, s->G, s->V), &(struct attention_mask){.window = 0});
}

// Elements of its largest tensor that a call for some samples and some heads of keys reads or sums.
static int64_t elements(const struct attention_sizes *s, int64_t samples, int64_t key_heads) {
    int64_t heads = key_heads * (s->H / s->G), q = s->Tq * s->D, k = s->Tk * s->D, v = s->Tk * s->V, out = s->Tq * s->V;
    int64_t most = q > k ? q : k;
    most = most > v ? most : v;
    return samples * heads * (most > out ? most : out);
}

// The most elements of an equal part within the limit: whole samples, or heads of one; else of the smallest part.
static int64_t best(const struct attention_sizes *s, int64_t most) {
    int64_t found = elements(s, 1, 1);
    for (int64_t samples = 1; samples <= s->B; samples++)
        for (int64_t heads = 1; heads <= s->G; heads++) {
            bool is_whole = heads == s->G || samples == 1;
            int64_t size = elements(s, samples, heads);
            if (is_whole && s->B % samples == 0 && s->G % heads == 0 && size <= most && size > found)
                found = size;
        }
    return found;
}

TEST(parts_are_equal_whole_and_as_large_as_possible) {
    int64_t cases = 0, counts[3] = {0};
    for (int64_t n = 0; n < 6 * 6 * 4 * 3; n++) {
        struct attention_sizes s = {.B = 1 + n % 6,
                                    .Tq = n / 144 == 1 ? 5 : 7,
                                    .Tk = n / 144 == 2 ? 9 : 7,
                                    .H = (1 + n / 6 % 6) * (1 + n / 36 % 4),
                                    .G = 1 + n / 6 % 6,
                                    .D = 6,
                                    .V = n % 2 ? 4 : 8};
        for (int64_t most = 1; most <= elements(&s, s.B, s.G) + 1; most += 1 + most / 7) {
            struct attention_part part = cut(&s, most);
            EXPECT_INT(part.elements, best(&s, most));
            EXPECT_INT(part.elements, elements(&s, part.samples, part.key_heads));
            EXPECT(part.key_heads == s.G || part.samples == 1);
            EXPECT(s.B % part.samples == 0 && s.G % part.key_heads == 0);
            EXPECT_INT(part.heads, part.key_heads * (s.H / s.G));
            EXPECT_INT(part.count * part.samples * part.key_heads, s.B * s.G);
            counts[part.count == 1 ? 0 : part.key_heads == s.G ? 1 : 2]++;
            cases++;
        }
    }
    printf("    %d cuts: %d whole, %d into samples, %d into heads\n", (int)cases, (int)counts[0], (int)counts[1],
           (int)counts[2]);
    EXPECT(counts[0] > 100 && counts[1] > 100 && counts[2] > 100);
}

// Of 32 heads of 128 whose rows are this far apart.
static int64_t packed_workspace(int64_t T, int64_t columns) {
    static uint16_t memory[8];
    struct tensor t = tensor_4d(memory, DTYPE_BF16, 1, T, 32, 128);
    t.stride[0] = T * columns;
    t.stride[1] = columns;
    return attention_workspace_bytes(t, t, t, &(struct attention_mask){.window = 0});
}

// Attention of real models: the sizes of one call, and whether cuDNN computes it.
TEST(sizes_of_models) {
    enum { LONG = 524288 };
    static const struct {
        struct attention_sizes sizes;
        int64_t samples, key_heads, count;
        bool is_taken;
    } cases[] = {
        {{64, 1024, 1024, 12, 12, 64, 64}, 64, 12, 1, true},
        {{1, 131072, 131072, 16, 16, 128, 128}, 1, 16, 1, true},  // 2^28
        {{1, 262144, 262144, 32, 32, 128, 128}, 1, 8, 4, true},
        {{1, LONG, LONG, 32, 32, 128, 128}, 1, 4, 8, true},
        {{1, LONG, LONG, 32, 8, 128, 128}, 1, 1, 8, true},           // 4 heads of queries for one of keys: 2^28
        {{1, LONG, LONG, 64, 8, 128, 128}, 1, 1, 8, true},           // 8: 2^29, not cut further
        {{1, 4 * LONG, 4 * LONG, 64, 8, 128, 128}, 1, 1, 8, false},  // 2^31
        {{1, LONG, LONG, 16, 16, 192, 128}, 1, 2, 8, true},          // latent attention
        {{1, LONG, LONG, 7, 7, 128, 128}, 1, 1, 7, true},            // 4 would fit, but 7 has no such divisor
        {{1024, 1024, 1024, 16, 16, 128, 128}, 128, 16, 8, true},
        {{1, 131072, LONG, 32, 32, 128, 128}, 1, 4, 8, true},  // queries of one of several ranks
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct attention_part part = cut(&cases[i].sizes, ATTENTION_PART_ELEMENTS);
        EXPECT_INT(part.samples, cases[i].samples);
        EXPECT_INT(part.key_heads, cases[i].key_heads);
        EXPECT_INT(part.count, cases[i].count);
        EXPECT((part.elements < ATTENTION_SUMMED_EXTENT) == cases[i].is_taken);
    }
}

// The sums in fp32, the bounds and seeds, and 1 MiB: of a part. And what a library does not address where it lies.
TEST(workspace_is_that_of_a_part) {
    const struct attention_sizes small = {2, 256, 256, 4, 4, 64, 64}, grouped = {2, 256, 128, 4, 2, 64, 32};
    const struct attention_sizes large = {1, 524288, 524288, 32, 32, 128, 128},
                                 wide = {1, 524288, 524288, 64, 8, 128, 128};
    int64_t rest = 1 << 20, T = 524288;
    EXPECT_INT(workspace(&small), 4 * 2 * 4 * 256 * 64 + 8 * 2 * 256 + rest);
    EXPECT_INT(workspace(&grouped), 4 * 2 * 4 * 256 * 64 + 2 * 2 * 4 * 128 * 96 + 8 * 2 * 256 + rest);
    EXPECT_INT(workspace(&large), 4 * (INT64_C(1) << 28) + 8 * T + rest + 16 * 7);
    EXPECT_INT(workspace(&wide), (4 + 2 * 2 + 2 * 2) * (INT64_C(1) << 29) + 8 * T + rest + 16 * 7);  // out and dout
    int64_t plain = 4 * (INT64_C(1) << 28) + 8 * T + rest + 16 * 7;
    EXPECT_INT(packed_workspace(T, 8192), plain);  // extents just below 2^32
    EXPECT_INT(packed_workspace(T, 8200), plain + 3 * 2 * (INT64_C(1) << 28));
    EXPECT_INT(packed_workspace(T, 12288), plain + 3 * 2 * (INT64_C(1) << 28));  // dq, dk and dv of 4 heads
    EXPECT_INT(workspace(&(struct attention_sizes){0, 256, 256, 4, 4, 64, 64}), 1);
}

TEST_MAIN(TEST_CASE(parts_are_equal_whole_and_as_large_as_possible), TEST_CASE(sizes_of_models),
          TEST_CASE(workspace_is_that_of_a_part))
