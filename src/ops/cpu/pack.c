// Packing of operands into panels: calls the fast path for the part, and packs the rest element by element.
#include "ops/cpu/pack.h"
#include "base/error.h"
#include "ops/cpu/cpu.h"

#include <string.h>

// Input of the fast paths: whole groups of full panels, and for fp32 also the first lines of a partial
// panel, a multiple of four. All distances are in bytes.
struct pack_job {
    unsigned char *panels;
    const unsigned char *from;
    int64_t stride, panel_bytes;
    int64_t count, groups, width, lines;
};

// Addresses are those of single elements, so vectors are read and written by memcpy.
typedef uint16_t half4 __attribute__((vector_size(8)));
typedef uint16_t half8 __attribute__((vector_size(16)));
typedef uint32_t word2 __attribute__((vector_size(8)));
typedef uint32_t word4 __attribute__((vector_size(16)));
typedef uint64_t long2 __attribute__((vector_size(16)));

// ---- strided lines ----

// Lines that are strided in memory, where one step of neighbouring lines is contiguous: fp32 is copied as it is; in
// bf16 the steps of a group are interleaved in registers. Several panels are packed at once, so that memory is read in
// long runs.

CPU_INLINE half4 load4(const unsigned char *from) {
    half4 x;
    memcpy(&x, from, sizeof x);
    return x;
}

CPU_INLINE half8 load8(const unsigned char *from) {
    half8 x;
    memcpy(&x, from, sizeof x);
    return x;
}

CPU_INLINE half8 zip_low(half8 a, half8 b) {
    return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}

CPU_INLINE half8 zip_high(half8 a, half8 b) {
    return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}

// One group of a few lines; the steps are `stride` apart.
typedef void move_group(unsigned char *to, const unsigned char *from, int64_t stride);

CPU_INLINE void copy_floats(unsigned char *to, const unsigned char *from, int64_t stride) {
    (void)stride;
    memcpy(to, from, 4 * sizeof(float));
}

CPU_INLINE void zip_pairs(unsigned char *to, const unsigned char *from, int64_t stride) {
    half8 k0 = load8(from), k1 = load8(from + stride);
    half8 low = zip_low(k0, k1), high = zip_high(k0, k1);
    memcpy(to, &low, sizeof low);
    memcpy(to + sizeof low, &high, sizeof high);
}

CPU_INLINE void transpose4(unsigned char *to, const unsigned char *from, int64_t stride) {
    half4 k0 = load4(from), k1 = load4(from + stride), k2 = load4(from + 2 * stride), k3 = load4(from + 3 * stride);
    word2 low01 = (word2)__builtin_shufflevector(k0, k1, 0, 4, 1, 5);
    word2 high01 = (word2)__builtin_shufflevector(k0, k1, 2, 6, 3, 7);
    word2 low23 = (word2)__builtin_shufflevector(k2, k3, 0, 4, 1, 5);
    word2 high23 = (word2)__builtin_shufflevector(k2, k3, 2, 6, 3, 7);
    word2 lines[4] = {
        __builtin_shufflevector(low01, low23, 0, 2),
        __builtin_shufflevector(low01, low23, 1, 3),
        __builtin_shufflevector(high01, high23, 0, 2),
        __builtin_shufflevector(high01, high23, 1, 3),
    };
    memcpy(to, lines, sizeof lines);
}

CPU_INLINE word4 zip_words_low(word4 a, word4 b) {
    return __builtin_shufflevector(a, b, 0, 4, 1, 5);
}

CPU_INLINE word4 zip_words_high(word4 a, word4 b) {
    return __builtin_shufflevector(a, b, 2, 6, 3, 7);
}

// Two lines, eight steps each.
CPU_INLINE void store_lines(unsigned char *to, word4 first, word4 second) {
    long2 line = __builtin_shufflevector((long2)first, (long2)second, 0, 2);
    long2 next = __builtin_shufflevector((long2)first, (long2)second, 1, 3);
    memcpy(to, &line, sizeof line);
    memcpy(to + 64, &next, sizeof next);
}

