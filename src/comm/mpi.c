// Collectives over MPI, all nonblocking. If the device's memory is the host's, MPI works on the tensors in place.
// Otherwise each request stages its tensor through host memory: device → staging before the start, staging → device at
// the end. Sums of 16-bit floats use an operation of our own that adds in fp32. Every call to MPI holds the pump's
// lock, see pump.h. Sums are cut into parts, see mpi_library.h.
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/backend.h"
#include "comm/mpi_library.h"
#include "comm/pump.h"
#include "ops/device.h"
#include "tensor/half.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// A message is cut into pieces of at most this many elements, because counts are int in MPI 3.
enum { PIECE_ELEMENTS = 1 << 28, MAX_PIECES = 64 };

// A transfer through shared memory needs many calls in succession; one through a network needs a call now and then. The
// pump calls for a while and then sleeps for longer than that, so that it never takes more than a third of a core.
static const struct pump_pace pump_pace = {.poll_seconds = 50e-6, .nap_seconds = 100e-6};

// A waiting thread asks several times before the pump may, because passing the lock on costs as much as asking. An MPI
// may give the core away each time it is asked: where others want it, few tests per lock must do, or a hang would be
// noticed late.
enum { TESTS_PER_LOCK = 64, TESTS_IF_CROWDED = 8 };
static const double TESTS_SECONDS = 200e-6;

// Starts a piece of a request; the communicator and the piece are the function's last arguments.
#define START_MPI(group, request, function, ...)                                                                       \
    do {                                                                                                               \
        lock(group);                                                                                                   \
        CHECK_MPI(function(__VA_ARGS__, ((struct mpi_group *)(group))->comm, &(request)->pieces[(request)->count++])); \
        unlock(group);                                                                                                 \
    } while (0)

struct mpi_world {
    struct world base;
    MPI_Op sum_bf16, sum_f16;
    struct pump *pump;
    bool allows_pump;              // and other threads: MPI may be called by one at a time
    struct mpi_request *flying;    // requests in flight, driven by the pump
    struct mpi_sum *sums;          // incomplete ones
    mpi_yield_setter *set_yields;  // see is_done_eagerly; NULL if there is none
    struct mpi_request *spare;     // completed requests, to be used again: a small message costs no allocation
};

struct mpi_group {
    struct group base;
    MPI_Comm comm;
    struct mpi_sum_group sums;
};

struct mpi_request {
    int count;                       // number of pieces
    void *staging_in, *staging_out;  // host copies if device memory is not host memory
    struct tensor result;            // where staging_out goes at the end
    int *counts;                     // of an all-to-all, which MPI reads until its end
    struct mpi_request *next;        // in the list of those in flight, or of the spare ones
    struct mpi_sum sum;              // complete if it has no pieces, or is none
    MPI_Request pieces[MAX_PIECES];
};

void mpi_world_abort(enum exit_code code) {
    int running = 0, finished = 0;
    if (!mpi())
        return;
    mpi()->MPI_Initialized(&running);
    mpi()->MPI_Finalized(&finished);
    if (running && !finished)
        mpi()->MPI_Abort(MPI_COMM_WORLD, (int)code);
}

static void add_bf16(void *in, void *inout, int *count, MPI_Datatype *type) {
    (void)type;
    const uint16_t *a = in;
    uint16_t *b = inout;
    for (int i = 0; i < *count; i++)
        b[i] = half_to_bf16(half_from_bf16(a[i]) + half_from_bf16(b[i]));
}

static void add_f16(void *in, void *inout, int *count, MPI_Datatype *type) {
    (void)type;
    const uint16_t *a = in;
    uint16_t *b = inout;
    for (int i = 0; i < *count; i++)
        b[i] = half_to_f16(half_from_f16(a[i]) + half_from_f16(b[i]));
}

int mpi_world_start(struct world_place *place) {
    int running = 0, provided = 0;
    TRY(library_load(mpi_library()));
    mpi()->MPI_Initialized(&running);
    if (!running && mpi()->MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
        return error_set("MPI cannot start; run under mpirun or srun, or without them for one rank");
    mpi()->MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    die_set_handler(mpi_world_abort);
    CHECK_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &place->rank));
    CHECK_MPI(MPI_Comm_size(MPI_COMM_WORLD, &place->size));
    MPI_Comm local;
    CHECK_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, place->rank, MPI_INFO_NULL, &local));
    CHECK_MPI(MPI_Comm_rank(local, &place->local_rank));
    CHECK_MPI(MPI_Comm_size(local, &place->local_size));
    CHECK_MPI(MPI_Comm_free(&local));
    return 0;
}

