// A world on paper: groups of any size around one rank, collectives that move nothing, and their bytes by group.
#include "comm/comm.h"
#include "../base/capture.h"
#include "ops/device.h"
#include "test.h"

static struct device *device;

static struct tensor rows(int64_t count) {
    return tensor_1d(device_alloc(device, sizeof(float) * (size_t)count), DTYPE_F32, count);
}

static void expect_traffic(const struct group *group, enum collective_kind kind, int64_t count, int64_t bytes) {
    EXPECT_INT(group_traffic(group, kind).count, count);
    EXPECT_INT(group_traffic(group, kind).bytes, bytes);
}

TEST(collectives_are_counted) {
    struct world *world;
    EXPECT_OK(world_open_twin(&world, device, 2, 5));
    struct group *all = world_group_all(world), *pair, *others;
    EXPECT_OK(world_group(world, &pair, (const int[]){4, 2}, 2, "pair"));
    EXPECT_OK(world_group(world, &others, (const int[]){0, 1}, 2, "others"));
    EXPECT_INT(group_rank(pair), 1);
    EXPECT(!others);
    comm_all_reduce(all, rows(10), REDUCE_SUM, "sum");
    comm_all_reduce(all, rows(3), REDUCE_MAX, "largest");
    comm_broadcast(all, rows(7), 4, "broadcast");
    struct comm_request requests[] = {comm_all_gather_start(all, rows(20), rows(4), "gather"),
                                      comm_reduce_scatter_start(all, rows(2), rows(10), "scatter"),
                                      comm_send_start(pair, rows(6), 0, "send"),
                                      comm_receive_start(pair, rows(5), 0, "receive")};
    for (int i = 0; i < 4; i++)
        comm_wait(&requests[i]);
    const int64_t sent[5] = {0, 3, 1, 0, 2}, received[5] = {0, 0, 1, 0, 1};
    struct comm_exchange exchange = {.to = rows(8), .from = rows(6), .sent = sent, .received = received};
    struct comm_request request = comm_all_to_all_start(all, &exchange, "rows");
    comm_wait(&request);
    exchange.from = (struct tensor){0};
    exchange.sent = (const int64_t[5]){0};
    exchange.received = (const int64_t[5]){2, 0, 0, 0, 1};
    request = comm_all_to_all_start(all, &exchange, "rows for one side only");
    comm_wait(&request);
    expect_traffic(all, COLLECTIVE_ALL_TO_ALL, 2, 36);
    expect_traffic(all, COLLECTIVE_ALL_REDUCE, 2, 52);
    expect_traffic(all, COLLECTIVE_BROADCAST, 1, 28);
    expect_traffic(all, COLLECTIVE_ALL_GATHER, 1, 80);
    expect_traffic(all, COLLECTIVE_REDUCE_SCATTER, 1, 40);
    expect_traffic(all, COLLECTIVE_SEND, 0, 0);
    expect_traffic(pair, COLLECTIVE_SEND, 1, 24);
    expect_traffic(pair, COLLECTIVE_RECEIVE, 1, 20);
    world_close(world);
}

TEST(host_values_stay) {
    struct world *world;
    EXPECT_OK(world_open_twin(&world, device, 2, 5));
    struct group *all = world_group_all(world);
    int64_t values[2] = {7, -7};
    comm_max_i64(all, values, 2, "largest");
    comm_broadcast_i64(all, values, 2, 0, "broadcast");
    EXPECT(values[0] == 7 && values[1] == -7);
    int64_t table[5][2] = {[2] = {4, 5}};
    comm_all_gather_i64(all, table[0], 2, "table");
    for (int i = 0; i < 5; i++)
        EXPECT(table[i][0] == 4 && table[i][1] == 5);
    int64_t rows[8] = {[4] = 6, 7, 1};
    comm_all_gather_rows_i64(all, rows, (const int[]){0, 2, 4, 6, 7, 8}, "rows");
    EXPECT(rows[0] == 6 && rows[3] == 7 && rows[4] == 6 && rows[6] == 1 && rows[7] == 0);
    EXPECT_OK(comm_agree(all, 0, "all is well"));
    EXPECT(group_is_neighbour(all, 2) && !group_is_neighbour(all, 3));
    comm_patience_begin(all, "files");
    comm_patience_end(all);
    world_close(world);
}

