// Collectives between GPUs over NCCL. Every group has a stream of its own. A collective first waits for the work
// enqueued on the compute stream so far, and the compute stream waits for the collective where the program does, but
// groups never wait for each other. So a message that a pipeline expects early does not delay other messages, and the
// sum of a gradient bucket does not delay the sums inside a layer. The host queues all this and continues; the world's
// watch detects hung collectives and NCCL errors.
//
// Ids and the host's own values travel over the world that this one wraps. NCCL adds two bf16 numbers in fp32 and
// rounds each partial sum that it passes on. It refuses two ranks of one machine on the same GPU; those use the wrapped
// world only.
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/trace.h"
#include "comm/backend.h"
#include "comm/pump.h"
#include "comm/nccl_library.h"
#include "ops/device.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

// Neither a GPU out of memory nor a call that NCCL refuses (retrying would not help) is a lost peer. NCCL has no code
// for the former, but reports CUDA's message.
static enum exit_code nccl_exit_code(ncclResult_t status) {
    const char *last = nccl()->ncclGetLastError(NULL);
    if (status == ncclUnhandledCudaError && last && strstr(last, "out of memory"))
        return EXIT_CODE_OUT_OF_MEMORY;
    return status == ncclInvalidUsage || status == ncclInvalidArgument ? EXIT_CODE_USAGE : EXIT_CODE_PEER_LOST;
}

static const char *remedy(enum exit_code code) {
    return code == EXIT_CODE_OUT_OF_MEMORY ? DEVICE_FULL_REMEDY : "";
}

static const char *nccl_remedy(ncclResult_t status) {
    if (status == ncclInvalidUsage)
        return "; every rank needs a GPU of its own: start fewer ranks, or give --distributed-backend mpi";
    return remedy(nccl_exit_code(status));
}

// A call of a function of the library.
#define CHECK_NCCL(call)                                                                                               \
    do {                                                                                                               \
        ncclResult_t status_ = nccl()->call;                                                                           \
        if (status_ != ncclSuccess)                                                                                    \
            die_code(nccl_exit_code(status_), "%s failed: %s: %s%s", #call, nccl()->ncclGetErrorString(status_),       \
                     nccl()->ncclGetLastError(NULL), nccl_remedy(status_));                                            \
    } while (0)

static enum exit_code stream_exit_code(cudaError_t status) {
    return status == cudaErrorMemoryAllocation ? EXIT_CODE_OUT_OF_MEMORY : EXIT_CODE_ERROR;
}

#define CHECK_STREAM(call)                                                                                             \
    do {                                                                                                               \
        cudaError_t status_ = (call);                                                                                  \
        if (status_ != cudaSuccess)                                                                                    \
            die_code(stream_exit_code(status_), "%s failed: %s%s", #call, cudaGetErrorString(status_),                 \
                     remedy(stream_exit_code(status_)));                                                               \
    } while (0)

struct nccl_world {
    struct world base;
    struct world *host;
    struct nccl_request *spare;  // completed ones, to be used again; with the watch's lock
};

struct nccl_request {
    cudaEvent_t passed;  // recorded after the collective
    // A receive that is not queued yet: its tensor, its sender, and the event after which its memory is free.
    struct tensor awaited;
    int from;
    bool is_put_off;
    cudaEvent_t is_free;  // NULL: never needed so far
    int64_t stamps[2];    // for a trace: its begin and end on the group's stream; 0 for none
    struct nccl_request *next;
};

struct nccl_group {
    struct group base;
    struct group *host;  // NULL in a world of one rank
    ncclComm_t comm;
    cudaStream_t stream;
    cudaEvent_t ready;  // precedes a collective; reusable once the stream was told to wait for it
    int64_t began;      // for a trace: the stamp before the collective that is being queued; 0 for none
};

// The first rank creates the id, and the others receive it.
static ncclUniqueId share_id(const struct nccl_group *g) {
    ncclUniqueId id;
    int64_t words[sizeof id / sizeof(int64_t)] = {0};
    if (g->base.rank == 0) {
        CHECK_NCCL(ncclGetUniqueId(&id));
        memcpy(words, &id, sizeof id);
    }
    if (g->base.size > 1)
        comm_broadcast_i64(g->host, words, sizeof words / sizeof words[0], 0, "id of a group");
    memcpy(&id, words, sizeof id);
    return id;
}

