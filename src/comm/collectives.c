// Code common to all backends of the collectives: groups of one, checks, waiting with a deadline.
#include "comm/comm.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/trace.h"
#include "base/watchdog.h"
#include "comm/backend.h"
#include "comm/hang.h"
#include "comm/pump.h"
#include "ops/device.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int world_start(const char *backend, struct world_place *place) {
    *place = (struct world_place){.rank = 0, .size = 1, .local_rank = 0, .local_size = 1};
    if (strcmp(backend, "self") == 0)
        return 0;
    if (strcmp(backend, "mpi") == 0)
        return mpi_world_start(place);
    return error_set("unknown communication backend \"%s\"; use self or mpi", backend);
}

void world_stop(const char *backend) {
    if (strcmp(backend, "mpi") == 0)
        mpi_world_stop();
}

int world_libraries(const struct library **list) {
    const struct library *all[] = {nccl_library(), mpi_library()};
    int count = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i])
            list[count++] = all[i];
    return count;
}

void world_abort(const char *backend, enum exit_code code) {
    if (strcmp(backend, "mpi") == 0)
        mpi_world_abort(code);
}

struct group *group_new(struct world *world, size_t bytes, const struct group_members *members) {
    for (int i = 0; i < members->count; i++) {
        if (members->ranks[i] != world->place.rank)
            continue;
        struct group *group = memory_alloc(bytes);
        *group =
            (struct group){.world = world, .name = memory_string(members->name), .rank = i, .size = members->count};
        return group;
    }
    return NULL;
}

void group_drop(struct group *group) {
    free(group->name);
    free(group);
}

// Whether NCCL is required. Scripts ask for it on every machine, so a run without any GPU only gets a warning that it
// has no effect.
static bool insists_on_nccl(const struct world_options *options, enum devices_fit fit) {
    bool asks = options->carrier && strcmp(options->carrier, "nccl") == 0;
    if (asks && fit == DEVICES_HOST)
        log_info("note: --distributed-backend nccl has no effect on CPUs");
    return asks && fit != DEVICES_HOST;
}

static bool can_use_nccl(const struct world_options *options, enum devices_fit fit, bool insists) {
    bool may = !options->carrier || insists;
    return may && (fit == DEVICES_OWN || (fit == DEVICES_SHARED && insists));
}

// Ranks that share a GPU are slow. It may be unintended: the rank of a lost GPU falls back to another one.
static void warn_of_sharing(const struct world *world, const char *which) {
    if (world->place.rank == 0)
        log_warn("%s, so ranks communicate over MPI through host memory, which is slow: run nvidia-smi to see whether "
                 "a GPU is lost, and start one rank per GPU; --distributed-backend mpi silences this",
                 which);
}

// Whether this rank may use NCCL, if the others can. NCCL is loaded before ranks exchange what they have.
static bool may_use_nccl(const struct world_options *options, const struct device *device) {
    return device && device->ops->identity && (!options->carrier || strcmp(options->carrier, "nccl") == 0);
}

// A rank that lacks NCCL knows why. If the first rank has it, its message names the ranks to look at. All ranks decide
// the same.
static int refuse_missing(const char *which, struct error_note *own) {
    if (own)
        error_give(own);
    else
        error_set("NCCL cannot be loaded by %s; run `bevatron version` there to see why, or give --distributed-backend "
                  "mpi to communicate through host memory, which is slow",
                  which);
    error_mark_shared();
    return -1;
}

// All ranks make the same decision.
static int refuse(const char *which, enum devices_fit fit, bool is_mpi) {
    if (fit == DEVICES_MIXED)
        error_set("some ranks have a working GPU and others do not: %s; run nvidia-smi and bevatron version on those "
                  "hosts, leave them out, or give --device cpu",
                  which);
    else if (is_mpi)
        error_set("--distributed-backend nccl needs a GPU for every rank; leave it out to communicate over MPI");
    else
        error_set("several ranks without MPI need one GPU each; for CPUs, or several ranks on a GPU, start them with "
                  "mpirun or srun --mpi=pmix");
    error_mark_shared();
    return -1;
}

