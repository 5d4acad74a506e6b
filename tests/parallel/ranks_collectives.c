// Every collective on several ranks, against values that each rank can compute by itself. Run under mpirun.
// tier: all
#include "comm/comm.h"
#include "ops/device.h"
#include "parallel/mesh.h"
#include "test.h"

#include <time.h>

static struct device *device;
static struct world *world;
static struct group *all;

enum { COUNT = 1000 };

static struct tensor upload(const float *values, int64_t count) {
    struct tensor t = tensor_1d(device_alloc(device, sizeof(float) * (size_t)count), DTYPE_F32, count);
    device_copy_in(device, t, values);
    return t;
}

static float element(int rank, int64_t i) {
    return (float)(rank + 1) * (float)(i % 7) + (float)i;
}

static void fill(float *values, int rank, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        values[i] = element(rank, i);
}

TEST(all_reduce) {
    float values[COUNT], result[COUNT];
    fill(values, group_rank(all), COUNT);
    struct tensor sum = upload(values, COUNT), max = upload(values, COUNT);
    comm_all_reduce(all, sum, REDUCE_SUM, "sum");
    comm_all_reduce(all, max, REDUCE_MAX, "max");
    device_copy_out(device, result, sum);
    for (int64_t i = 0; i < COUNT; i++) {
        float want = 0;
        for (int rank = 0; rank < group_size(all); rank++)
            want += element(rank, i);
        EXPECT_NEAR(result[i], want, 1e-6);
    }
    device_copy_out(device, result, max);
    for (int64_t i = 0; i < COUNT; i++)
        EXPECT(result[i] == element(group_size(all) - 1, i));
    device_free(device, sum.data);
    device_free(device, max.data);
}

TEST(all_gather_and_reduce_scatter) {
    int size = group_size(all), rank = group_rank(all);
    float part[COUNT], *whole = calloc((size_t)size * COUNT, sizeof *whole);
    fill(part, rank, COUNT);
    struct tensor p = upload(part, COUNT), w = upload(whole, (int64_t)size * COUNT);
    struct comm_request request = comm_all_gather_start(all, w, p, "gather");
    comm_wait(&request);
    device_copy_out(device, whole, w);
    for (int r = 0; r < size; r++)
        for (int64_t i = 0; i < COUNT; i++)
            EXPECT(whole[r * COUNT + i] == element(r, i));
    // Every rank now holds the same, so the sum of a slice is size times it. The result goes to the slice itself.
    struct tensor mine = tensor_rows(w, (int64_t)rank * COUNT, COUNT);
    request = comm_reduce_scatter_start(all, mine, w, "scatter");
    comm_wait(&request);
    device_copy_out(device, part, mine);
    for (int64_t i = 0; i < COUNT; i++)
        EXPECT_NEAR(part[i], (float)size * element(rank, i), 1e-6);
    device_free(device, p.data);
    device_free(device, w.data);
    free(whole);
}

// Sums of millions of bytes, several of a group and one of a second group, all under way at once, while the group also
// broadcasts; ranks wait for them in different orders. The slice of a reduce-scatter lies in its source.
TEST(long_sums_at_once) {
    enum { LONG = 700001, SUMS = 4 };
    int size = group_size(all), rank = group_rank(all), ranks[8];
    for (int i = 0; i < size; i++)
        ranks[i] = i;
    struct group *second;
    EXPECT_OK(world_group(world, &second, ranks, size, "second"));
    float *values = malloc(sizeof *values * LONG * (size_t)size);
    struct tensor sums[SUMS], whole, shared;
    struct comm_request requests[SUMS + 1];
    fill(values, rank, (int64_t)LONG * size);
    whole = upload(values, (int64_t)LONG * size);
    struct tensor mine = tensor_rows(whole, (int64_t)rank * LONG, LONG);
    for (int i = 0; i < SUMS; i++) {
        sums[i] = upload(values, LONG - 200000 * i);
        requests[i] = comm_all_reduce_start(i == 1 ? second : all, sums[i], REDUCE_SUM, "long");
        if (i == 1)
            requests[SUMS] = comm_reduce_scatter_start(all, mine, whole, "scatter");
    }
    shared = upload(values, COUNT);
    comm_broadcast(all, shared, 0, "between");
    for (int i = 0; i <= SUMS; i++)
        comm_wait(&requests[rank % 2 ? i : SUMS - i]);
    int64_t wrong = 0;
    float of_ranks = (float)(size * (size + 1) / 2);  // element() of all ranks, whose sums are exact
    for (int i = 0; i <= SUMS; i++) {
        struct tensor result = i < SUMS ? sums[i] : mine;
        int64_t first = i < SUMS ? 0 : (int64_t)rank * LONG, count = tensor_count(result);
        device_copy_out(device, values, result);
        for (int64_t n = 0; n < count; n++)
            wrong += values[n] != of_ranks * (float)((first + n) % 7) + (float)size * (float)(first + n);
        device_free(device, i < SUMS ? result.data : whole.data);
    }
    EXPECT_INT(wrong, 0);
    device_copy_out(device, values, shared);
    EXPECT(values[6] == element(0, 6));
    device_free(device, shared.data);
    free(values);
}

