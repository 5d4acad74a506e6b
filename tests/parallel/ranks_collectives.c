// Every collective on several ranks, against values that each rank can work out for itself. Run under mpirun.
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
    // Every rank now holds the same; the sum of a slice is size times it. The result lands in the slice itself.
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

TEST(groups_of_a_mesh) {
    int size = group_size(all), rank = group_rank(all);
    struct mesh mesh;
    EXPECT_OK(mesh_place(&mesh, rank, size, 2, 1, 1));
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
    EXPECT_OK(mesh_place(&mesh, rank, size, 1, size / 2, 2));
    EXPECT_OK(mesh_connect(&mesh, world));
    EXPECT_INT(group_size(mesh.replicas), size / 2);
    EXPECT_INT(group_rank(mesh.replicas), rank % (size / 2));
    EXPECT_INT(group_size(mesh.stage), size / 2);
    EXPECT_INT(group_rank(mesh.stage), rank % (size / 2));
}

// The record holds the last collectives with their sizes, and groups add up what they were given.
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

// Large and small messages in turn, timed by an exact clock and by its tick: starts never go back, nor do ends precede.
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

// A sum that was started and left alone is there without another call: a thread of the backend's has made them. What is
// looked at belongs to the collective meanwhile, so only its last element is, once in a while.
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
    for (int i = 0; i < 3000 && *last < (float)(size * (size + 1)) / 2; i++)
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