// A barrier that leaves the processor to ranks that have not arrived.
static void wait_for_all(void) {
    MPI_Request request;
    int is_done = 0;
    CHECK_MPI(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    while (!is_done) {
        CHECK_MPI(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE));
        clock_sleep(is_done ? 0 : 1e-3);
    }
}

// A rank notifies its launcher that it ends, and PMIx waits two seconds for the answer. On a busy machine the launcher
// may not have read the notification by then; if the rank is gone when it does, it reports a crash. So a rank whose
// notification took long stays a little longer, in naps: a paused machine costs one of them.
void mpi_world_stop(void) {
    const double long_seconds = 1.5;
    const int naps = 50;
    die_set_handler(NULL);
    wait_for_all();  // waiting for other ranks does not count
    double start = clock_seconds();
    CHECK_MPI(MPI_Finalize());
    bool is_late = clock_seconds() - start > long_seconds;
    for (int i = 0; is_late && i < naps; i++)
        clock_sleep(0.1);
}

static int mpi_group_create(struct world *world, struct group **group, const int *ranks, int count, const char *name) {
    MPI_Comm comm;
    *group = group_new(world, sizeof(struct mpi_group), &(struct group_members){ranks, count, name});
    // The first rank of a group is its colour: groups created in one call are disjoint.
    CHECK_MPI(MPI_Comm_split(MPI_COMM_WORLD, *group ? ranks[0] : MPI_UNDEFINED, *group ? (*group)->rank : 0, &comm));
    struct mpi_group *created = (struct mpi_group *)*group;
    if (created) {
        created->comm = comm;
        created->sums.size = created->base.size;
        CHECK_MPI(MPI_Comm_split(comm, 0, created->base.rank, &created->sums.comm));
    }
    return 0;
}

static void mpi_group_free(struct group *group) {
    struct mpi_group *g = (struct mpi_group *)group;
    CHECK_MPI(MPI_Comm_free(&g->sums.comm));
    CHECK_MPI(MPI_Comm_free(&g->comm));
    group_drop(group);
}

static void mpi_world_free(struct world *world) {
    struct mpi_world *w = (struct mpi_world *)world;
    pump_free(w->pump);
    for (struct mpi_request *next; w->spare; w->spare = next) {
        next = w->spare->next;
        free(w->spare);
    }
    mpi()->MPI_Op_free(&w->sum_bf16);
    mpi()->MPI_Op_free(&w->sum_f16);
    mpi_world_stop();
    free(w);
}

static MPI_Datatype type_of(enum dtype dtype) {
    switch (dtype) {
    case DTYPE_F32:
        return MPI_FLOAT;
    case DTYPE_I32:
        return MPI_INT32_T;
    case DTYPE_I64:
        return MPI_INT64_T;
    case DTYPE_BF16:
    case DTYPE_F16:
        return MPI_UINT16_T;
    case DTYPE_U8:
    case DTYPE_E4M3:
    case DTYPE_E5M2:
    case DTYPE_E2M1X2:
        return MPI_UINT8_T;
    case DTYPE_I16:
    case DTYPE_COUNT:
        break;
    }
    die("no MPI type for %s", dtype_name(dtype));
}

static MPI_Op operation_of(const struct world *world, enum dtype dtype, enum reduction reduction) {
    const struct mpi_world *w = (const struct mpi_world *)world;
    bool is_half = dtype == DTYPE_BF16 || dtype == DTYPE_F16;
    if (reduction == REDUCE_SUM && is_half)
        return dtype == DTYPE_BF16 ? w->sum_bf16 : w->sum_f16;
    if (is_half)
        die("no MPI operation for the maximum of %s", dtype_name(dtype));
    return reduction == REDUCE_SUM ? MPI_SUM : MPI_MAX;
}

static void lock(const struct group *group) {
    pump_lock(((const struct mpi_world *)group->world)->pump);
}

static void unlock(const struct group *group) {
    pump_unlock(((const struct mpi_world *)group->world)->pump);
}