TEST(broadcast_and_ring) {
    int size = group_size(all), rank = group_rank(all);
    float values[COUNT];
    for (int root = 0; root < size; root++) {
        fill(values, rank, COUNT);
        struct tensor x = upload(values, COUNT);
        comm_broadcast(all, x, root, "broadcast");
        device_copy_out(device, values, x);
        for (int64_t i = 0; i < COUNT; i++)
            EXPECT(values[i] == element(root, i));
        device_free(device, x.data);
    }
    fill(values, rank, COUNT);
    struct tensor out = upload(values, COUNT), in = upload(values, COUNT);
    struct comm_request send = comm_send_start(all, out, (rank + 1) % size, "to the right");
    struct comm_request receive = comm_receive_start(all, in, (rank + size - 1) % size, "from the left");
    comm_wait(&receive);
    comm_wait(&send);
    device_copy_out(device, values, in);
    for (int64_t i = 0; i < COUNT; i++)
        EXPECT(values[i] == element((rank + size - 1) % size, i));
    device_free(device, out.data);
    device_free(device, in.data);
}

TEST(bf16_sums_round_once_per_rank) {
    uint16_t bits[3] = {0x3f80, 0x3f81, 0x7fc0};  // 1, 1 + 2^-7, NaN
    struct tensor x = tensor_1d(device_alloc(device, sizeof bits), DTYPE_BF16, 3);
    device_copy_in(device, x, bits);
    comm_all_reduce(all, x, REDUCE_SUM, "bf16");
    device_copy_out(device, bits, x);
    float size = (float)group_size(all), one;
    uint32_t wide = (uint32_t)bits[0] << 16;
    memcpy(&one, &wide, sizeof one);
    EXPECT(one == size);
    EXPECT((bits[2] & 0x7fff) > 0x7f80);
    device_free(device, x.data);
}

TEST(fp16_sums) {
    uint16_t bits[4] = {0x3c00, 0x0001, 0x7bff, 0x7e00};  // 1, 2^-24, the largest number, NaN
    struct tensor x = tensor_1d(device_alloc(device, sizeof bits), DTYPE_F16, 4);
    device_copy_in(device, x, bits);
    comm_all_reduce(all, x, REDUCE_SUM, "fp16");
    device_copy_out(device, bits, x);
    int size = group_size(all);
    EXPECT_INT(bits[0], size == 2 ? 0x4000 : 0x4400);
    EXPECT_INT(bits[1], size);
    EXPECT_INT(bits[2], 0x7c00);
    EXPECT((bits[3] & 0x7fff) > 0x7c00);
    device_free(device, x.data);
}

TEST(host_values) {
    int64_t values[2] = {group_rank(all), -group_rank(all)};
    comm_max_i64(all, values, 2, "max");
    EXPECT_INT(values[0], group_size(all) - 1);
    EXPECT_INT(values[1], 0);
    values[0] = group_rank(all) * 10;
    comm_broadcast_i64(all, values, 1, 1, "broadcast");
    EXPECT_INT(values[0], 10);
    comm_barrier(all, "barrier");
}

