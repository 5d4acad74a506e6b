// Counts operations of src/comm (tcp.c, hang.c, pulse.c), mesh_connect, rank_report.c, store/save.c and load.c,
// times their cost to rank 0 and the file system. See plan.h; docs/plan.md compares them with real ranks.
#include "plan/plan.h"

#include "base/memory.h"
#include "comm/hang.h"
#include <math.h>
#include <stdlib.h>

const char *const control_names[CONTROL_PHASES] = {"join",      "addresses",  "hosts",        "groups",
                                                   "rehearsal", "log_line",   "save",         "save_files",
                                                   "heartbeat", "load_files", "hang_records", "hang_report"};

// CPU time of the hub, bench_star with 64 to 512 processes (2026-11-17, 2 shared cores): 15 to 22 us for a rank that
// joins, 4 to 10 us for a rank's row and its answer, 3 to 6 GB/s of answers.
static const double JOIN_SECONDS = 18e-6, MESSAGE_SECONDS = 8e-6, BYTES_PER_SECOND = 5e9;

// Metadata of a shared file system: FSx for Lustre is sold with 1,500 to 192,000 operations a second. Without a queue,
// an answer over a network takes about half a millisecond.
static const double USUAL_OPERATIONS_PER_SECOND = 12000, ANSWER_SECONDS = 0.5e-3;

// Numbers of 8 bytes in the row of a rank.
enum { ADDRESS_WORDS = 4, HOST_WORDS = 12, PORT_WORDS = 1, LOG_WORDS = 8, SIZE_WORDS = 4, DIGEST_WORDS = 16 };
// Exchanges of a word or a name in a save: five agreements and the name of the folder.
enum { SAVE_EXCHANGES = 7 };
// Operations per written file: two lookups of its name, create, sync, rename, open and sync its folder.
enum { OPERATIONS_A_FILE = 7, FILES_OF_FIRST = 4 };
// A resuming rank reads some files without tensors; before, one rank verifies each file, opening it twice.
enum { VERIFYING_OPENS = 2, OTHER_LOOKS = 100 };
enum { OPERATIONS_A_RECORD = 3 };
static const double BYTES_A_WRITER = 0x1p26;

// ---- rank 0 of a star ----

struct same_work {
    double requests;
    bool *has_sent;
};

static bool sends_all(void *context, int rank, double *time, double *requests) {
    const struct same_work *work = context;
    bool sends = !work->has_sent[rank];
    (void)time;
    *requests = work->requests;
    work->has_sent[rank] = true;
    return sends;
}

// Seconds until `ranks` ranks, which start together and each have one request in flight, have sent `requests` each.
static double ask_all(struct rank_queue *place, int ranks, double requests) {
    struct same_work work = {requests, memory_alloc(sizeof(bool) * (size_t)ranks)};
    double seconds = rank_queue_run(place, ranks, sends_all, &work, false);
    free(work.has_sent);
    return seconds;
}

// Each rank sends its words, and gets an answer of `answer_bytes` after all have been received.
static struct control_cost exchange_cost(int ranks, double answer_bytes) {
    struct rank_queue arrivals = {.service = MESSAGE_SECONDS / 2, .burst = 1};
    struct rank_queue answers = {.service = MESSAGE_SECONDS / 2 + answer_bytes / BYTES_PER_SECOND, .burst = 1};
    return (struct control_cost){.bytes = answer_bytes * ranks,
                                 .seconds = ask_all(&arrivals, ranks, 1) + ask_all(&answers, ranks, 1)};
}

static struct control_cost table_cost(int ranks, int words) {
    return exchange_cost(ranks, 8.0 * words * ranks);
}

static double join_seconds(int ranks) {
    struct rank_queue hub = {.service = JOIN_SECONDS, .burst = 1};
    return ask_all(&hub, ranks, 1);
}

static void add_cost(struct control_cost *sum, struct control_cost cost, double times) {
    sum->bytes += times * cost.bytes;
    sum->seconds += times * cost.seconds;
    sum->operations += times * cost.operations;
}

// The files of a stage: every tensor is whole in one file.
struct stage_files {
    double model, optimizer;
};

static struct stage_files files_of(const struct control_shape *shape) {
    double most = floor((double)shape->ranks / shape->stages), weights = ceil(shape->weights / shape->stages);
    double wanted =
        shape->writers > 0 ? (double)shape->writers : floor(shape->checkpoint_bytes / shape->stages / BYTES_A_WRITER);
    double writers = fmax(1, fmin(wanted, most));
    return (struct stage_files){fmin(writers, weights), fmin(writers, shape->states * weights)};
}

double control_files(const struct control_shape *shape) {
    struct stage_files files = files_of(shape);
    return (files.model + files.optimizer) * shape->stages;
}

// Number of ranks that write one or two files.
static double all_writers(const struct control_shape *shape) {
    struct stage_files files = files_of(shape);
    return fmax(files.model, files.optimizer) * shape->stages;
}