// The world by its backend, and NCCL around it if the devices can use it.
static int open_backend(struct world **world, const struct world_options *options, struct device *device) {
    const char *backend = options->backend ? options->backend : "self";
    bool is_mpi = strcmp(backend, "mpi") == 0, is_tcp = strcmp(backend, "tcp") == 0;
    if (!is_mpi && !is_tcp)
        return self_world_open(world, device);
    TRY(is_mpi ? mpi_world_open(world, device) : tcp_world_open(world, device, options));
    (*world)->deadline_seconds = options->deadline_seconds;
    (*world)->lacks_nccl = may_use_nccl(options, device) && nccl_load() < 0;
    struct error_note *why = (*world)->lacks_nccl ? error_take() : NULL;
    hosts_gather(*world);
    struct buffer which = {0}, lacking = {0};
    enum devices_fit fit = devices_find(*world, &which);
    bool insists = insists_on_nccl(options, fit);
    int status = 0;
    if (can_use_nccl(options, fit, insists) && hosts_lack_nccl(*world, &lacking)) {
        world_close(*world);
        *world = NULL;
        status = refuse_missing(buffer_string(&lacking), why);
        why = NULL;
    } else if (can_use_nccl(options, fit, insists)) {
        status = nccl_world_open(world, device, *world);
    } else if (is_mpi && !insists && fit != DEVICES_MIXED) {
        if (fit == DEVICES_SHARED && !options->carrier)
            warn_of_sharing(*world, buffer_string(&which));
    } else {
        world_close(*world);
        *world = NULL;
        status = refuse(buffer_string(&which), fit, is_mpi);
    }
    if (why)
        error_drop(why);
    buffer_free(&lacking);
    buffer_free(&which);
    return status;
}

// The first group of a world.
static int connect_all(struct world *world) {
    struct group *all;
    int *ranks = memory_alloc(sizeof *ranks * (size_t)world->place.size);
    for (int i = 0; i < world->place.size; i++)
        ranks[i] = i;
    int status = world_group(world, &all, ranks, world->place.size, "all");
    free(ranks);
    return status;
}

int world_open_twin(struct world **world, struct device *device, int rank, int size) {
    paper_world_open(world, device, rank, size);
    return connect_all(*world);
}

int world_open(struct world **world, const struct world_options *given, struct device *device) {
    struct world_options options = *given;
    if (options.deadline_seconds <= 0)
        options.deadline_seconds = 600;
    TRY(open_backend(world, &options, device));
    (*world)->deadline_seconds = options.deadline_seconds;
    hang_choose_folder(*world, &options);
    (*world)->link = options.link;
    (*world)->manner.is_crowded = hosts_are_crowded(*world);
    if ((*world)->manner.is_crowded && device && device->ops->share_processors)
        device->ops->share_processors(device);
    int status = connect_all(*world);
    if (status == 0)
        status = pulse_open(&(*world)->pulse, *world);
    if (status < 0) {
        world_close(*world);
        *world = NULL;
    }
    return status;
}

void world_close(struct world *world) {
    if (!world)
        return;
    pulse_close(world->pulse);
    watch_settle(world->watch);
    for (int i = world->group_count - 1; i >= 0; i--) {
        free(world->groups[i]->ranks);
        world->collective->group_free(world->groups[i]);
    }
    free(world->hosts);
    hang_drop_folder(world);
    world->collective->world_free(world);
}

struct world_place world_place(const struct world *world) {
    return world->place;
}

struct group *world_group_all(struct world *world) {
    return world->groups[0];
}

int world_group(struct world *world, struct group **group, const int *ranks, int count, const char *name) {
    CHECK(world->group_count < WORLD_MAX_GROUPS);
    *group = NULL;
    TRY(world->collective->group_create(world, group, ranks, count, name));
    if (*group) {
        (*group)->ranks = memory_alloc(sizeof(int) * (size_t)count);
        memcpy((*group)->ranks, ranks, sizeof(int) * (size_t)count);
        watch_lock(world->watch);
        world->groups[world->group_count++] = *group;
        watch_unlock(world->watch);
    }
    return 0;
}

int group_rank(const struct group *group) {
    return group->rank;
}

int group_size(const struct group *group) {
    return group->size;
}

struct traffic group_traffic(const struct group *group, enum collective_kind kind) {
    return group->traffic[kind];
}

const char *world_backend(const struct world *world) {
    return world->collective->name;
}

const struct record *world_record(const struct world *world) {
    return &world->record;
}

// A message below this many bytes takes about as long as reading the clock twice.
enum { SMALL_BYTES = 64 << 10 };

// The tick may be earlier than the exact time of the previous collective; the record takes the later one.
static double read_clock(bool is_small) {
    return is_small ? clock_tick_seconds() : clock_seconds();
}

