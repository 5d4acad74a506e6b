// The profile of a CPU device: rows by kind and shape with the work that each needs, no more time than passed, the same
// results, and the device's own table again when it ends.
#include "lab.h"
#include "base/clock.h"

enum { ROWS = 65, COLUMNS = 48, INNER = 17, THREADS = 2 };

static void open_on_cpu(struct lab *lab, int threads) {
    struct device *device;
    EXPECT_OK(device_open(&device, &(struct device_options){.name = "cpu", .threads = threads}));
    lab_open(lab, device, DTYPE_F32, 0);
}

static void close_on_cpu(struct lab *lab) {
    lab_close(lab);
    device_close(lab->device);
}

static const struct profile_row *row_named(const struct profile_row *rows, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

static void multiply(struct lab *lab, struct tensor d, struct tensor a, struct tensor b) {
    op_matmul(lab->device, &(struct op_matmul){.a = a, .b = b, .d = d, .transpose_b = true, .alpha = 1});
}

TEST(rows_of_a_profile) {
    struct lab lab;
    open_on_cpu(&lab, THREADS);
    const struct ops *own = lab.device->ops;
    struct tensor a = lab_2d(&lab, ROWS, INNER, 1).t, b = lab_2d(&lab, COLUMNS, INNER, 1).t;
    struct tensor plain = lab_2d(&lab, ROWS, COLUMNS, 1).t, timed = lab_2d(&lab, ROWS, COLUMNS, 1).t;
    struct tensor sums = lab_1d(&lab, COLUMNS, 1).t;
    multiply(&lab, plain, a, b);
    double start = clock_seconds();
    device_profile_start(lab.device);
    for (int i = 0; i < 3; i++)
        multiply(&lab, timed, a, b);
    op_column_sum(lab.device, &(struct op_column_sum){.out = sums, .x = timed});
    device_zero(lab.device, sums);
    struct profile_row rows[PROFILE_MOST_ROWS];
    int count = device_profile_stop(lab.device, rows, PROFILE_MOST_ROWS);
    double passed = clock_seconds() - start, seconds = 0;
    EXPECT(lab.device->ops == own);
    EXPECT_INT(count, 3);
    EXPECT_INT(memcmp(plain.data, timed.data, tensor_bytes(plain)), 0);
    const struct profile_row *matmul = row_named(rows, count, "matmul 65 x 48 x 17");
    const struct profile_row *sum = row_named(rows, count, "column_sum of 48");
    EXPECT(matmul && sum && row_named(rows, count, "zero"));
    if (matmul && sum) {
        EXPECT_INT(matmul->calls, 3);
        EXPECT_INT(matmul->flops, 3 * 2 * ROWS * COLUMNS * INNER);
        EXPECT_INT(matmul->dtype, DTYPE_F32);
        EXPECT_INT(sum->calls, 1);
        EXPECT(sum->flops == 0 && sum->bytes >= sizeof(float) * ROWS * COLUMNS);
    }
    for (int i = 0; i < count; i++) {
        // Zeros do not need the pool: one thread works.
        EXPECT(rows[i].busy_seconds > 0 && rows[i].busy_seconds <= THREADS * rows[i].seconds + 1e-6);
        EXPECT(i == 0 || rows[i].seconds <= rows[i - 1].seconds);
        seconds += rows[i].seconds;
    }
    EXPECT(seconds <= passed);
    close_on_cpu(&lab);
}

// The last row takes what has none of its own.
TEST(more_shapes_than_rows) {
    struct lab lab;
    open_on_cpu(&lab, 1);
    struct tensor a = lab_2d(&lab, PROFILE_MOST_ROWS + 20, 1, 1).t, d = lab_2d(&lab, PROFILE_MOST_ROWS + 20, 1, 1).t;
    struct tensor b = lab_2d(&lab, 1, 1, 1).t;
    device_profile_start(lab.device);
    for (int64_t i = 1; i <= a.shape[0]; i++)
        multiply(&lab, tensor_rows(d, 0, i), tensor_rows(a, 0, i), b);
    struct profile_row rows[PROFILE_MOST_ROWS];
    EXPECT_INT(device_profile_stop(lab.device, rows, PROFILE_MOST_ROWS), PROFILE_MOST_ROWS);
    const struct profile_row *others = row_named(rows, PROFILE_MOST_ROWS, "others");
    EXPECT(others != NULL);
    EXPECT_INT(others ? others->calls : 0, 21);
    close_on_cpu(&lab);
}

TEST_MAIN(TEST_CASE(rows_of_a_profile), TEST_CASE(more_shapes_than_rows))
