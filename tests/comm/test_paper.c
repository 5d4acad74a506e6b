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

int main(void) {
    const struct test_case cases[] = {TEST_CASE(collectives_are_counted), TEST_CASE(host_values_stay),
                                      TEST_CASE(a_rank_alone_exchanges_with_itself),
                                      TEST_CASE(wrong_exchanges_end_the_run)};
    if (device_open_twin(&device, NULL) < 0)
        return 1;
    int status = test_main(cases, sizeof cases / sizeof cases[0]);
    device_close(device);
    return status;
}