static struct mpi_request *request_new(const struct group *group) {
    struct mpi_world *w = (struct mpi_world *)group->world;
    lock(group);
    struct mpi_request *request = w->spare;
    if (request)
        w->spare = request->next;
    unlock(group);
    if (!request)
        return memory_alloc(sizeof *request);
    request->count = 0;
    request->staging_in = request->staging_out = NULL;
    request->counts = NULL;
    request->next = NULL;
    return request;
}

// The memory from which MPI reads the tensor: the tensor's own, or a host copy made now.
static void *readable(const struct group *group, struct mpi_request *request, const struct tensor *x) {
    if (group->world->device->ops->is_host_memory || !x->data)
        return x->data;
    request->staging_in = memory_alloc(tensor_bytes(*x));
    device_copy_out(group->world->device, request->staging_in, *x);
    return request->staging_in;
}

// The memory that MPI writes to, which is copied to the tensor when the request is done.
static void *writable(const struct group *group, struct mpi_request *request, const struct tensor *x) {
    if (group->world->device->ops->is_host_memory || !x->data)
        return x->data;
    request->staging_out = memory_alloc(tensor_bytes(*x));
    request->result = *x;
    return request->staging_out;
}

struct mpi_piece {
    void *memory;
    int length;  // in elements
    int64_t end;
};

// The next piece of a message; begins with a zeroed one.
static bool next_piece(const struct mpi_request *request, const struct tensor *x, void *memory,
                       struct mpi_piece *piece) {
    int64_t left = tensor_count(*x) - piece->end;
    if (left > 0 && request->count >= MAX_PIECES)
        die("a message of more than %d pieces", MAX_PIECES);
    piece->memory = (char *)memory + (size_t)piece->end * dtype_bytes(x->dtype);
    piece->length = left < PIECE_ELEMENTS ? (int)left : PIECE_ELEMENTS;
    piece->end += piece->length;
    return left > 0;
}

static void start_sum(struct group *group, struct mpi_request *request, const struct mpi_sum *sum) {
    struct mpi_world *w = (struct mpi_world *)group->world;
    request->sum = *sum;
    request->sum.group = &((struct mpi_group *)group)->sums;
    lock(group);
    mpi_sum_start(&w->sums, &request->sum);
    unlock(group);
}

static void *mpi_all_reduce(struct group *group, const struct tensor *x, enum reduction reduction) {
    struct mpi_request *request = request_new(group);
    void *memory = readable(group, request, x);
    if (request->staging_in) {
        request->staging_out = request->staging_in;
        request->staging_in = NULL;
        request->result = *x;
    }
    start_sum(group, request,
              &(struct mpi_sum){.operation = operation_of(group->world, x->dtype, reduction),
                                .type = type_of(x->dtype),
                                .element_bytes = dtype_bytes(x->dtype),
                                .to = memory,
                                .count = tensor_count(*x)});
    return request;
}

static void *mpi_all_gather(struct group *group, const struct tensor *whole, const struct tensor *part) {
    mpi_check_count(group, tensor_count(*part), "all_gather");
    struct mpi_request *request = request_new(group);
    bool is_slice = (char *)part->data == (char *)whole->data + tensor_bytes(*part) * (size_t)group->rank;
    bool in_place = is_slice && group->world->device->ops->is_host_memory;
    const void *from = in_place ? MPI_IN_PLACE : readable(group, request, part);
    void *to = writable(group, request, whole);
    int count = (int)tensor_count(*part);
    MPI_Datatype type = type_of(part->dtype);
    START_MPI(group, request, MPI_Iallgather, from, count, type, to, count, type);
    return request;
}

static void *mpi_reduce_scatter(struct group *group, const struct tensor *part, const struct tensor *whole) {
    struct mpi_request *request = request_new(group);
    void *from = readable(group, request, whole);
    start_sum(group, request,
              &(struct mpi_sum){.operation = operation_of(group->world, part->dtype, REDUCE_SUM),
                                .type = type_of(part->dtype),
                                .element_bytes = dtype_bytes(part->dtype),
                                .from = from,
                                .to = writable(group, request, part),
                                .count = tensor_count(*part)});
    return request;
}