static cudaEvent_t new_event(void) {
    cudaEvent_t event;
    CHECK_STREAM(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

static int nccl_group_create(struct world *world, struct group **group, const int *ranks, int count, const char *name) {
    struct nccl_world *w = (struct nccl_world *)world;
    struct group *host = NULL;
    if (w->host)
        TRY(w->host->collective->group_create(w->host, &host, ranks, count, name));
    if (count == 0 || (w->host && !host))
        return 0;
    struct nccl_group *g =
        (struct nccl_group *)group_new(world, sizeof *g, &(struct group_members){ranks, count, name});
    g->host = host;
    // comm.c starts nothing in a group of one among several ranks.
    if (g->base.size > 1 || !w->host) {
        // NCCL waits for all ranks without a deadline; a hang at the start is often a network problem.
        ncclUniqueId id = share_id(g);
        watch_enter(world->watch, &(struct comm_request){.group = &g->base, .name = "NCCL's start", .peer = -1});
        CHECK_NCCL(ncclCommInitRank(&g->comm, g->base.size, id, g->base.rank));
        watch_leave(world->watch);
        CHECK_STREAM(cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking));
        g->ready = new_event();
    }
    *group = &g->base;
    return 0;
}

static void nccl_group_free(struct group *group) {
    struct nccl_group *g = (struct nccl_group *)group;
    if (g->comm) {
        CHECK_NCCL(ncclCommDestroy(g->comm));
        CHECK_STREAM(cudaStreamDestroy(g->stream));
        CHECK_STREAM(cudaEventDestroy(g->ready));
    }
    if (g->host)
        g->host->world->collective->group_free(g->host);
    group_drop(group);
}

static void nccl_world_free(struct world *world) {
    struct nccl_world *w = (struct nccl_world *)world;
    watch_free(world->watch);
    for (struct nccl_request *next; w->spare; w->spare = next) {
        next = w->spare->next;
        CHECK_STREAM(cudaEventDestroy(w->spare->passed));
        if (w->spare->is_free)
            CHECK_STREAM(cudaEventDestroy(w->spare->is_free));
        free(w->spare);
    }
    if (w->host)
        w->host->collective->world_free(w->host);
    free(w);
}

static ncclDataType_t type_of(enum dtype dtype) {
    switch (dtype) {
    case DTYPE_F32:
        return ncclFloat32;
    case DTYPE_BF16:
        return ncclBfloat16;
    case DTYPE_F16:
        return ncclFloat16;
    case DTYPE_I32:
        return ncclInt32;
    case DTYPE_I64:
        return ncclInt64;
    case DTYPE_U8:
    case DTYPE_E4M3:
    case DTYPE_E5M2:
    case DTYPE_E2M1X2:
        return ncclUint8;
    case DTYPE_I16:
    case DTYPE_COUNT:
        break;
    }
    die("no NCCL type for %s", dtype_name(dtype));
}

static cudaStream_t compute_stream(const struct group *group) {
    struct device *device = group->world->device;
    return device->ops->native_stream(device, STREAM_COMPUTE);
}

static int64_t stamp(const struct nccl_group *g) {
    return trace_is_on() ? device_stamp_native(g->base.world->device, g->stream) : 0;
}

// The stream on which to queue a collective, ordered after the computation so far.
static cudaStream_t begin(struct group *group) {
    struct nccl_group *g = (struct nccl_group *)group;
    CHECK_STREAM(cudaEventRecord(g->ready, compute_stream(group)));
    CHECK_STREAM(cudaStreamWaitEvent(g->stream, g->ready, 0));
    g->began = stamp(g);
    return g->stream;
}

static struct nccl_request *request_new(struct nccl_world *w) {
    watch_lock(w->base.watch);
    struct nccl_request *request = w->spare;
    if (request)
        w->spare = request->next;
    watch_unlock(w->base.watch);
    if (!request) {
        request = memory_alloc(sizeof *request);
        request->passed = new_event();
    }
    return request;
}

// A handle for the collective that was queued last.
static void *queued(const struct group *group) {
    const struct nccl_group *g = (const struct nccl_group *)group;
    struct nccl_request *request = request_new((struct nccl_world *)group->world);
    CHECK_STREAM(cudaEventRecord(request->passed, g->stream));
    request->stamps[0] = g->began;
    request->stamps[1] = stamp(g);
    return request;
}

static void *nccl_all_reduce(struct group *group, const struct tensor *x, enum reduction reduction) {
    ncclRedOp_t operation = reduction == REDUCE_MAX ? ncclMax : ncclSum;
    CHECK_NCCL(ncclAllReduce(x->data, x->data, (size_t)tensor_count(*x), type_of(x->dtype), operation,
                             ((struct nccl_group *)group)->comm, begin(group)));
    return queued(group);
}

static void *nccl_all_gather(struct group *group, const struct tensor *whole, const struct tensor *part) {
    CHECK_NCCL(ncclAllGather(part->data, whole->data, (size_t)tensor_count(*part), type_of(part->dtype),
                             ((struct nccl_group *)group)->comm, begin(group)));
    return queued(group);
}

static void *nccl_reduce_scatter(struct group *group, const struct tensor *part, const struct tensor *whole) {
    CHECK_NCCL(ncclReduceScatter(whole->data, part->data, (size_t)tensor_count(*part), type_of(part->dtype), ncclSum,
                                 ((struct nccl_group *)group)->comm, begin(group)));
    return queued(group);
}

static void *nccl_all_to_all(struct group *group, const struct comm_exchange *exchange) {
    const struct nccl_group *g = (const struct nccl_group *)group;
    cudaStream_t stream = begin(group);
    ncclDataType_t type = type_of(exchange->to.dtype);
    struct tensor to = exchange->to, from = exchange->from;
    CHECK_NCCL(ncclGroupStart());
    for (int i = 0; i < group->size; i++) {
        struct tensor in = tensor_rows(to, 0, exchange->received[i]), out = tensor_rows(from, 0, exchange->sent[i]);
        if (exchange->sent[i] > 0)
            CHECK_NCCL(ncclSend(out.data, (size_t)tensor_count(out), type, i, g->comm, stream));
        if (exchange->received[i] > 0)
            CHECK_NCCL(ncclRecv(in.data, (size_t)tensor_count(in), type, i, g->comm, stream));
        to = tensor_rows(to, in.shape[0], to.shape[0] - in.shape[0]);
        from = tensor_rows(from, out.shape[0], from.shape[0] - out.shape[0]);
    }
    CHECK_NCCL(ncclGroupEnd());
    return queued(group);
}

static void *nccl_broadcast(struct group *group, const struct tensor *x, int root) {
    CHECK_NCCL(ncclBroadcast(x->data, x->data, (size_t)tensor_count(*x), type_of(x->dtype), root,
                             ((struct nccl_group *)group)->comm, begin(group)));
    return queued(group);
}

// NCCL connects two ranks when they first send and receive, and blocks the host until both have come. The stages of a
// pipeline expect messages from each other long before those are sent, so a byte is sent at the start.
static void nccl_connect(struct group *group) {
    const struct nccl_group *g = (const struct nccl_group *)group;
    void *byte = NULL;
    (void)compute_stream(group);
    CHECK_STREAM(cudaMalloc(&byte, 1));
    if (group->rank == 0)
        CHECK_NCCL(ncclSend(byte, 1, ncclUint8, 1, g->comm, g->stream));
    else
        CHECK_NCCL(ncclRecv(byte, 1, ncclUint8, 0, g->comm, g->stream));
    CHECK_STREAM(cudaStreamSynchronize(g->stream));
    CHECK_STREAM(cudaFree(byte));
}

static void *nccl_send(struct group *group, const struct tensor *x, int to) {
    CHECK_NCCL(ncclSend(x->data, (size_t)tensor_count(*x), type_of(x->dtype), to, ((struct nccl_group *)group)->comm,
                        begin(group)));
    return queued(group);
}

// A receive that runs keeps a part of the GPU until the message comes. Meanwhile a host that loads a kernel, or a
// hardware queue that several streams share, may wait for it and so block the work that the sender needs from this
// rank. So a receive is queued only where it is waited for: by then, all work that the message can depend on has been
// queued. It may begin once its memory is free (the event recorded here); the host runs ahead of the GPU, so it still
// begins early.
static void *nccl_receive(struct group *group, const struct tensor *x, int from) {
    struct nccl_request *request = request_new((struct nccl_world *)group->world);
    if (!request->is_free)
        request->is_free = new_event();
    CHECK_STREAM(cudaEventRecord(request->is_free, compute_stream(group)));
    request->awaited = *x;
    request->from = from;
    request->is_put_off = true;
    return request;
}

static void receive_now(const struct group *group, struct nccl_request *request) {
    const struct nccl_group *g = (const struct nccl_group *)group;
    const struct tensor *x = &request->awaited;
    CHECK_STREAM(cudaStreamWaitEvent(g->stream, request->is_free, 0));
    request->stamps[0] = stamp(g);
    CHECK_NCCL(ncclRecv(x->data, (size_t)tensor_count(*x), type_of(x->dtype), request->from, g->comm, g->stream));
    CHECK_STREAM(cudaEventRecord(request->passed, g->stream));
    request->stamps[1] = stamp(g);
    request->is_put_off = false;
}

static struct group *nccl_host_group(struct group *group) {
    return ((struct nccl_group *)group)->host;
}

static void request_free(struct nccl_world *w, struct nccl_request *request) {
    request->next = w->spare;
    w->spare = request;
}

// In a recording, the group's stream forks from the compute stream by the event that the collective waits for; this
// joins it back. Such an event may not be queried, but it can be reused at once.
static bool nccl_order(struct group *group, void *handle) {
    struct nccl_world *w = (struct nccl_world *)group->world;
    struct nccl_request *request = handle;
    enum cudaStreamCaptureStatus status;
    if (request->is_put_off)
        receive_now(group, request);
    CHECK_STREAM(cudaStreamWaitEvent(compute_stream(group), request->passed, 0));
    CHECK_STREAM(cudaStreamIsCapturing(compute_stream(group), &status));
    if (status == cudaStreamCaptureStatusNone)
        return true;
    watch_lock(w->base.watch);
    request_free(w, request);
    watch_unlock(w->base.watch);
    return false;
}

static void nccl_stamps(struct group *group, const void *handle, int64_t stamps[2]) {
    const struct nccl_request *request = handle;
    (void)group;
    memcpy(stamps, request->stamps, sizeof request->stamps);
}

// The handle stands for work on the compute stream, which has its own stamps.
static void *nccl_mark(struct group *group) {
    struct nccl_request *request = request_new((struct nccl_world *)group->world);
    CHECK_STREAM(cudaEventRecord(request->passed, compute_stream(group)));
    memset(request->stamps, 0, sizeof request->stamps);
    return request;
}

// The watch's thread calls this too. compute_stream selects the GPU for it: a thread that has selected none would
// create a context on the first one.
static bool nccl_test(struct group *group, void *handle) {
    struct nccl_world *w = (struct nccl_world *)group->world;
    struct nccl_request *request = handle;
    (void)compute_stream(group);
    ncclResult_t state = ncclSuccess;
    CHECK_NCCL(ncclCommGetAsyncError(((struct nccl_group *)group)->comm, &state));
    if (state != ncclSuccess)
        die_code(nccl_exit_code(state), "NCCL has failed in group \"%s\": %s: %s%s", group->name,
                 nccl()->ncclGetErrorString(state), nccl()->ncclGetLastError(NULL),
                 nccl_exit_code(state) == EXIT_CODE_PEER_LOST ? "; a rank of it is lost, or its network"
                                                              : nccl_remedy(state));
    cudaError_t progress = cudaEventQuery(request->passed);
    if (progress == cudaErrorNotReady)
        return false;
    if (progress != cudaSuccess)
        die_code(stream_exit_code(progress), "the GPU of this rank failed while group \"%s\" waited for it: %s%s",
                 group->name, cudaGetErrorString(progress), remedy(stream_exit_code(progress)));
    request_free(w, request);
    return true;
}

static const struct collective nccl_collective = {
    .name = "nccl",
    .group_create = nccl_group_create,
    .group_free = nccl_group_free,
    .world_free = nccl_world_free,
    .all_reduce = nccl_all_reduce,
    .all_gather = nccl_all_gather,
    .reduce_scatter = nccl_reduce_scatter,
    .all_to_all = nccl_all_to_all,
    .broadcast = nccl_broadcast,
    .connect = nccl_connect,
    .send = nccl_send,
    .receive = nccl_receive,
    .test = nccl_test,
    .order = nccl_order,
    .stamps = nccl_stamps,
    .mark = nccl_mark,
    .host_group = nccl_host_group,
};

int nccl_world_open(struct world **world, struct device *device, struct world *host) {
    TRY(library_load(nccl_library()));
    struct nccl_world *w = memory_alloc(sizeof *w);
    w->base.collective = &nccl_collective;
    w->base.device = device;
    w->base.place = host ? host->place : (struct world_place){.rank = 0, .size = 1, .local_rank = 0, .local_size = 1};
    w->base.deadline_seconds = host ? host->deadline_seconds : 600;
    w->base.watch = watch_new(&w->base);
    if (host) {
        w->base.hosts = host->hosts;
        host->hosts = NULL;
    }
    w->host = host;
    log_info("GPUs talk over NCCL");
    *world = &w->base;
    return 0;
}