// Notes the collective in the flight record. A group of one has no traffic.
static struct comm_request request_record(struct group *group, enum collective_kind kind, size_t bytes,
                                          const char *name) {
    struct comm_request request = {
        .group = group, .carrier = group, .name = name, .collective = group->world->collective, .peer = -1};
    if (group->size == 1)
        return request;
    if (kind <= COLLECTIVE_HOST)
        (void)fault_at((enum fault_phase)((int)FAULT_AT_ALL_REDUCE + (int)kind));
    struct world *world = group->world;
    request.kind = kind;
    request.bytes = (int64_t)bytes;
    request.is_small = request.collective->is_imaginary ||
                       (bytes < SMALL_BYTES && world->link.bytes_per_second <= 0 && !trace_is_on());
    watch_lock(world->watch);
    struct record_entry *entry = record_begin(&world->record, read_clock(request.is_small));
    entry->name = name;
    entry->group = group->name;
    entry->kind = kind;
    entry->bytes = (int64_t)bytes;
    request.started = entry->start;
    request.number = entry->number;
    if (kind != COLLECTIVE_SEND && kind != COLLECTIVE_RECEIVE)
        request.sequence = ++group->collectives;
    watch_unlock(world->watch);
    request.due = link_carry(&world->link, kind, bytes, group->size, request.started);
    group->traffic[kind].count++;
    group->traffic[kind].bytes += (int64_t)bytes;
    return request;
}

static struct comm_request request_begin(struct group *group, const struct tensor *x, enum collective_kind kind,
                                         const char *name) {
    if (!tensor_is_contiguous(*x)) {
        char text[96];
        tensor_describe(*x, text, sizeof text);
        die("collective \"%s\" on a tensor that is not contiguous: %s", name, text);
    }
    return request_record(group, kind, tensor_bytes(*x), name);
}

// Starting may hang too: NCCL connects two ranks at their first message, which blocks until both arrive.
#define START(request, call)                                                                                           \
    do {                                                                                                               \
        watch_enter((request).group->world->watch, &(request));                                                        \
        (request).handle = (call);                                                                                     \
        watch_leave((request).group->world->watch);                                                                    \
    } while (0)

struct comm_request comm_all_reduce_start(struct group *group, struct tensor x, enum reduction reduction,
                                          const char *name) {
    struct comm_request request = request_begin(group, &x, COLLECTIVE_ALL_REDUCE, name);
    if (group->size > 1)
        START(request, request.collective->all_reduce(group, &x, reduction));
    return request;
}

// In a group of one the part is the whole.
static void copy_whole(struct group *group, struct tensor to, struct tensor from) {
    if (to.data != from.data)
        op_copy(group->world->device, &(struct op_copy){.dst = tensor_flat(to), .src = tensor_flat(from)});
}

struct comm_request comm_all_gather_start(struct group *group, struct tensor whole, struct tensor part,
                                          const char *name) {
    struct comm_request request = request_begin(group, &whole, COLLECTIVE_ALL_GATHER, name);
    if (!tensor_is_contiguous(part) || tensor_count(part) * group->size != tensor_count(whole))
        die("all_gather \"%s\": %" PRId64 " elements from each of %d ranks do not make %" PRId64, name,
            tensor_count(part), group->size, tensor_count(whole));
    if (group->size > 1)
        START(request, request.collective->all_gather(group, &whole, &part));
    else
        copy_whole(group, whole, part);
    return request;
}

struct comm_request comm_reduce_scatter_start(struct group *group, struct tensor part, struct tensor whole,
                                              const char *name) {
    struct comm_request request = request_begin(group, &whole, COLLECTIVE_REDUCE_SCATTER, name);
    if (!tensor_is_contiguous(part) || tensor_count(part) * group->size != tensor_count(whole))
        die("reduce_scatter \"%s\": %" PRId64 " elements do not split into %d times %" PRId64, name,
            tensor_count(whole), group->size, tensor_count(part));
    if (group->size > 1)
        START(request, request.collective->reduce_scatter(group, &part, &whole));
    else
        copy_whole(group, part, whole);
    return request;
}

// The rows of one side, rank after rank. A side without rows may be no tensor.
static struct tensor exchanged_rows(const struct group *group, struct tensor x, const int64_t *rows, const char *name) {
    int64_t sum = 0;
    bool is_valid = tensor_is_contiguous(x);
    for (int i = 0; i < group->size && is_valid; i++) {
        sum += rows[i];
        is_valid = rows[i] >= 0 && sum <= x.shape[0];
    }
    if (!is_valid || (sum > 0 && !x.data)) {
        char text[96];
        tensor_describe(x, text, sizeof text);
        die("all_to_all \"%s\": the rows are more than those of a contiguous tensor %s", name, text);
    }
    return x.data ? tensor_rows(x, 0, sum) : tensor_1d(NULL, x.dtype, 0);
}