static struct control_cost save_cost(const struct control_shape *shape) {
    struct control_cost cost = {0};
    // Running sums of each file's header and of each tensor, and hashes of their names.
    double sums = 2 * shape->weights * (1 + shape->states) + control_files(shape);
    add_cost(&cost, exchange_cost(shape->ranks, 8), SAVE_EXCHANGES);
    add_cost(&cost, table_cost(shape->ranks, SIZE_WORDS), 1);
    add_cost(&cost, table_cost(shape->ranks, DIGEST_WORDS), 1);
    add_cost(&cost, exchange_cost(shape->ranks, 8 * sums), 1);
    return cost;
}

// ---- the file system ----

static struct rank_queue metadata_of(const struct control_shape *shape) {
    double rate = shape->operations_per_second > 0 ? shape->operations_per_second : USUAL_OPERATIONS_PER_SECOND;
    return (struct rank_queue){.service = 1 / rate, .delay = ANSWER_SECONDS, .burst = 1};
}

// Cost of ranks that all do `operations` file operations, each rank in sequence.
static struct control_cost file_cost(const struct control_shape *shape, double ranks, double operations) {
    enum { BURSTS = 16 };
    int count = (int)ranks;
    struct rank_queue metadata = metadata_of(shape);
    metadata.burst = fmax(1, ceil(operations / BURSTS));
    double seconds = ask_all(&metadata, count, operations);
    return (struct control_cost){.seconds = seconds, .operations = metadata.served};
}

static struct control_cost save_files_cost(const struct control_shape *shape) {
    double files = control_files(shape), writers = all_writers(shape);
    struct control_cost cost = file_cost(shape, writers, OPERATIONS_A_FILE * files / writers);
    double of_first = OPERATIONS_A_FILE * FILES_OF_FIRST;
    if (shape->removes_old)
        of_first += files + FILES_OF_FIRST;
    add_cost(&cost, file_cost(shape, 1, of_first), 1);
    return cost;
}

// A rank opens the files of its stage that it needs: all weights, and the states of its part, which begins and ends
// within a tensor.
static struct control_cost load_files_cost(const struct control_shape *shape) {
    struct stage_files files = files_of(shape);
    double parts = shape->splits_optimizer ? shape->replicas : 1, weights = ceil(shape->weights / shape->stages);
    double states = fmin(files.optimizer, shape->states * (ceil(weights / parts) + (parts > 1)));
    double opens = files.model + states + VERIFYING_OPENS * control_files(shape) / shape->ranks;
    return file_cost(shape, shape->ranks, OTHER_LOOKS + opens);
}

// Rank 0 removes the other ranks' trial files.
static struct control_cost rehearsal_cost(const struct control_shape *shape) {
    struct control_cost cost = file_cost(shape, all_writers(shape), OPERATIONS_A_FILE);
    add_cost(&cost, file_cost(shape, 1, all_writers(shape)), 1);
    return cost;
}

// ---- a rank that hangs ----

// All ranks read the files of their group, staggered. The replicas of the hanging rank, the first ones here, do not
// find its file and poll for it for a while. The other ranks see that their own peers wait too, and look for the silent
// rank among all ranks, staggered again.
enum search_step { OF_GROUP, OF_ALL, NAPS };
struct search_of_silent {
    const struct control_shape *shape;
    struct searcher {
        enum search_step step;
        double waited;  // since it first missed a file
        double asked;   // time of its last look; 0 before
    } * ranks;
};

static bool looks_for_silent(void *context, int rank, double *time, double *requests) {
    const double nap = 0.1, most_counted = 1, usual_deadline = 600;
    const struct control_shape *shape = ((struct search_of_silent *)context)->shape;
    struct searcher *self = &((struct search_of_silent *)context)->ranks[rank];
    int peers = shape->replicas - 1;
    bool is_peer = rank < peers;
    if (self->step == OF_GROUP) {
        *time += hang_turn(is_peer ? rank : (rank - peers) % shape->replicas, shape->ranks);
        *requests = peers;
        self->step = is_peer ? NAPS : OF_ALL;
    } else if (self->step == OF_ALL) {
        *time += hang_turn(rank - peers, shape->ranks);
        *requests = shape->ranks - 1;
        self->step = NAPS;
    } else {
        if (self->asked > 0)
            self->waited += fmin(*time - self->asked, most_counted);
        if (self->waited >= hang_patience(usual_deadline))
            return false;
        self->asked = *time;
        *time += nap;
        *requests = 1;
    }
    return true;
}

static struct control_cost hang_report_cost(const struct control_shape *shape) {
    enum { BURSTS = 16 };
    int waiting = shape->ranks - 1;
    if (waiting < 1)
        return (struct control_cost){0};
    struct rank_queue metadata = metadata_of(shape);
    metadata.burst = fmax(1, ceil((double)shape->replicas / BURSTS));
    struct search_of_silent search = {shape, memory_alloc(sizeof *search.ranks * (size_t)waiting)};
    double seconds = rank_queue_run(&metadata, waiting, looks_for_silent, &search, true);
    free(search.ranks);
    return (struct control_cost){.seconds = seconds, .operations = metadata.served};
}

// ---- all phases ----