// Number of rows that rank `from` sends to rank `to`: uneven, and none for some ranks.
static int64_t rows_between(int from, int to) {
    return from == to + 1 ? 0 : (from * 3 + to) % 4;
}

static void exchange_rows(const int64_t *sent, const int64_t *received, int64_t sent_rows, int64_t received_rows) {
    enum { WIDTH = 5, SPARE = 2 };
    int size = group_size(all), rank = group_rank(all);
    float *out = calloc((size_t)(sent_rows + SPARE) * WIDTH, sizeof *out), value = 0;
    float *in = calloc((size_t)(received_rows + SPARE) * WIDTH, sizeof *in);
    for (int64_t i = 0; i < sent_rows * WIDTH; i++)
        out[i] = (float)(1000 * rank) + (float)i;
    struct tensor from = tensor_reshape_2d(upload(out, (sent_rows + SPARE) * WIDTH), sent_rows + SPARE, WIDTH);
    struct tensor to = tensor_reshape_2d(upload(in, (received_rows + SPARE) * WIDTH), received_rows + SPARE, WIDTH);
    struct comm_request request = comm_all_to_all_start(
        all, &(struct comm_exchange){.to = to, .from = from, .sent = sent, .received = received}, "rows");
    comm_wait(&request);
    device_copy_out(device, in, to);
    const float *at = in;
    for (int r = 0; r < size; r++) {
        int64_t first = 0;
        for (int k = 0; k < rank; k++)
            first += rows_between(r, k);
        for (int64_t i = 0; i < received[r] * WIDTH; i++, at++)
            EXPECT(*at == (float)(1000 * r) + (float)(first * WIDTH + i));
    }
    for (int64_t i = 0; i < (int64_t)SPARE * WIDTH; i++)
        value += at[i];
    EXPECT(value == 0);
    device_free(device, from.data);
    device_free(device, to.data);
    free(in);
    free(out);
}

TEST(all_to_all_with_uneven_counts) {
    int size = group_size(all), rank = group_rank(all);
    int64_t sent[64] = {0}, received[64] = {0}, sums[2] = {0};
    struct traffic before = group_traffic(all, COLLECTIVE_ALL_TO_ALL);
    exchange_rows(sent, received, 0, 0);
    for (int i = 0; i < size; i++) {
        sums[0] += sent[i] = rows_between(rank, i);
        sums[1] += received[i] = rows_between(i, rank);
    }
    exchange_rows(sent, received, sums[0], sums[1]);
    struct traffic after = group_traffic(all, COLLECTIVE_ALL_TO_ALL);
    int64_t most = sums[0] > sums[1] ? sums[0] : sums[1];
    EXPECT_INT(after.count - before.count, size > 1 ? 2 : 0);
    EXPECT_INT(after.bytes - before.bytes, size > 1 ? most * 5 * (int64_t)sizeof(float) : 0);
}

// The first rank sends a row to everyone; the others have nothing to send. Then no rank has anything.
TEST(all_to_all_from_one_rank) {
    enum { WIDTH = 3 };
    int size = group_size(all), rank = group_rank(all);
    int64_t received[64] = {1}, sent[64] = {0}, nothing[64] = {0}, out[64 * WIDTH] = {0}, in[WIDTH] = {0};
    for (int i = 0; i < size * WIDTH; i++)
        out[i] = 1000 + i;
    for (int i = 0; i < size; i++)
        sent[i] = rank == 0;
    struct comm_exchange exchange = {.to = tensor_2d(in, DTYPE_I64, 1, WIDTH), .received = received, .sent = sent};
    if (rank == 0)
        exchange.from = tensor_2d(out, DTYPE_I64, size, WIDTH);
    struct comm_request request = comm_all_to_all_start(all, &exchange, "rows of one");
    comm_wait(&request);
    for (int i = 0; i < WIDTH; i++)
        EXPECT_INT(in[i], 1000 + rank * WIDTH + i);
    request = comm_all_to_all_start(all, &(struct comm_exchange){.received = nothing, .sent = nothing}, "no rows");
    comm_wait(&request);
}