// No rows, of the other side's type and length.
static struct tensor no_rows(struct tensor other) {
    other.data = NULL;
    return tensor_rows(other, 0, 0);
}

static int64_t row_length(const struct tensor *x) {
    int64_t length = 1;
    for (int d = 1; d < x->rank; d++)
        length *= x->shape[d];
    return length;
}

struct comm_request comm_all_to_all_start(struct group *group, const struct comm_exchange *given, const char *name) {
    struct comm_exchange exchange = *given;
    exchange.to = exchanged_rows(group, given->to, given->received, name);
    exchange.from = exchanged_rows(group, given->from, given->sent, name);
    exchange.to = given->to.data ? exchange.to : no_rows(exchange.from);
    exchange.from = given->from.data ? exchange.from : no_rows(exchange.to);
    CHECK(exchange.to.dtype == exchange.from.dtype && row_length(&exchange.to) == row_length(&exchange.from));
    CHECK(given->received[group->rank] == given->sent[group->rank]);
    size_t in = tensor_bytes(exchange.to), out = tensor_bytes(exchange.from);
    struct comm_request request = request_record(group, COLLECTIVE_ALL_TO_ALL, in > out ? in : out, name);
    if (group->size > 1)
        START(request, request.collective->all_to_all(group, &exchange));
    else if (in > 0)
        copy_whole(group, exchange.to, exchange.from);
    return request;
}

struct comm_request comm_broadcast_start(struct group *group, struct tensor x, int root, const char *name) {
    struct comm_request request = request_begin(group, &x, COLLECTIVE_BROADCAST, name);
    if (group->size > 1)
        START(request, request.collective->broadcast(group, &x, root));
    return request;
}

struct comm_request comm_send_start(struct group *group, struct tensor x, int to, const char *name) {
    struct comm_request request = request_begin(group, &x, COLLECTIVE_SEND, name);
    CHECK(to >= 0 && to < group->size && to != group->rank);
    request.peer = to;
    START(request, request.collective->send(group, &x, to));
    return request;
}

struct comm_request comm_receive_start(struct group *group, struct tensor x, int from, const char *name) {
    struct comm_request request = request_begin(group, &x, COLLECTIVE_RECEIVE, name);
    CHECK(from >= 0 && from < group->size && from != group->rank);
    request.peer = from;
    START(request, request.collective->receive(group, &x, from));
    return request;
}

void comm_connect(struct group *group) {
    CHECK(group->size == 2);
    struct comm_request request = {.group = group,
                                   .carrier = group,
                                   .name = "connection",
                                   .collective = group->world->collective,
                                   .peer = 1 - group->rank};
    watch_enter(group->world->watch, &request);
    if (request.collective->connect)
        request.collective->connect(group);
    watch_leave(group->world->watch);
}

void comm_overlap(struct comm_request *request) {
    if (request->handle && request->collective->overlap)
        request->collective->overlap(request->group, request->handle);
}

// Whether the request is complete; its handle is gone as soon as the backend is done with it.
static bool is_complete(struct comm_request *request) {
    struct watch *watch = request->group->world->watch;
    watch_lock(watch);
    if (request->handle && request->collective->test(request->carrier, request->handle))
        request->handle = NULL;
    watch_unlock(watch);
    return !request->handle && (request->due <= 0 || clock_seconds() >= request->due);
}

// If the device can wait by itself, the host continues, unless it is held back or must know the end.
static bool leave_to_device(struct comm_request *request) {
    if (!request->collective->order)
        return false;
    struct world *world = request->group->world;
    // A receive may be queued only now, and then it connects ranks.
    if (request->peer >= 0)
        watch_enter(world->watch, request);
    bool is_recorded = !request_order(request);
    if (request->peer >= 0)
        watch_leave(world->watch);
    if (is_recorded) {
        watch_lock(world->watch);
        record_end(&world->record, request->number, request->started);
        watch_unlock(world->watch);
    }
    bool is_left = is_recorded || (world->patience == 0 && request->due <= 0 && watch_add(world->watch, request));
    if (is_left)
        request->handle = NULL;
    return is_left;
}