// Sets the element counts per rank, followed by their offsets.
static void set_counts(const struct group *group, int *counts, const int64_t *rows, const struct tensor *x) {
    int64_t width = 1, offset = 0;
    int *offsets = counts + group->size;
    for (int d = 1; d < x->rank; d++)
        width *= x->shape[d];
    mpi_check_count(group, x->shape[0] * width, "all_to_all");
    for (int i = 0; i < group->size; i++) {
        counts[i] = (int)(rows[i] * width);
        offsets[i] = (int)offset;
        offset += counts[i];
    }
}

static void *mpi_all_to_all(struct group *group, const struct comm_exchange *exchange) {
    struct mpi_request *request = request_new(group);
    int size = group->size, *sent = request->counts = memory_alloc(sizeof *sent * 4 * (size_t)size);
    int *received = sent + 2 * size;
    set_counts(group, sent, exchange->sent, &exchange->from);
    set_counts(group, received, exchange->received, &exchange->to);
    const void *from = readable(group, request, &exchange->from);
    void *to = writable(group, request, &exchange->to);
    MPI_Datatype type = type_of(exchange->to.dtype);
    START_MPI(group, request, MPI_Ialltoallv, from, sent, sent + size, type, to, received, received + size, type);
    return request;
}

static void *mpi_broadcast(struct group *group, const struct tensor *x, int root) {
    struct mpi_request *request = request_new(group);
    void *memory = group->rank == root ? readable(group, request, x) : writable(group, request, x);
    for (struct mpi_piece piece = {0}; next_piece(request, x, memory, &piece);)
        START_MPI(group, request, MPI_Ibcast, piece.memory, piece.length, type_of(x->dtype), root);
    return request;
}

static void *mpi_send(struct group *group, const struct tensor *x, int to) {
    struct mpi_request *request = request_new(group);
    void *memory = readable(group, request, x);
    for (struct mpi_piece piece = {0}; next_piece(request, x, memory, &piece);)
        START_MPI(group, request, MPI_Isend, piece.memory, piece.length, type_of(x->dtype), to, 0);
    return request;
}

static void *mpi_receive(struct group *group, const struct tensor *x, int from) {
    struct mpi_request *request = request_new(group);
    void *memory = writable(group, request, x);
    for (struct mpi_piece piece = {0}; next_piece(request, x, memory, &piece);)
        START_MPI(group, request, MPI_Irecv, piece.memory, piece.length, type_of(x->dtype), from, 0);
    return request;
}

static bool is_done(struct mpi_world *w, struct mpi_request *request) {
    int done = 0;
    mpi_sum_advance(&w->sums);
    if (request->count == 0)
        return mpi_sum_is_complete(&request->sum);
    if (request->count == 1)
        CHECK_MPI(MPI_Test(request->pieces, &done, MPI_STATUS_IGNORE));
    else
        CHECK_MPI(MPI_Testall(request->count, request->pieces, &done, MPI_STATUSES_IGNORE));
    return done;
}

// is_done without MPI's yields, which would keep the lock: the caller decides when to yield. Blocking calls keep them.
static bool is_done_eagerly(struct mpi_world *w, struct mpi_request *request) {
    bool yields = w->set_yields && w->set_yields(false);
    bool done = is_done(w, request);
    if (yields)
        w->set_yields(true);
    return done;
}

// The pump's poll function: advances the requests in flight and unlinks completed ones; their owners find that out.
static bool poll_flying(void *context) {
    struct mpi_world *w = context;
    for (struct mpi_request **link = &w->flying; *link;)
        if (is_done_eagerly(w, *link))
            *link = (*link)->next;
        else
            link = &(*link)->next;
    return w->flying != NULL;
}

static void mpi_overlap(struct group *group, void *handle) {
    struct mpi_world *w = (struct mpi_world *)group->world;
    struct mpi_request *request = handle, **link = &w->flying;
    if (!w->allows_pump)
        return;
    pump_start(w->pump);
    lock(group);
    while (*link)
        link = &(*link)->next;
    *link = request;
    pump_wake(w->pump);
    unlock(group);
}

static void stop_flying(struct mpi_world *w, const struct mpi_request *request) {
    for (struct mpi_request **link = &w->flying; *link; link = &(*link)->next)
        if (*link == request) {
            *link = request->next;
            return;
        }
}