TEST(integers_are_gathered) {
    enum { WIDTH = 3 };
    int size = group_size(all), rank = group_rank(all);
    int64_t *table = calloc((size_t)size * WIDTH, sizeof *table);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < WIDTH; i++)
            table[rank * WIDTH + i] = round == 0 ? INT64_MIN + 10 * rank + i : -rank - i;
        comm_all_gather_i64(all, table, WIDTH, "table");
        for (int r = 0; r < size; r++)
            for (int i = 0; i < WIDTH; i++)
                EXPECT_INT(table[r * WIDTH + i], round == 0 ? INT64_MIN + 10 * r + i : -r - i);
    }
    free(table);
}

TEST(integers_of_any_number_are_gathered) {
    int size = group_size(all), rank = group_rank(all), firsts[65] = {0};
    for (int r = 0; r < size; r++)
        firsts[r + 1] = firsts[r] + 5 * r;
    int64_t *table = calloc((size_t)firsts[size] + 1, sizeof *table);
    for (int i = firsts[rank]; i < firsts[rank + 1]; i++)
        table[i] = -i;
    comm_all_gather_rows_i64(all, table, firsts, "rows");
    for (int i = 0; i <= firsts[size]; i++)
        EXPECT_INT(table[i], i < firsts[size] ? -i : 0);
    free(table);
}

TEST(groups_of_a_mesh) {
    int size = group_size(all), rank = group_rank(all);
    struct mesh mesh;
    EXPECT_OK(mesh_place(&mesh, rank, size, (const int[AXIS_COUNT]){[AXIS_TENSOR] = 2}));
    EXPECT_OK(mesh_connect(&mesh, world));
    EXPECT_INT(group_size(mesh.group[AXIS_TENSOR]), 2);
    EXPECT_INT(group_size(mesh.group[AXIS_DATA]), size / 2);
    EXPECT_INT(group_rank(mesh.group[AXIS_TENSOR]), rank % 2);
    EXPECT_INT(group_rank(mesh.group[AXIS_DATA]), rank / 2);
    EXPECT_INT(group_size(mesh.replicas), size / 2);
    EXPECT_INT(group_rank(mesh.replicas), rank / 2);
    EXPECT_INT(group_size(mesh.stage), size);
    float value = (float)rank;
    struct tensor x = upload(&value, 1);
    comm_all_reduce(mesh.group[AXIS_TENSOR], x, REDUCE_SUM, "pair");
    device_copy_out(device, &value, x);
    EXPECT(value == (float)(rank / 2 * 4 + 1));
    device_free(device, x.data);
}

TEST(groups_along_several_axes) {
    int size = group_size(all), rank = group_rank(all);
    struct mesh mesh;
    EXPECT_OK(mesh_place(&mesh, rank, size, (const int[AXIS_COUNT]){[AXIS_CONTEXT] = size / 2, [AXIS_PIPELINE] = 2}));
    EXPECT_OK(mesh_connect(&mesh, world));
    EXPECT_INT(group_size(mesh.replicas), size / 2);
    EXPECT_INT(group_rank(mesh.replicas), rank % (size / 2));
    EXPECT_INT(group_size(mesh.stage), size / 2);
    EXPECT_INT(group_rank(mesh.stage), rank % (size / 2));
}

// The record holds the last collectives with their sizes, and groups add up their bytes.
TEST(flight_record) {
    float values[COUNT] = {0};
    struct tensor x = upload(values, COUNT);
    struct traffic before = group_traffic(all, COLLECTIVE_ALL_REDUCE);
    int64_t count = world_record(world)->count;
    for (int i = 0; i < RECORD_ENTRIES + 3; i++)
        comm_all_reduce(all, x, REDUCE_SUM, "recorded");
    struct traffic after = group_traffic(all, COLLECTIVE_ALL_REDUCE);
    EXPECT_INT(after.count - before.count, RECORD_ENTRIES + 3);
    EXPECT_INT(after.bytes - before.bytes, (RECORD_ENTRIES + 3) * COUNT * (int64_t)sizeof(float));
    const struct record *record = world_record(world);
    EXPECT_INT(record->count, count + RECORD_ENTRIES + 3);
    for (int i = 0; i < RECORD_ENTRIES; i++) {
        EXPECT_STRING(record->entries[i].name, "recorded");
        EXPECT(record->entries[i].end >= record->entries[i].start);
    }
    struct comm_request open = comm_broadcast_start(all, x, 0, "unfinished");
    FILE *file = tmpfile();
    record_write(record, 7, file);
    comm_wait(&open);
    rewind(file);
    char line[512], last[512] = "";
    int lines = 0;
    for (; fgets(line, sizeof line, file); lines++)
        memcpy(last, line, sizeof last);
    fclose(file);
    EXPECT_INT(lines, RECORD_ENTRIES);
    EXPECT(strstr(last, "\"rank\": 7") && strstr(last, "\"kind\": \"broadcast\"") && strstr(last, "\"unfinished\""));
    EXPECT(strstr(last, "\"bytes\": 4000") && !strstr(last, "seconds"));
    device_free(device, x.data);
}

