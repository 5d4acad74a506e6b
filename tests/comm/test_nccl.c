// NCCL on GPUs. Alone: a communicator of one rank, called directly, since comm.c makes groups of one do nothing; this
// checks streams, types and requests. Under mpirun: what several ranks get, through comm.h, and that no host waits for
// it. Ranks that share a GPU need different NCCL_HOSTIDs, see bench/gpu_ranks.sh.
// tier: all
#include "comm/backend.h"
#include "comm/pump.h"
#include "ops/device.h"
#include "test.h"

enum { COUNT = 1 << 20 };

static struct world *open_alone(struct device **device) {
    struct world *world;
    if (cuda_count() == 0)
        test_skip("no GPU");
    EXPECT_OK(device_open(device, &(struct device_options){.name = "cuda"}));
    if (!nccl_library())
        test_skip("built without NCCL");
    EXPECT_OK(nccl_world_open(&world, *device, NULL));
    return world;
}

static void finish(struct group *group, void *handle) {
    group->world->collective->order(group, handle);
    while (!group->world->collective->test(group, handle))
        ;
}

TEST(one_rank) {
    struct device *device;
    struct world *world = open_alone(&device);
    struct group *group;
    EXPECT_OK(world->collective->group_create(world, &group, (int[]){0}, 1, "one"));
    const struct collective *nccl = world->collective;
    float *values = malloc(sizeof *values * COUNT), *back = malloc(sizeof *back * COUNT);
    for (int i = 0; i < COUNT; i++)
        values[i] = (float)i * 0.5f;
    struct tensor x = tensor_1d(device_alloc(device, sizeof *values * COUNT), DTYPE_F32, COUNT);
    struct tensor y = tensor_1d(device_alloc(device, sizeof *values * COUNT), DTYPE_F32, COUNT);
    device_copy_in(device, x, values);
    op_scale(device, &(struct op_scale){.x = x, .factor = 2});  // the collective must come after it
    finish(group, nccl->all_reduce(group, &x, REDUCE_SUM));
    finish(group, nccl->all_reduce(group, &x, REDUCE_MAX));
    finish(group, nccl->all_gather(group, &y, &x));
    finish(group, nccl->reduce_scatter(group, &x, &y));
    finish(group, nccl->broadcast(group, &x, 0));
    op_scale(device, &(struct op_scale){.x = x, .factor = 3});  // and before this
    device_copy_out(device, back, x);
    for (int i = 0; i < COUNT; i++)
        EXPECT(back[i] == (float)i * 3);
    free(values);
    free(back);
    device_free(device, x.data);
    device_free(device, y.data);
    nccl->group_free(group);
    nccl->world_free(world);
    device_close(device);
}

// The ranks of mpirun, with one group of all and one per pair of neighbours.
struct together {
    struct device *device;
    struct world *world;
    struct group *all, *pair;
    int rank, size;
    struct tensor x, y;  // (COUNT) fp32
    float *host;         // (COUNT)
};

static struct together together_open(void) {
    struct together t = {0};
    struct world_place place;
    const char *size = getenv("OMPI_COMM_WORLD_SIZE");
    if (!size || strtol(size, NULL, 10) < 2)
        test_skip("one rank; start it with mpirun");
    if (cuda_count() == 0)
        test_skip("no GPU");
    EXPECT_OK(world_start("mpi", &place));
    EXPECT_OK(device_open(&t.device, &(struct device_options){.name = "cuda", .index = place.local_rank}));
    struct world_options options = {.backend = "mpi", .carrier = "nccl", .deadline_seconds = 60};
    EXPECT_OK(world_open(&t.world, &options, t.device));
    EXPECT_STRING(world_backend(t.world), "nccl");
    t.all = world_group_all(t.world);
    t.rank = place.rank;
    t.size = place.size;
    int first = t.rank / 2 * 2, count = first + 1 < t.size ? 2 : 1;
    EXPECT_OK(world_group(t.world, &t.pair, (int[]){first, first + 1}, count, "pair"));
    t.x = tensor_1d(device_alloc(t.device, sizeof(float) * COUNT), DTYPE_F32, COUNT);
    t.y = tensor_1d(device_alloc(t.device, sizeof(float) * COUNT), DTYPE_F32, COUNT);
    t.host = malloc(sizeof(float) * COUNT);
    return t;
}

// x becomes (i + rank) % 13: sums of it are exact.
static void fill(const struct together *t, struct tensor x) {
    for (int64_t i = 0; i < tensor_count(x); i++)
        t->host[i] = (float)((i + t->rank) % 13);
    device_copy_in(t->device, x, t->host);
    device_synchronize(t->device);
}

static float sum_at(const struct together *t, int64_t i) {
    float sum = 0;
    for (int rank = 0; rank < t->size; rank++)
        sum += (float)((i + rank) % 13);
    return sum;
}

static void expect_sum(const struct together *t, struct tensor x, int64_t first, float factor) {
    device_copy_out(t->device, t->host, x);
    for (int64_t i = 0; i < tensor_count(x); i++)
        EXPECT(t->host[i] == factor * sum_at(t, first + i));
}

