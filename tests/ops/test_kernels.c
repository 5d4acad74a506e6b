// The matmul micro-kernels, each by itself: those that this processor supports, and, on any processor, plain models of
// all of them, which read panels of the same layout. So packing and blocking are tested even for kernels whose
// instructions are missing. Numbers are small integers, whose products and sums are exact: results must be equal.
// cost: 12
// parts: 2
#include "cases_attention.h"
#include "cases_matmul.h"
#include "ops/cpu/block.h"
#include "ops/cpu/matmul.h"

static int entered;  // models that entered something and have not left

static void enter_model(void) {
    entered++;
}

static void leave_model(void) {
    entered--;
}

// A line of a panel.
struct line {
    const void *panel;
    const struct panel_shape *shape;
    enum dtype dtype;
    int64_t index;
};

static void read_line(double *steps, int64_t count, const struct line *line) {
    for (int64_t k = 0; k < count; k++) {
        int64_t group = line->shape->group;
        int64_t place = (k / group * line->shape->width + line->index) * group + k % group;
        steps[k] = (double)(line->dtype == DTYPE_F32 ? ((const float *)line->panel)[place]
                                                     : lab_from_bf16(((const uint16_t *)line->panel)[place]));
    }
}

static void multiply_model(const struct cpu_kernel *kernel, const struct kernel_tile *tile) {
    static double rows[KERNEL_MOST_ROWS][1024], columns[1024];
    EXPECT(tile->inner % kernel->a.unit == 0 && tile->inner <= kernel->most_steps);
    EXPECT_INT(entered, kernel->enter != NULL);
    for (int64_t i = 0; i < kernel->a.width; i++)
        read_line(rows[i], tile->inner, &(struct line){tile->a, &kernel->a, kernel->dtype, i});
    for (int64_t j = 0; j < kernel->b.width; j++) {
        read_line(columns, tile->inner, &(struct line){tile->b, &kernel->b, kernel->dtype, j});
        for (int64_t i = 0; i < kernel->a.width; i++)
            tile->d[i * tile->stride + j] =
                (float)lab_inner(rows[i], columns, tile->inner) + tile->addend[i * tile->addend_stride + j];
    }
}

#define MODEL(name_, ...)                                                                                              \
    static void multiply_##name_(const struct kernel_tile *tile);                                                      \
    static const struct cpu_kernel model_##name_ = {                                                                   \
        .name = "a model of " #name_, .multiply = multiply_##name_, __VA_ARGS__};                                      \
    static void multiply_##name_(const struct kernel_tile *tile) {                                                     \
        multiply_model(&model_##name_, tile);                                                                          \
    }
MODEL(neon, .dtype = DTYPE_F32, .a = {8, 1, 4}, .b = {12, 1, 4}, .most_steps = 512)
MODEL(avx2, .dtype = DTYPE_F32, .a = {4, 1, 1}, .b = {24, 1, 1}, .most_steps = 256)
MODEL(avx512, .dtype = DTYPE_F32, .a = {12, 1, 1}, .b = {32, 1, 1}, .most_steps = 384)
MODEL(bfmmla, .dtype = DTYPE_BF16, .a = {8, 4, 8}, .b = {12, 4, 8}, .most_steps = 1024)
MODEL(avx512_bf16, .dtype = DTYPE_BF16, .a = {8, 2, 2}, .b = {32, 2, 2}, .most_steps = 512)
MODEL(amx, .dtype = DTYPE_BF16, .a = {32, 32, 32}, .b = {32, 2, 32}, .most_steps = 768, .enter = enter_model,
      .leave = leave_model)

// Small integers: exact in bf16, and so are the sums of all their products in fp32.
static void fill(struct lab *lab, struct wide *w) {
    for (int64_t i = 0; i < tensor_count(w->whole.t); i++)
        w->whole.x[i] = nearbyint(w->whole.x[i] * 8);
    lab_write(lab, w->whole.t, w->whole.x);
}