// A single rank, which is not on paper: rows stay on it.
TEST(a_rank_alone_exchanges_with_itself) {
    struct device *cpu;
    struct world *world;
    float in[6] = {1, 2, 3, 4, 5, 6}, out[8] = {0}, values[2][8];
    EXPECT_OK(device_open(&cpu, &(struct device_options){.name = "cpu", .threads = 1}));
    EXPECT_OK(world_open(&world, &(struct world_options){.backend = "self"}, cpu));
    struct comm_exchange exchange = {.to = tensor_2d(out, DTYPE_F32, 4, 2), .from = tensor_2d(in, DTYPE_F32, 3, 2)};
    for (int64_t rows = 0; rows <= 2; rows += 2) {
        exchange.sent = exchange.received = &rows;
        struct comm_request request = comm_all_to_all_start(world_group_all(world), &exchange, "rows");
        comm_wait(&request);
        memcpy(values[rows / 2], out, sizeof out);
    }
    EXPECT(values[0][0] == 0 && values[1][0] == 1 && values[1][3] == 4 && values[1][4] == 0);
    int64_t table[2] = {8, 9};
    comm_all_gather_i64(world_group_all(world), table, 2, "table");
    EXPECT(table[0] == 8 && table[1] == 9);
    world_close(world);
    device_close(cpu);
}

// Rows of six numbers do not become rows of three, and data to send must exist.
static void exchange_wrongly(struct tensor from) {
    static float numbers[12];
    struct world *world;
    const int64_t rows[2] = {1, 1};
    EXPECT_OK(world_open_twin(&world, device, 0, 2));
    struct comm_exchange exchange = {
        .to = tensor_2d(numbers, DTYPE_F32, 2, 6), .from = from, .sent = rows, .received = rows};
    (void)comm_all_to_all_start(world_group_all(world), &exchange, "rows");
}

static void exchange_unequal_rows(void) {
    static float numbers[6];
    exchange_wrongly(tensor_2d(numbers, DTYPE_F32, 2, 3));
}

static void exchange_nothing(void) {
    exchange_wrongly((struct tensor){0});
}

TEST(wrong_exchanges_end_the_run) {
    static struct capture capture;
    capture_run(&capture, exchange_unequal_rows);
    EXPECT(strstr(capture.text, "row_length"));
    capture_run(&capture, exchange_nothing);
    EXPECT(strstr(capture.text, "contiguous tensor no tensor"));
}

static const struct comm_fabric fabric = {.node = 4,
                                          .inside = {.seconds = 1e-6, .bytes_per_second = 100e9, .half_bytes = 0},
                                          .across = {.seconds = 10e-6, .bytes_per_second = 5e9, .half_bytes = 0}};

// Derived by hand. Eight ranks on two machines: all four of a machine send at the same time, at 20 GB/s, and a sum
// passes every byte twice 7/8 times; it takes two doublings inside and one across, twice. Groups of one rank per
// machine have 5 GB/s.
TEST(collectives_take_time) {
    struct device *timed;
    struct world *world;
    EXPECT_OK(device_open_twin(&timed, NULL));
    EXPECT_OK(world_open_twin(&world, timed, 1, 8));
    struct group *all = world_group_all(world), *machine, *pair;
    EXPECT_OK(world_group(world, &machine, (const int[]){0, 1, 2, 3}, 4, "machine"));
    EXPECT_OK(world_group(world, &pair, (const int[]){1, 5}, 2, "pair"));
    comm_all_reduce(all, rows(1000), REDUCE_SUM, "before there is a clock");
    device_set_rates(timed, &(struct device_rates){.bytes_per_second = 1e12});
    world_set_fabric(world, &fabric);
    EXPECT(device_twin_time(timed) == 0);
    comm_all_reduce(all, rows(1000000), REDUCE_SUM, "sum");
    double sum = 2 * 4e6 * 7 / 8 / 20e9 + 2 * (2 * 1e-6 + 10e-6);
    EXPECT_NEAR(device_twin_time(timed), sum, 1e-12);
    EXPECT_NEAR(group_exposed_seconds(all), sum, 1e-12);
    // Two that were started together follow each other; what the device does meanwhile hides a part of them.
    struct comm_request first = comm_all_gather_start(machine, rows(4000000), rows(1000000), "gather"),
                        second = comm_reduce_scatter_start(machine, rows(1000000), rows(4000000), "scatter");
    double each = 16e6 * 3 / 4 / 100e9 + 2e-6;
    device_twin_await(timed, sum + 50e-6);
    comm_wait(&first);
    comm_wait(&second);
    EXPECT_NEAR(device_twin_time(timed), sum + 2 * each, 1e-12);
    EXPECT_NEAR(group_exposed_seconds(machine), 2 * each - 50e-6, 1e-12);
    double now = device_twin_time(timed);
    comm_all_reduce(pair, rows(1000000), REDUCE_SUM, "pair");
    EXPECT_NEAR(device_twin_time(timed) - now, 4e6 / 5e9 + 2 * 10e-6, 1e-12);
    EXPECT_NEAR(world_message_seconds(world, 0, 3, 1e6), 1e-6 + 1e6 / 100e9, 1e-12);
    EXPECT_NEAR(world_message_seconds(world, 3, 4, 1e6), 10e-6 + 1e6 / 5e9, 1e-12);
    world_close(world);
    device_close(timed);
}