static void check_collectives(const struct together *t) {
    int64_t share = 1000, whole = share * t->size;
    struct tensor x = tensor_rows(t->x, 0, whole), y = tensor_rows(t->y, 0, whole);
    fill(t, x);
    op_scale(t->device, &(struct op_scale){.x = x, .factor = 2});
    comm_all_reduce(t->all, x, REDUCE_SUM, "sum");
    op_scale(t->device, &(struct op_scale){.x = x, .factor = 3});
    expect_sum(t, x, 0, 6);
    fill(t, x);
    struct tensor own = tensor_rows(x, t->rank * share, share);
    struct comm_request request = comm_reduce_scatter_start(t->all, own, x, "scatter");
    comm_wait(&request);
    expect_sum(t, own, t->rank * share, 1);
    request = comm_all_gather_start(t->all, x, own, "gather");
    comm_wait(&request);
    expect_sum(t, x, 0, 1);
    fill(t, y);
    comm_broadcast(t->all, y, t->size - 1, "last rank's");
    comm_all_reduce(t->all, y, REDUCE_MAX, "the same");
    device_copy_out(t->device, t->host, y);
    for (int64_t i = 0; i < whole; i++)
        EXPECT(t->host[i] == (float)((i + t->size - 1) % 13));
}

// Uneven rows, none for some ranks: rank r sends (r + 2 i) % 3 rows with its number to rank i.
static void check_exchange(const struct together *t) {
    enum { WIDTH = 4, MOST_RANKS = 64 };
    int64_t sent[MOST_RANKS], received[MOST_RANKS], rows = 3 * (int64_t)t->size;
    for (int i = 0; i < t->size; i++) {
        sent[i] = (t->rank + 2 * i) % 3;
        received[i] = (i + 2 * t->rank) % 3;
    }
    for (int64_t i = 0; i < rows * WIDTH; i++)
        t->host[i] = (float)t->rank;
    struct tensor from = tensor_reshape_2d(tensor_rows(t->x, 0, rows * WIDTH), rows, WIDTH);
    struct tensor to = tensor_reshape_2d(tensor_rows(t->y, 0, rows * WIDTH), rows, WIDTH);
    device_copy_in(t->device, from, t->host);
    device_synchronize(t->device);
    struct comm_exchange exchange = {.to = to, .from = from, .sent = sent, .received = received};
    struct comm_request request = comm_all_to_all_start(t->all, &exchange, "rows");
    comm_wait(&request);
    device_copy_out(t->device, t->host, to);
    for (int64_t i = 0, row = 0; i < t->size; i++)
        for (int64_t end = row + received[i]; row < end; row++)
            for (int64_t k = 0; k < WIDTH; k++)
                EXPECT(t->host[row * WIDTH + k] == (float)i);
}

// Two ranks, large messages both ways, each on a separate group as in pipelines.
static void check_messages(struct together *t) {
    struct group *there, *back;
    EXPECT_OK(world_group(t->world, &there, (int[]){0, 1}, t->rank < 2 ? 2 : 0, "there"));
    EXPECT_OK(world_group(t->world, &back, (int[]){1, 0}, t->rank < 2 ? 2 : 0, "back"));
    if (t->rank >= 2)
        return;
    comm_connect(there);
    comm_connect(back);
    struct group *out = t->rank == 0 ? there : back, *in = t->rank == 0 ? back : there;
    fill(t, t->x);
    struct comm_request receive = comm_receive_start(in, t->y, 0, "message");
    struct comm_request send = comm_send_start(out, t->x, 1, "message");
    comm_wait(&receive);
    comm_wait(&send);
    device_copy_out(t->device, t->host, t->y);
    for (int64_t i = 0; i < COUNT; i++)
        EXPECT(t->host[i] == (float)((i + 1 - t->rank) % 13));
}

// When the last collective that was begun had ended; 0 if it has not.
static double last_end(const struct together *t) {
    const struct record *record = world_record(t->world);
    return record->entries[(record->count - 1) % RECORD_ENTRIES].end;
}

// Rank 0 begins when the hosts of the others are past their waits. Patient ones return when it is over.
static void check_host_goes_on(const struct together *t) {
    struct tensor x = tensor_rows(t->x, 0, 1000);
    fill(t, x);
    comm_barrier(t->all, "start");
    if (t->rank == 0)
        comm_barrier(t->all, "the others are past it");
    comm_all_reduce(t->all, x, REDUCE_SUM, "late");
    if (t->rank != 0)
        comm_barrier(t->all, "the others are past it");
    expect_sum(t, x, 0, 1);
    comm_barrier(t->all, "start");
    comm_patience_begin(t->all, "test");
    comm_all_reduce(t->all, x, REDUCE_MAX, "late");
    EXPECT(last_end(t) > 0);
    comm_patience_end(t->all);
}

// Many in flight, alternating between two groups; the record has the end of each once the watch has seen it.
static void check_many(const struct together *t) {
    struct tensor x = tensor_rows(t->x, 0, 8), y = tensor_rows(t->y, 0, 8);
    device_zero(t->device, x);
    device_zero(t->device, y);
    for (int i = 0; i < 400; i++) {
        comm_all_reduce(i % 2 ? t->all : t->pair, i % 3 ? x : y, REDUCE_SUM, "one of many");
        op_scale(t->device, &(struct op_scale){.x = x, .factor = 0.5f});
    }
    device_synchronize(t->device);
    watch_settle(t->world->watch);
    const struct record *record = world_record(t->world);
    for (int i = 0; i < RECORD_ENTRIES; i++)
        EXPECT(record->entries[i].end >= record->entries[i].start);
}

TEST(several_ranks) {
    struct together t = together_open();
    check_collectives(&t);
    check_exchange(&t);
    check_messages(&t);
    check_host_goes_on(&t);
    check_many(&t);
    free(t.host);
    device_free(t.device, t.x.data);
    device_free(t.device, t.y.data);
    world_close(t.world);
    device_close(t.device);
}

TEST_MAIN(TEST_CASE(one_rank), TEST_CASE(several_ranks))