static void exact_product(struct lab *lab, const int64_t size[3], int transposes, int64_t extra) {
    int64_t M = size[0], N = size[1], K = size[2];
    bool transpose_a = transposes & 1, transpose_b = transposes & 2;
    struct wide a = transpose_a ? lab_wide(lab, lab->dtype, K, M, extra) : lab_wide(lab, lab->dtype, M, K, extra);
    struct wide b = transpose_b ? lab_wide(lab, lab->dtype, N, K, extra) : lab_wide(lab, lab->dtype, K, N, extra);
    struct wide d = lab_wide(lab, DTYPE_F32, M, N, extra);
    fill(lab, &a);
    fill(lab, &b);
    fill(lab, &d);
    struct op_matmul op = {
        a.t, b.t, d.t, .transpose_a = transpose_a, .transpose_b = transpose_b, .alpha = 1, .beta = transposes > 1};
    double *expected = naive_matmul(lab, &op, &a, &b, &d);
    op_matmul(lab->device, &op);
    expect_wide(lab, &d, expected);
    op.alpha = 0.5f;
    op.beta = 2;
    for (int64_t i = 0; i < M; i++) {
        for (int64_t j = 0; j < N; j++)
            d.whole.x[i * d.stride + d.first + j] = expected[i * N + j];
    }
    expected = naive_matmul(lab, &op, &a, &b, &d);
    op_matmul(lab->device, &op);
    expect_wide(lab, &d, expected);
    lab_clear(lab);
}

// A device whose matmuls use only this kernel, and a lab that compares exactly. Kernels for fp32 also multiply operands
// of 16 bits, which are widened on the way.
static void open_kernel(struct lab *lab, const struct cpu_kernel *kernel, enum dtype dtype, int threads) {
    struct device *device = NULL;
    EXPECT_OK(cpu_open(&device, &(struct device_options){.threads = threads, .cpu_kernels = NULL}));
    ((struct cpu_device *)device)->kernels[0] = kernel;
    ((struct cpu_device *)device)->kernels[1] = NULL;
    lab_open(lab, device, dtype, 0);
}

static void close_kernel(struct lab *lab) {
    struct device *device = lab->device;
    lab_close(lab);
    device_close(device);
}

static void try_products(const struct cpu_kernel *kernel, enum dtype dtype, int threads) {
    static const int64_t sizes[][3] = {{1, 1, 1},      {32, 32, 64},   {33, 70, 17},  {64, 96, 64},
                                       {65, 65, 31},   {130, 45, 200}, {40, 300, 65}, {300, 40, 33},
                                       {75, 41, 1123}, {1, 99, 400},   {3, 200, 70}};
    struct lab lab;
    open_kernel(&lab, kernel, dtype, threads);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int transposes = 0; transposes < 4; transposes++) {
            exact_product(&lab, sizes[i], transposes, 0);
            exact_product(&lab, sizes[i], transposes, 3);
        }
    }
    close_kernel(&lab);
}

static void try_cases(const struct cpu_kernel *kernel, enum dtype dtype, int threads) {
    struct lab lab;
    open_kernel(&lab, kernel, dtype, threads);
    lab.tolerance = dtype == DTYPE_F32 ? 1e-5 : 1.6e-2;
    case_matmul(&lab);
    case_matmul_tiles(&lab);
    case_matmul_epilogues(&lab);
    if (dtype == DTYPE_F32) {
        case_attention(&lab);
        case_attention_masks(&lab);
    }
    close_kernel(&lab);
}

TEST(models) {
    static const struct cpu_kernel *const models[] = {&model_neon,   &model_avx2,        &model_avx512,
                                                      &model_bfmmla, &model_avx512_bf16, &model_amx};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        try_products(models[i], models[i]->dtype, 1);
        if (models[i]->dtype == DTYPE_F32)
            try_products(models[i], DTYPE_BF16, 1);
        EXPECT_INT(entered, 0);
    }
    try_cases(&model_avx512, DTYPE_F32, 1);
    try_cases(&model_avx512, DTYPE_BF16, 1);
    try_cases(&model_amx, DTYPE_BF16, 1);
}

// The table's entry for a kernel matches the model that was tested.
TEST(kernels_of_this_processor) {
    static const struct cpu_kernel *const models[] = {&model_neon,   &model_avx2,        &model_avx512,
                                                      &model_bfmmla, &model_avx512_bf16, &model_amx};
    static const char *const names[] = {"neon", "avx2", "avx512", "bfmmla", "avx512-bf16", "amx"};
    const struct cpu_kernel *kernels[KERNEL_MOST + 1];
    EXPECT_OK(kernel_choose(kernels, NULL));
    for (int i = 0; kernels[i]; i++) {
        const struct cpu_kernel *kernel = kernels[i];
        size_t at = 0;
        while (at < sizeof names / sizeof names[0] && strcmp(names[at], kernel->name) != 0)
            at++;
        EXPECT(at < sizeof names / sizeof names[0]);
        EXPECT(kernel->dtype == models[at]->dtype && kernel->a.width <= KERNEL_MOST_ROWS &&
               kernel->b.width <= KERNEL_MOST_COLUMNS && kernel->a.unit <= KERNEL_MOST_UNIT);
        EXPECT(memcmp(&kernel->a, &models[at]->a, sizeof kernel->a) == 0 &&
               memcmp(&kernel->b, &models[at]->b, sizeof kernel->b) == 0);
        try_products(kernel, kernel->dtype, 3);
        try_cases(kernel, kernel->dtype, 2);
        if (kernel->dtype == DTYPE_F32) {
            try_products(kernel, DTYPE_F16, 3);
            try_cases(kernel, DTYPE_BF16, 2);
        }
    }
    if (!kernels[0])
        test_skip("this processor has none");
}