// Derived by hand. All of eight ranks on two machines: a rank sends half of its 16 MB to the other machine, at 5 GB/s
// however many send. Those of one machine: three quarters, at 89 GB/s. Two of each of two machines: again half.
TEST(exchanges_take_time) {
    struct device *timed;
    struct world *world;
    const int64_t eighths[] = {1, 1, 1, 1, 1, 1, 1, 1}, quarters[] = {2, 2, 2, 2};
    EXPECT_OK(device_open_twin(&timed, NULL));
    EXPECT_OK(world_open_twin(&world, timed, 1, 8));
    struct group *machine, *four;
    EXPECT_OK(world_group(world, &machine, (const int[]){0, 1, 2, 3}, 4, "machine"));
    EXPECT_OK(world_group(world, &four, (const int[]){0, 1, 4, 5}, 4, "four"));
    device_set_rates(timed, &(struct device_rates){.bytes_per_second = 1e12});
    world_set_fabric(world, &fabric);
    static float memory[1];
    struct tensor all = tensor_2d(memory, DTYPE_F32, 8, 500000);
    struct comm_exchange exchange = {.to = all, .from = all, .sent = eighths, .received = eighths};
    struct comm_request request = comm_all_to_all_start(world_group_all(world), &exchange, "rows");
    comm_wait(&request);
    EXPECT_NEAR(device_twin_time(timed), 8e6 / 5e9 + 10e-6, 1e-12);
    double now = device_twin_time(timed);
    exchange.sent = exchange.received = quarters;
    request = comm_all_to_all_start(machine, &exchange, "rows");
    comm_wait(&request);
    EXPECT_NEAR(device_twin_time(timed) - now, 12e6 / 89e9 + 2e-6, 1e-12);
    EXPECT_NEAR(group_exposed_seconds(machine), 12e6 / 89e9 + 2e-6, 1e-12);
    now = device_twin_time(timed);
    request = comm_all_to_all_start(four, &exchange, "rows");
    comm_wait(&request);
    EXPECT_NEAR(device_twin_time(timed) - now, 8e6 / 5e9 + 10e-6, 1e-12);
    world_close(world);
    device_close(timed);
}

// Derived by hand. 40 ranks on ten machines send 36 of 40 MB to others. The cards allow 4 of the network's 5 GB/s; with
// half of the rate at 0.625 × 64 MB, 40 MB reach half of it, and ten machines 1 / 1.02 of that.
TEST(exchanges_of_many_machines) {
    enum { RANKS = 40 };
    struct device *timed;
    struct world *world;
    int64_t each[RANKS];
    for (int i = 0; i < RANKS; i++)
        each[i] = 1;
    struct comm_fabric many = fabric;
    many.across.half_bytes = 64e6;
    many.exchange = 4e9;
    EXPECT_OK(device_open_twin(&timed, NULL));
    EXPECT_OK(world_open_twin(&world, timed, 1, RANKS));
    device_set_rates(timed, &(struct device_rates){.bytes_per_second = 1e12});
    world_set_fabric(world, &many);
    static float memory[1];
    struct tensor all = tensor_2d(memory, DTYPE_F32, RANKS, 250000);
    struct comm_exchange exchange = {.to = all, .from = all, .sent = each, .received = each};
    struct comm_request request = comm_all_to_all_start(world_group_all(world), &exchange, "rows");
    comm_wait(&request);
    EXPECT_NEAR(device_twin_time(timed), 36e6 / 4e9 * 2 * 1.02 + 4 * 10e-6, 1e-12);
    world_close(world);
    device_close(timed);
}

int main(void) {
    const struct test_case cases[] = {
        TEST_CASE(collectives_take_time),      TEST_CASE(exchanges_take_time),
        TEST_CASE(exchanges_of_many_machines), TEST_CASE(collectives_are_counted),
        TEST_CASE(host_values_stay),           TEST_CASE(a_rank_alone_exchanges_with_itself),
        TEST_CASE(wrong_exchanges_end_the_run)};
    if (device_open_twin(&device, NULL) < 0)
        return 1;
    int status = test_main(cases, sizeof cases / sizeof cases[0]);
    device_close(device);
    return status;
}