// Large and small messages in turn, timed by an exact clock and by its tick: starts never decrease, and no end precedes
// its start.
TEST(record_goes_forward) {
    enum { LARGE = 32 << 10, TURNS = 40 };
    static const float values[LARGE];
    struct tensor large = upload(values, LARGE), small = tensor_rows(large, 0, 1);
    int64_t first = world_record(world)->count;
    for (int i = 0; i < TURNS; i++) {
        comm_all_reduce(all, large, REDUCE_SUM, "large");
        comm_all_reduce(all, small, REDUCE_SUM, "small");
    }
    const struct record *record = world_record(world);
    for (int64_t i = first; i < record->count; i++) {
        const struct record_entry *entry = &record->entries[i % RECORD_ENTRIES];
        EXPECT(entry->end >= entry->start);
        EXPECT(i == first || entry->start >= record->entries[(i - 1) % RECORD_ENTRIES].start);
    }
    device_free(device, large.data);
}

// A sum that was started completes without another call: a thread of the backend does the work. The buffer belongs to
// the collective meanwhile, so only its last element is checked, now and then.
TEST(overlapped_sums_arrive_while_nobody_calls) {
    enum { MANY = 4 << 20 };
    int size = group_size(all);
    float *values = malloc(sizeof *values * MANY);
    for (int64_t i = 0; i < MANY; i++)
        values[i] = (float)(group_rank(all) + 1);
    struct tensor x = upload(values, MANY);
    const volatile float *last = (const volatile float *)x.data + MANY - 1;
    struct comm_request request = comm_all_reduce_start(all, x, REDUCE_SUM, "overlapped");
    comm_overlap(&request);
    for (int i = 0; i < 30000 && *last < (float)(size * (size + 1)) / 2; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    EXPECT(*last == (float)(size * (size + 1)) / 2);
    comm_wait(&request);
    device_copy_out(device, values, x);
    for (int64_t i = 0; i < MANY; i++)
        EXPECT(values[i] == (float)(size * (size + 1)) / 2);
    device_free(device, x.data);
    free(values);
}

int main(void) {
    const struct test_case cases[] = {
        TEST_CASE(overlapped_sums_arrive_while_nobody_calls),
        TEST_CASE(all_reduce),
        TEST_CASE(all_gather_and_reduce_scatter),
        TEST_CASE(broadcast_and_ring),
        TEST_CASE(host_values),
        TEST_CASE(all_to_all_with_uneven_counts),
        TEST_CASE(all_to_all_from_one_rank),
        TEST_CASE(integers_are_gathered),
        TEST_CASE(integers_of_any_number_are_gathered),
        TEST_CASE(long_sums_at_once),
        TEST_CASE(bf16_sums_round_once_per_rank),
        TEST_CASE(groups_of_a_mesh),
        TEST_CASE(groups_along_several_axes),
        TEST_CASE(flight_record),
        TEST_CASE(record_goes_forward),
        TEST_CASE(fp16_sums),
    };
    struct world_place place;
    if (world_start("mpi", &place) < 0 ||
        device_open(&device, &(struct device_options){.name = "cpu", .threads = 1}) < 0 ||
        world_open(&world, &(struct world_options){.backend = "mpi", .deadline_seconds = 300}, device) < 0) {
        printf("%s\n", error_message());
        return 1;
    }
    all = world_group_all(world);
    int status = test_main(cases, sizeof cases / sizeof cases[0]);
    world_close(world);
    device_close(device);
    return status;
}