// Integers from -4 to 4, as fp32 or bf16.
static struct tensor small_integers(struct arena *arena, enum dtype dtype, int64_t rows, int64_t columns,
                                    uint64_t seed) {
    struct tensor t = arena_2d(arena, dtype, rows, columns);
    for (int64_t i = 0; i < tensor_count(t); i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        float value = (float)((int)(seed >> 33) % 9 - 4);
        if (dtype == DTYPE_F32)
            ((float *)t.data)[i] = value;
        else
            ((uint16_t *)t.data)[i] = lab_bf16(value);
    }
    return t;
}

static void compare_with_openblas(struct device *device, const struct cpu_kernel *kernel, const int64_t size[3]) {
    enum { BYTES = 96 << 20 };
    struct device *blas = NULL;
    struct arena arena;
    void *memory = device_alloc(device, BYTES);
    EXPECT(memory != NULL);
    arena_init(&arena, "large", memory, BYTES);
    EXPECT_OK(cpu_open(&blas, &(struct device_options){.threads = 2, .cpu_kernels = "openblas"}));
    struct tensor a = small_integers(&arena, kernel->dtype, size[0], size[2], 1);
    struct tensor b = small_integers(&arena, kernel->dtype, size[1], size[2], 2);
    struct tensor d = small_integers(&arena, DTYPE_F32, size[0], size[1], 3);
    struct tensor expected = small_integers(&arena, DTYPE_F32, size[0], size[1], 3);
    struct op_matmul op = {.a = a, .b = b, .d = d, .transpose_b = true, .alpha = 1, .beta = 1};
    op_matmul(device, &op);
    op.d = expected;
    op_matmul(blas, &op);
    EXPECT(memcmp(d.data, expected.data, tensor_bytes(d)) == 0);
    device_close(blas);
    device_free(device, memory);
}

// More rows, columns and steps than one round takes.
TEST(rounds) {
    static const int64_t sizes[][3] = {{1000, 100, 2048}, {1000, 1000, 2048}, {1700, 100, 2600}, {1000, 800, 3000},
                                       {100, 1700, 2600}, {1000, 100, 5000},  {100, 1100, 5000}};
    const struct cpu_kernel *kernels[KERNEL_MOST + 1];
    EXPECT_OK(kernel_choose(kernels, NULL));
    for (int i = 0; kernels[i]; i++) {
        struct device *device = NULL;
        EXPECT_OK(cpu_open(&device, &(struct device_options){.threads = 3, .cpu_kernels = kernels[i]->name}));
        for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++)
            compare_with_openblas(device, kernels[i], sizes[j]);
        device_close(device);
    }
    if (!kernels[0])
        test_skip("this processor has none");
}

// Every row of a is 2^30, 1, -2^30, times each column of b, which is ones: in fp32 the 1 would be lost.
static void rounded_once(struct lab *lab, int transposes) {
    enum { ROWS = 5, COLUMNS = 18, INNER = 3 };
    static const double steps[INNER] = {1 << 30, 1, -(1 << 30)};
    bool transpose_a = transposes & 1, transpose_b = transposes & 2;
    struct sample a = transpose_a ? lab_2d(lab, INNER, ROWS, 1) : lab_2d(lab, ROWS, INNER, 1);
    struct sample b = transpose_b ? lab_2d(lab, COLUMNS, INNER, 1) : lab_2d(lab, INNER, COLUMNS, 1);
    struct sample d = lab_2d(lab, ROWS, COLUMNS, 1);
    for (int i = 0; i < ROWS * INNER; i++)
        a.x[i] = steps[transpose_a ? i / ROWS : i % INNER];
    for (int i = 0; i < COLUMNS * INNER; i++)
        b.x[i] = 1;
    lab_write(lab, a.t, a.x);
    lab_write(lab, b.t, b.x);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        d.x[i] += 0.5;
    op_matmul(lab->device, &(struct op_matmul){a.t, b.t, d.t, .transpose_a = transpose_a, .transpose_b = transpose_b,
                                               .alpha = 0.5f, .beta = 1});
    lab_expect(lab, d.t, d.x);
    lab_clear(lab);
}