void comm_wait(struct comm_request *request) {
    if (!request->handle || leave_to_device(request))
        return;
    // A request may have been in flight for long before it is waited for: the deadline counts from the first look at
    // the clock here, which a short wait never takes.
    struct world *world = request->group->world;
    struct stopwatch stopwatch = {0};
    // A look at the request may take long itself, if other ranks have the core meanwhile.
    double began = read_clock(request->is_small);
    struct pause pause = {0};
    while (!is_complete(request)) {
        // The data has arrived but a slow link is simulated: do not sleep past the due time.
        pause_after_look(&pause, &world->manner, request->handle ? HUGE_VAL : request->due - clock_seconds());
        watchdog_beat();
        // On a busy machine many ranks share a core. Once polls are rare, check the stopwatch at every poll. During
        // file work the pulse reports lost ranks and leaves the only file.
        if ((pause.looks % 16 != 1 && pause.looks <= 64) || world->patience > 0)
            continue;
        watch_lock(world->watch);
        stopwatch_look(&stopwatch, request);
        watch_unlock(world->watch);
    }
    stopwatch_reset(&stopwatch, world);
    // A small message that has arrived at the first look took less than a tick of waiting.
    bool is_instant = request->is_small && pause.looks == 0;
    double ended = read_clock(request->is_small);
    world->waited_seconds += ended - began;
    watch_lock(world->watch);
    record_end(&world->record, request->number, is_instant ? request->started : ended);
    watch_unlock(world->watch);
    // If the device waits, the spans already exist.
    if (trace_is_on() && !request->collective->order && !request->collective->is_imaginary)
        request_trace(request, began, ended);
}

double comm_waited_seconds(const struct group *group) {
    return group->world->waited_seconds;
}

bool comm_records(const struct group *group) {
    return group->size == 1 || group->world->collective->mark != NULL;
}

void comm_replayed(struct group *group, const char *name) {
    if (group->size == 1)
        return;
    struct comm_request request = request_record(group, COLLECTIVE_RECORDED, 0, name);
    request.handle = request.collective->mark(group);
    comm_wait(&request);
}

void comm_patience_begin(struct group *all, const char *what) {
    struct world *world = all->world;
    CHECK(all->size == world->place.size);
    if (world->patience++ == 0 && world->pulse)
        pulse_start(world->pulse, what);
}

void comm_patience_end(struct group *all) {
    struct world *world = all->world;
    CHECK(world->patience > 0);
    if (--world->patience == 0 && world->pulse)
        pulse_stop(world->pulse);
}

void world_failed(struct world *world) {
    if (world->pulse)
        pulse_drop(world->pulse);
}

void comm_all_reduce(struct group *group, struct tensor x, enum reduction reduction, const char *name) {
    struct comm_request request = comm_all_reduce_start(group, x, reduction, name);
    comm_wait(&request);
}

void comm_broadcast(struct group *group, struct tensor x, int root, const char *name) {
    struct comm_request request = comm_broadcast_start(group, x, root, name);
    comm_wait(&request);
}

void comm_barrier(struct group *group, const char *name) {
    int64_t nothing = 0;
    comm_max_i64(group, &nothing, 1, name);
}

// A host collective of the group, or of the one that carries them for it; NULL if there are no other ranks.
static struct group *host_of(struct group *group) {
    if (group->size == 1)
        return NULL;
    const struct collective *collective = group->world->collective;
    return collective->host_group ? collective->host_group(group) : group;
}

// Waits for a handle of a host collective. Even if another world carries it, the asking world's record, patience and
// rank names apply.
static void wait_host(struct group *group, struct group *host, void *handle, int count, const char *name) {
    struct comm_request request = request_record(group, COLLECTIVE_HOST, sizeof(int64_t) * (size_t)count, name);
    request.carrier = host;
    request.collective = host->world->collective;
    request.handle = handle;
    comm_wait(&request);
}

void comm_max_i64(struct group *group, int64_t *values, int count, const char *name) {
    struct group *host = host_of(group);
    if (host)
        wait_host(group, host, host->world->collective->host_max_i64(host, values, count), count, name);
}

void comm_all_gather_i64(struct group *group, int64_t *table, int count, const char *name) {
    struct group *host = host_of(group);
    if (host)
        wait_host(group, host, host->world->collective->host_all_gather_i64(host, table, count), count * group->size,
                  name);
}

void comm_all_gather_rows_i64(struct group *group, int64_t *table, const int *firsts, const char *name) {
    struct group *host = host_of(group);
    if (host)
        wait_host(group, host, host->world->collective->host_all_gather_rows_i64(host, table, firsts),
                  firsts[group->size], name);
}

void comm_broadcast_i64(struct group *group, int64_t *values, int count, int root, const char *name) {
    struct group *host = host_of(group);
    if (host)
        wait_host(group, host, host->world->collective->host_broadcast_i64(host, values, count, root), count, name);
}