// Eight steps of eight lines, of groups of 64 bytes.
CPU_INLINE void transpose8(unsigned char *to, const unsigned char *from, int64_t stride) {
    half8 k[8];
    CPU_UNROLL
    for (int i = 0; i < 8; i++)
        k[i] = load8(from + i * stride);
    // Pairs of steps of lines 0 to 3, and of lines 4 to 7.
    word4 low01 = (word4)zip_low(k[0], k[1]), high01 = (word4)zip_high(k[0], k[1]);
    word4 low23 = (word4)zip_low(k[2], k[3]), high23 = (word4)zip_high(k[2], k[3]);
    word4 low45 = (word4)zip_low(k[4], k[5]), high45 = (word4)zip_high(k[4], k[5]);
    word4 low67 = (word4)zip_low(k[6], k[7]), high67 = (word4)zip_high(k[6], k[7]);
    store_lines(to, zip_words_low(low01, low23), zip_words_low(low45, low67));
    store_lines(to + 128, zip_words_high(low01, low23), zip_words_high(low45, low67));
    store_lines(to + 256, zip_words_low(high01, high23), zip_words_low(high45, high67));
    store_lines(to + 384, zip_words_high(high01, high23), zip_words_high(high45, high67));
}

CPU_INLINE void transpose32(unsigned char *to, const unsigned char *from, int64_t stride) {
    for (int64_t k = 0; k < 32; k += 8)
        transpose8(to + k * 2, from + k * stride, stride);
}

// A function that moves groups, with its number of lines and the size of elements.
struct way {
    move_group *move;
    int64_t lines, element_bytes, group;
};

CPU_INLINE void walk_lines(const struct pack_job *job, const struct way *way, int64_t width, int64_t lines) {
    enum { PANELS_AT_ONCE = 8 };
    int64_t group_bytes = way->element_bytes * way->group, stride = job->stride;
    for (int64_t first = 0; first < job->count; first += PANELS_AT_ONCE) {
        int64_t end = first + PANELS_AT_ONCE < job->count ? first + PANELS_AT_ONCE : job->count;
        for (int64_t g = 0; g < job->groups; g++) {
            const unsigned char *from = job->from + g * way->group * stride;
            for (int64_t p = first; p < end; p++) {
                unsigned char *to = job->panels + p * job->panel_bytes + g * width * group_bytes;
                for (int64_t line = 0; line < lines; line += way->lines)
                    way->move(to + line * group_bytes, from + (p * width + line) * way->element_bytes, stride);
            }
        }
    }
}

CPU_INLINE void walk(const struct pack_job *job, const struct way *way, int64_t width) {
    walk_lines(job, way, width, width);
}

static void pack_across_f32(const struct pack_job *job) {
    static const struct way way = {copy_floats, 4, 4, 1};
    if (job->lines < job->width) {
        walk_lines(job, &way, job->width, job->lines);
        return;
    }
    switch (job->width) {
    case 4:
        return walk(job, &way, 4);
    case 8:
        return walk(job, &way, 8);
    case 12:
        return walk(job, &way, 12);
    case 32:
        return walk(job, &way, 32);
    default:
        return walk(job, &way, job->width);
    }
}

CPU_CLONES static void zip_panels(const struct pack_job *job) {
    static const struct way way = {zip_pairs, 8, 2, 2};
    walk(job, &way, job->width);
}

static void transpose_panels_4(const struct pack_job *job) {
    static const struct way way = {transpose4, 4, 2, 4};
    if (job->width == 8)
        walk(job, &way, 8);
    else
        walk(job, &way, job->width);
}

CPU_CLONES static void transpose_panels_32(const struct pack_job *job) {
    static const struct way way = {transpose32, 8, 2, 32};
    walk(job, &way, job->width);
}

static void pack_across_bf16(const struct pack_job *job, int64_t group) {
    CHECK(group == 2 || group == 4 || group == 32);
    CHECK(group == 4 || job->width % 8 == 0);
    if (group == 2)
        zip_panels(job);
    else if (group == 4)
        transpose_panels_4(job);
    else
        transpose_panels_32(job);
}

// ---- contiguous lines ----

// Packing of lines that are contiguous in memory. Groups of 4 bytes, an fp32 or two bf16, are transposed in registers,
// four by four; longer ones are copied.

CPU_INLINE word4 load(const unsigned char *from) {
    word4 x;
    memcpy(&x, from, sizeof x);
    return x;
}

CPU_INLINE void store(unsigned char *to, word4 x) {
    memcpy(to, &x, sizeof x);
}