TEST(small_matmuls_are_rounded_once) {
    struct device *device = NULL;
    struct lab lab;
    EXPECT_OK(cpu_open(&device, &(struct device_options){.threads = 1}));
    lab_open(&lab, device, DTYPE_F32, 1e-7);
    for (int transposes = 0; transposes < 4; transposes++)
        rounded_once(&lab, transposes);
    lab_close(&lab);
    device_close(device);
}

// The first matmul of these panels is of a few numbers and packs nothing, the second packs, the third finds the panels
// packed and reads the operand again. The right operand has other lines on the way.
static void multiply_block(const struct cpu_kernel *kernel) {
    enum { LINES = 70, STEPS = 37, FEW = 5 };
    static float a[LINES * STEPS], b[LINES * STEPS], d[LINES * LINES];
    static struct block_panels left[2], right;
    const int64_t rows[] = {FEW, LINES, FEW, LINES}, columns[] = {LINES, LINES, FEW, LINES - 1};
    for (int i = 0; i < LINES * STEPS; i++) {
        a[i] = (float)(i * 7 % 17 - 8);
        b[i] = (float)(i * 5 % 13 - 6);
    }
    for (int round = 0; round < 2; round++) {
        struct block_operand other = {{b, DTYPE_F32, STEPS, false}, LINES, STEPS, round ? 2.0f : -0.5f};
        block_put(&right, &other, kernel);
        for (int i = 0; i < 4; i++) {
            struct block_panels *panels = &left[rows[i] == LINES];
            struct block_operand one = {{a, DTYPE_F32, STEPS, false}, rows[i], STEPS, 4};
            block_put(panels, &one, kernel);
            block_multiply(&(struct block_matmul){panels, &right, columns[i], d, LINES, false});
            for (int64_t at = 0; at < rows[i] * columns[i]; at++) {
                double sum = 0;
                for (int k = 0; k < STEPS; k++)
                    sum += (double)a[at / columns[i] * STEPS + k] * (double)b[at % columns[i] * STEPS + k];
                double got = d[at / columns[i] * LINES + at % columns[i]];
                EXPECT_NEAR(got, sum * 4 * (double)other.factor, 0);
            }
        }
    }
}

TEST(blocks_are_packed_when_needed) {
    const struct cpu_kernel *models[] = {&model_neon, &model_avx2, &model_avx512};
    multiply_block(NULL);
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        multiply_block(models[i]);
}

TEST(names) {
    const struct cpu_kernel *kernels[KERNEL_MOST + 1], *one[KERNEL_MOST + 1];
    EXPECT_OK(kernel_choose(kernels, "openblas"));
    EXPECT(kernels[0] == NULL);
    EXPECT_ERROR(kernel_choose(one, "sse"), "no matmul kernel \"sse\"");
    EXPECT_ERROR(kernel_choose(one, "openblas,sse"), "choose --cpu-kernels from");
    EXPECT_ERROR(kernel_choose(one, ""), "no matmul kernel \"\"");
    EXPECT_OK(kernel_choose(kernels, NULL));
    char all[128] = "openblas";
    for (int i = 0; kernels[i]; i++) {
        EXPECT_OK(kernel_choose(one, kernels[i]->name));
        EXPECT(one[0] == kernels[i] && one[1] == NULL);
        (void)snprintf(all + strlen(all), sizeof all - strlen(all), ",%s", kernels[i]->name);
    }
    EXPECT_OK(kernel_choose(one, all));
    for (int i = 0; i <= KERNEL_MOST && (i == 0 || kernels[i - 1]); i++)
        EXPECT(one[i] == kernels[i]);
    struct device *device = NULL;
    EXPECT_ERROR(device_open(&device, &(struct device_options){.name = "cpu", .threads = 1, .cpu_kernels = "mmx"}),
                 "mmx");
    EXPECT(device == NULL);
}

TEST_MAIN(TEST_CASE(models), TEST_CASE(kernels_of_this_processor), TEST_CASE(rounds),
          TEST_CASE(small_matmuls_are_rounded_once), TEST_CASE(blocks_are_packed_when_needed), TEST_CASE(names))