// Number of world_group calls in mesh_connect, plus the heartbeat's group.
static int count_groups(const struct mesh *mesh) {
    enum { LINK_ROUNDS = 3, LINK_WAYS = 2, HEARTBEAT = 1 };
    return AXIS_COUNT + mesh->set_count + HEARTBEAT + (mesh->length[AXIS_PIPELINE] > 1 ? LINK_ROUNDS * LINK_WAYS : 0);
}

struct control_shape control_shape_of(const struct mesh *mesh) {
    struct control_shape shape = {.ranks = mesh->size,
                                  .stages = mesh->length[AXIS_PIPELINE],
                                  .replicas = mesh_count(mesh, MESH_REPLICAS),
                                  .groups = count_groups(mesh)};
    // Groups of one call are disjoint and join concurrently: the largest is the last.
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        shape.joined += mesh->length[axis];
    for (int i = 0; i < mesh->set_count; i++)
        shape.joined += mesh_count(mesh, mesh->sets[i].axes);
    shape.joined += mesh->size;  // the heartbeat's
    return shape;
}

static void plan_phases(const struct control_shape *shape, struct control_cost costs[CONTROL_PHASES]) {
    int ranks = shape->ranks;
    for (int i = 0; i < CONTROL_PHASES; i++)
        costs[i] = (struct control_cost){0};
    costs[CONTROL_JOIN].seconds = join_seconds(ranks);
    costs[CONTROL_ADDRESSES] = table_cost(ranks, ADDRESS_WORDS);
    costs[CONTROL_HOSTS] = table_cost(ranks, HOST_WORDS);
    add_cost(&costs[CONTROL_GROUPS], table_cost(ranks, PORT_WORDS), shape->groups);
    costs[CONTROL_GROUPS].seconds += join_seconds((int)shape->joined);
    costs[CONTROL_REHEARSAL] = rehearsal_cost(shape);
    costs[CONTROL_LOG] = table_cost(ranks, LOG_WORDS);
    costs[CONTROL_SAVE] = save_cost(shape);
    costs[CONTROL_SAVE_FILES] = save_files_cost(shape);
    costs[CONTROL_HEARTBEAT] = exchange_cost(ranks, 8);
    costs[CONTROL_LOAD_FILES] = load_files_cost(shape);
    costs[CONTROL_HANG_RECORDS] = file_cost(shape, ranks, OPERATIONS_A_RECORD);
    costs[CONTROL_HANG_REPORT] = hang_report_cost(shape);
}

void control_plan(const struct control_shape *shape, struct control_cost costs[CONTROL_PHASES]) {
    struct control_shape doubled = *shape;
    struct control_cost more[CONTROL_PHASES];
    doubled.ranks *= 2;
    doubled.replicas *= 2;
    doubled.joined += shape->replicas + shape->ranks;
    plan_phases(shape, costs);
    plan_phases(&doubled, more);
    for (int i = 0; i < CONTROL_PHASES; i++)
        costs[i].growth = costs[i].seconds > 0 ? log2(more[i].seconds / costs[i].seconds) : 0;
}

double control_start_seconds(const struct control_cost costs[CONTROL_PHASES]) {
    double seconds = 0;
    for (int i = 0; i <= CONTROL_GROUPS; i++)
        seconds += costs[i].seconds;
    return seconds;
}

// ---- ranks that queue at one place ----

struct queued_rank {
    double time, left;  // arrival of a rank's next request, and the number it still has to send
    int rank;
};

static bool is_before(const struct queued_rank *a, const struct queued_rank *b) {
    return a->time < b->time || (a->time <= b->time && a->rank < b->rank);
}

static void sift_down(struct queued_rank *heap, int count, int at) {
    for (int child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && is_before(&heap[child + 1], &heap[child]))
            child++;
        if (!is_before(&heap[child], &heap[at]))
            return;
        struct queued_rank moved = heap[at];
        heap[at] = heap[child];
        heap[child] = moved;
        at = child;
    }
}

// Answers the first event of the heap. A lone rank waits for each of its answers; otherwise the place's queue
// dominates.
static void serve(struct rank_queue *place, double *free_at, struct queued_rank *event) {
    double sent = fmin(place->burst, event->left);
    *free_at = fmax(*free_at, event->time) + sent * place->service;
    event->time = fmax(*free_at + place->delay, event->time + sent * (place->service + place->delay));
    event->left -= sent;
    place->served += sent;
}

double rank_queue_run(struct rank_queue *place, int ranks, rank_queue_next *next, void *context, bool stops_at_first) {
    OWNED struct queued_rank *heap = memory_alloc(sizeof *heap * (size_t)ranks);
    double free_at = 0, end = 0;
    int count = ranks;
    for (int i = 0; i < ranks; i++)
        heap[i].rank = i;
    while (count > 0) {
        struct queued_rank *first = &heap[0];
        if (first->left > 0) {
            serve(place, &free_at, first);
        } else if (!next(context, first->rank, &first->time, &first->left)) {
            end = fmax(end, first->time);
            if (stops_at_first)
                break;
            heap[0] = heap[--count];
        }
        sift_down(heap, count, 0);
    }
    return end;
}