// Four groups of four lines into places `distance` apart.
CPU_INLINE void transpose(unsigned char *to, int64_t distance, const unsigned char *from, int64_t stride) {
    word4 a = load(from), b = load(from + stride), c = load(from + 2 * stride), d = load(from + 3 * stride);
    word4 ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    word4 cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    store(to, __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5));
    store(to + distance, __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7));
    store(to + 2 * distance, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
    store(to + 3 * distance, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
}

// Sixteen groups of four lines at a time: whole cache lines, and few enough that they do not evict each other if the
// stride is a power of two.
CPU_INLINE void transpose_width(unsigned char *panel, const unsigned char *from, const struct pack_job *job,
                                int64_t width, int64_t lines) {
    int64_t distance = width * 4, stride = job->stride, g = 0;
    for (; g + 16 <= job->groups; g += 16) {
        for (int64_t line = 0; line < lines; line += 4) {
            for (int64_t i = g; i < g + 16; i += 4)
                transpose(panel + i * distance + line * 4, distance, from + line * stride + i * 4, stride);
        }
    }
    for (; g < job->groups; g++) {
        for (int64_t line = 0; line < lines; line++)
            memcpy(panel + g * distance + line * 4, from + line * stride + g * 4, 4);
    }
}

CPU_CLONES static void transpose_panel(unsigned char *panel, const unsigned char *from, const struct pack_job *job) {
    if (job->lines < job->width)
        transpose_width(panel, from, job, job->width, job->lines);
    else if (job->width == 8)
        transpose_width(panel, from, job, 8, 8);
    else if (job->width == 12)
        transpose_width(panel, from, job, 12, 12);
    else
        transpose_width(panel, from, job, job->width, job->width);
}

// Copies one cache line of each line at a time.
CPU_INLINE void copy_panel(unsigned char *panel, const unsigned char *from, const struct pack_job *job, int64_t bytes) {
    int64_t at_once = 64 / bytes;
    for (int64_t first = 0; first < job->groups; first += at_once) {
        int64_t end = first + at_once < job->groups ? first + at_once : job->groups;
        for (int64_t line = 0; line < job->width; line++) {
            for (int64_t g = first; g < end; g++)
                memcpy(panel + (g * job->width + line) * bytes, from + line * job->stride + g * bytes, (size_t)bytes);
        }
    }
}

CPU_CLONES static void copy_panel_64(unsigned char *panel, const unsigned char *from, const struct pack_job *job) {
    copy_panel(panel, from, job, 64);
}

static void copy_panel_8(unsigned char *panel, const unsigned char *from, const struct pack_job *job) {
    copy_panel(panel, from, job, 8);
}

static void pack_lines(const struct pack_job *job, int64_t group_bytes) {
    CHECK(group_bytes == 4 || group_bytes == 8 || group_bytes == 64);
    for (int64_t p = 0; p < job->count; p++) {
        unsigned char *panel = job->panels + p * job->panel_bytes;
        const unsigned char *from = job->from + p * job->width * job->stride;
        if (group_bytes == 4)
            transpose_panel(panel, from, job);
        else if (group_bytes == 8)
            copy_panel_8(panel, from, job);
        else
            copy_panel_64(panel, from, job);
    }
}

// ---- all lines ----

int64_t pack_panel_size(const struct panel_shape *shape, int64_t steps) {
    return shape->width * cpu_pieces(steps, shape->unit) * shape->unit;
}

// A panel with missing lines, or missing steps at the end.
struct rest {
    unsigned char *panel;
    const unsigned char *from;
    int64_t line_step, inner_step;  // in bytes
    int64_t first_line, lines;      // the first to pack, and the number that exist
    struct cpu_range steps;         // the first to pack, and the end of those that exist
};

// Packs the rest, with zeros after the last line and the last step.
CPU_INLINE void pack_rest_of(const struct rest *rest, const struct panel_shape *shape, size_t size, int64_t group) {
    int64_t width = shape->width;
    for (int64_t k = rest->steps.first; k < pack_panel_size(shape, rest->steps.end) / width; k++) {
        int64_t place = k / group * width * group + k % group, lines = k < rest->steps.end ? rest->lines : 0;
        const unsigned char *from = rest->from + k * rest->inner_step;
        int64_t line = rest->first_line;
        for (; line < lines; line++)
            memcpy(rest->panel + (size_t)(place + line * group) * size, from + line * rest->line_step, size);
        for (; line < width; line++)
            memset(rest->panel + (size_t)(place + line * group) * size, 0, size);
    }
}

static void pack_rest(const struct rest *rest, const struct panel_shape *shape, enum dtype dtype) {
    if (dtype == DTYPE_F32)
        pack_rest_of(rest, shape, sizeof(float), 1);
    else
        pack_rest_of(rest, shape, sizeof(uint16_t), shape->group);
}

static void pack_fast(const struct pack_job *job, const struct pack_source *source, int64_t group) {
    if (!source->lines_are_across)
        pack_lines(job, group * (int64_t)dtype_bytes(source->dtype));
    else if (source->dtype == DTYPE_F32)
        pack_across_f32(job);
    else
        pack_across_bf16(job, group);
}

// 16-bit operands in fp32 panels: widened a few lines and steps at a time, so that they stay in the L1 cache until
// packed.
static void pack_wide(float *panels, const struct panel_shape *shape, const struct pack_source *source,
                      const struct pack_part *part) {
    enum { LINES = 96, STEPS = 64 };
    float wide[LINES * STEPS];
    bool is_across = source->lines_are_across;
    int64_t most_lines = LINES / shape->width * shape->width;
    int64_t count = part->lines.end - part->lines.first, steps = part->inner.end - part->inner.first;
    CHECK(most_lines > 0 && STEPS % shape->unit == 0);
    for (int64_t i = 0; i < cpu_pieces(count, most_lines) * cpu_pieces(steps, STEPS); i++) {
        struct cpu_range lines = cpu_piece(count, most_lines, i / cpu_pieces(steps, STEPS)),
                         inner = cpu_piece(steps, STEPS, i % cpu_pieces(steps, STEPS));
        int64_t line = part->lines.first + lines.first, step = part->inner.first + inner.first;
        int64_t first = is_across ? step * source->stride + line : line * source->stride + step;
        lines.end -= lines.first;
        inner.end -= inner.first;
        int64_t rows = is_across ? inner.end : lines.end, columns = is_across ? lines.end : inner.end;
        for (int64_t row = 0; row < rows; row++)
            cpu_convert(wide + row * columns, DTYPE_F32, (const uint16_t *)source->data + first + row * source->stride,
                        source->dtype, columns);
        pack_panels(panels + lines.first / shape->width * part->distance + inner.first * shape->width, shape,
                    &(struct pack_source){wide, DTYPE_F32, columns, is_across},
                    &(struct pack_part){{0, lines.end}, {0, inner.end}, part->distance});
    }
}

void pack_panels(void *panels, const struct panel_shape *shape, const struct pack_source *source,
                 const struct pack_part *part) {
    if (shape->group == 1 && source->dtype != DTYPE_F32) {
        pack_wide(panels, shape, source, part);
        return;
    }
    struct cpu_range lines = part->lines, inner = part->inner;
    int64_t size = (int64_t)dtype_bytes(source->dtype), count = lines.end - lines.first;
    int64_t steps = inner.end - inner.first, whole_steps = steps / shape->group * shape->group;
    int64_t line_step = source->lines_are_across ? size : source->stride * size;
    int64_t inner_step = source->lines_are_across ? source->stride * size : size;
    CHECK(shape->width % 4 == 0 && (source->dtype == DTYPE_F32 ? shape->group == 1 : source->dtype == DTYPE_BF16));
    struct pack_job job = {
        .panels = panels,
        .from = (const unsigned char *)source->data + lines.first * line_step + inner.first * inner_step,
        .stride = source->stride * size,
        .panel_bytes = part->distance * size,
        .count = count / shape->width,
        .groups = steps / shape->group,
        .width = shape->width,
        .lines = shape->width,
    };
    pack_fast(&job, source, shape->group);
    // The last, partial panel: groups of four lines take the fast path if no steps need padding.
    struct pack_job last = job;
    last.panels += job.count * job.panel_bytes;
    last.from += job.count * shape->width * line_step;
    last.count = 1;
    last.lines = source->dtype == DTYPE_F32 && steps % shape->unit == 0 ? count % shape->width / 4 * 4 : 0;
    if (last.lines > 0)
        pack_fast(&last, source, shape->group);
    for (int64_t p = 0; p < cpu_pieces(count, shape->width); p++) {
        bool is_full = p < job.count;
        struct rest rest = {.panel = job.panels + p * job.panel_bytes,
                            .from = job.from + p * shape->width * line_step,
                            .line_step = line_step,
                            .inner_step = inner_step,
                            .first_line = is_full ? 0 : last.lines,
                            .lines = is_full ? shape->width : count % shape->width,
                            .steps = {is_full ? whole_steps : 0, steps}};
        pack_rest(&rest, shape, source->dtype);
    }
}