static bool mpi_test(struct group *group, void *handle) {
    struct mpi_world *w = (struct mpi_world *)group->world;
    struct mpi_request *request = handle;
    lock(group);
    bool done = is_done_eagerly(w, request);
    double begin = done ? 0 : clock_seconds();
    int tests = w->base.manner.is_crowded ? TESTS_IF_CROWDED : TESTS_PER_LOCK;
    for (int i = 1; i < tests && !done && (i == 1 || clock_seconds() - begin < TESTS_SECONDS); i++)
        done = is_done_eagerly(w, request);
    if (done)
        stop_flying(w, request);
    unlock(group);
    if (!done)
        return false;
    if (request->staging_out) {
        device_copy_in(group->world->device, request->result, request->staging_out);
        device_synchronize(group->world->device);
    }
    free(request->staging_in);
    free(request->staging_out);
    free(request->counts);
    lock(group);
    request->next = w->spare;
    w->spare = request;
    unlock(group);
    return true;
}

static bool mpi_share(struct world *world, bool is_shared) {
    struct mpi_world *w = (struct mpi_world *)world;
    if (w->allows_pump)
        pump_share(w->pump, is_shared);
    return w->allows_pump;
}

static void *mpi_host_max_i64(struct group *group, int64_t *values, int count) {
    struct mpi_request *request = request_new(group);
    START_MPI(group, request, MPI_Iallreduce, MPI_IN_PLACE, values, count, MPI_INT64_T, MPI_MAX);
    return request;
}

static void *mpi_host_all_gather_i64(struct group *group, int64_t *table, int count) {
    struct mpi_request *request = request_new(group);
    START_MPI(group, request, MPI_Iallgather, MPI_IN_PLACE, count, MPI_INT64_T, table, count, MPI_INT64_T);
    return request;
}

static void *mpi_host_all_gather_rows_i64(struct group *group, int64_t *table, const int *firsts) {
    struct mpi_request *request = request_new(group);
    int size = group->size, *counts = request->counts = memory_alloc(sizeof *counts * 2 * (size_t)size);
    memcpy(counts + size, firsts, sizeof *counts * (size_t)size);
    for (int i = 0; i < size; i++)
        counts[i] = firsts[i + 1] - firsts[i];
    START_MPI(group, request, MPI_Iallgatherv, MPI_IN_PLACE, 0, MPI_INT64_T, table, counts, counts + size, MPI_INT64_T);
    return request;
}

static void *mpi_host_broadcast_i64(struct group *group, int64_t *values, int count, int root) {
    struct mpi_request *request = request_new(group);
    START_MPI(group, request, MPI_Ibcast, values, count, MPI_INT64_T, root);
    return request;
}

static const struct collective mpi_collective = {
    .name = "mpi",
    .group_create = mpi_group_create,
    .group_free = mpi_group_free,
    .world_free = mpi_world_free,
    .all_reduce = mpi_all_reduce,
    .all_gather = mpi_all_gather,
    .reduce_scatter = mpi_reduce_scatter,
    .all_to_all = mpi_all_to_all,
    .broadcast = mpi_broadcast,
    .send = mpi_send,
    .receive = mpi_receive,
    .test = mpi_test,
    .overlap = mpi_overlap,
    .share = mpi_share,
    .host_max_i64 = mpi_host_max_i64,
    .host_all_gather_i64 = mpi_host_all_gather_i64,
    .host_all_gather_rows_i64 = mpi_host_all_gather_rows_i64,
    .host_broadcast_i64 = mpi_host_broadcast_i64,
};

int mpi_world_open(struct world **world, struct device *device) {
    struct mpi_world *w = memory_alloc(sizeof *w);
    w->base.collective = &mpi_collective;
    w->base.device = device;
    if (mpi_world_start(&w->base.place) < 0) {
        free(w);
        return -1;
    }
    CHECK_MPI(MPI_Op_create(add_bf16, 1, &w->sum_bf16));
    CHECK_MPI(MPI_Op_create(add_f16, 1, &w->sum_f16));
    int level = 0;
    CHECK_MPI(MPI_Query_thread(&level));
    w->allows_pump = level >= MPI_THREAD_SERIALIZED;
    w->set_yields = mpi_find_yield_setter();
    w->pump = pump_new(poll_flying, w, pump_pace);
    *world = &w->base;
    return 0;
}
