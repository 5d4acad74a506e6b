// The files of waiting ranks, and what they reveal. See hang.h.
#include "comm/hang.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include "comm/backend.h"
#include "comm/pump.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_LINE_BYTES = 1 << 16, NAMED_PEERS = 8 };
// The part of the deadline after which a rank leaves its file.
static const double FILE_SHARE = 0.75;

// A peer's progress on our request, by its file.
enum arrival { NO_FILE, NOT_COME, HAS_COME };

struct peer {
    enum arrival arrival;
    char *waits;  // "activations" in group "pipeline"; NULL if nothing is known. Owned
};

// The file of a rank, to be freed; NULL if the world has no folder for them.
static char *hang_path(const struct world *world, int rank) {
    return world->record_folder ? memory_printf("%s/flight-%d.jsonl", world->record_folder, rank) : NULL;
}

void hang_choose_folder(struct world *world, const struct world_options *options) {
    bool is_given = options->record_folder || !options->temporary_folder;
    if (!is_given && world->place.local_size == world->place.size)
        world->run_folder = memory_printf("%s/bevatron-hang-%" PRId64, options->temporary_folder, hosts_run(world));
    world->record_folder = is_given ? options->record_folder : world->run_folder ? world->run_folder : ".";
}

void hang_drop_folder(struct world *world) {
    if (world->run_folder)
        rmdir(world->run_folder);  // fails if it was never created, or another rank has a file in it
    free(world->run_folder);
    world->run_folder = NULL;
}

// Another rank may have created it. No other user can write to a folder of this user, or replace it with a link.
static int make_run_folder(const char *path) {
    struct stat status;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return error_set("cannot create %s: %s", path, strerror(errno));
    if (lstat(path, &status) < 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid())
        return error_set("%s is not a folder of this user", path);
    return 0;
}

static void count_time(struct stopwatch *stopwatch, const struct world *world) {
    double now = clock_now(world->clock);
    if (stopwatch->looked > 0)
        stopwatch->waited += fmin(now - stopwatch->looked, fmin(1, world->deadline_seconds / 10));
    stopwatch->looked = now;
}

double hang_patience(double deadline_seconds) {
    const double enough = 0.5, least = 0.1;
    double before = deadline_seconds - FILE_SHARE * deadline_seconds;
    return fmin(fmax(enough - before, least), deadline_seconds);
}

// A rank that gives up waits a little for the files of others; false if that was long enough.
static bool is_patient(const struct world *world, struct stopwatch *patience) {
    count_time(patience, world);
    double left = hang_patience(world->deadline_seconds) - patience->waited;
    if (left <= 0)
        return false;
    clock_pause(world->clock, fmin(left, 0.1));
    return true;
}

// The ranks of one turn, one of each group, read as many files as there are ranks, or one rank reads all; a file takes
// about half a millisecond over a network. When half of that time has passed, the next turn begins.
double hang_turn(int place, int world_size) {
    const int most_turns = 16;
    return (place < most_turns ? place : most_turns) * fmax(0.1, 0.25e-3 * world_size);
}

static void wait_for_turn(const struct world *world, int place) {
    clock_pause(world->clock, fmin(hang_turn(place, world->place.size), world->deadline_seconds));
}

static void write_first_line(const struct comm_request *request, struct group *const *groups, int count,
                             struct buffer *out) {
    const struct world *world = request->group->world;
    const struct watch *watch = groups == world->groups ? world->watch : NULL;  // it never sees a thread's own group
    struct json_writer json = {.out = out};
    json_begin_object(&json);
    json_put_int(&json, "rank", world->place.rank);
    json_put_int(&json, "run", hosts_run(world));
    json_key(&json, "host");
    char host[256];
    process_host(host, sizeof host);
    json_cstring(&json, host);
    json_put_int(&json, "iteration", run_position_iteration());
    json_put_string(&json, "phase", run_position_phase());
    json_put_string(&json, "waits for", request->name);
    json_put_string(&json, "of group", request->group->name);
    json_key(&json, "begun");
    json_begin_object(&json);
    for (int i = 0; i < count; i++) {
        if (groups[i]->size == 1)
            continue;
        json_put_int(&json, groups[i]->name, watch_begun(watch, groups[i]));
    }
    json_end_object(&json);
    json_end_object(&json);
    buffer_append_byte(out, '\n');
}

// If the file cannot be written, the rank only logs that. The groups and the record belong to their owner and the
// watch; the thread of a pulse has only its own group.
static void leave_file(const struct comm_request *request, bool is_pulse) {
    const struct world *world = request->group->world;
    if (!world->record_folder)
        return;
    struct buffer content = {0};
    char *text = NULL, *path = hang_path(world, world->place.rank);
    size_t length = 0;
    if (is_pulse)
        write_first_line(request, &(struct group *){request->group}, 1, &content);
    else
        write_first_line(request, world->groups, world->group_count, &content);
    FILE *record = is_pulse ? NULL : open_memstream(&text, &length);
    if (record) {
        record_write(&world->record, world->place.rank, record);
        fclose(record);
        buffer_append(&content, text, length);
    }
    if ((world->run_folder && make_run_folder(world->run_folder) < 0) ||
        file_write_here(path, content.data, content.length) < 0)
        log_warn("the flight record is lost: %s", error_message());
    error_clear();
    free(text);
    free(path);
    buffer_free(&content);
}

// The first line of a rank's file as JSON; NULL if there is none of this run.
static struct json *read_first_line(const struct world *world, int rank) {
    char *path = hang_path(world, rank), *line = memory_alloc(FIRST_LINE_BYTES);
    struct json *root = NULL;
    int64_t run = -1;
    FILE *file = path && file_is_regular(path) ? fopen(path, "r") : NULL;
    if (file && fgets(line, FIRST_LINE_BYTES, file) && json_parse(&root, line, strlen(line), path) == 0 &&
        (root->type != JSON_OBJECT || json_get_int(root, "run", &run) < 0 || run != hosts_run(world))) {
        json_free(root);
        root = NULL;
    }
    if (file)
        fclose(file);
    error_clear();
    free(line);
    free(path);
    return root;
}

// Describes a rank's wait: its collective, phase and iteration (-1 before the first one).
static char *describe_wait(const struct json *root, const char *name, const char *of) {
    const char *phase = "";
    int64_t iteration = -1;
    char at[64] = "";
    if (json_get_int(root, "iteration", &iteration) == 0 && iteration >= 0)
        snprintf(at, sizeof at, " at iteration %" PRId64, iteration);
    if (json_get_string(root, "phase", &phase) < 0)
        phase = "";
    return memory_printf("waits for \"%.64s\" in group \"%.64s\"%s%s%.48s", name, of, at, *phase ? ", " : "", phase);
}

// `i` is a rank of the request's group.
static struct peer look_at(const struct comm_request *request, int i) {
    const struct group *group = request->group;
    struct json *root = read_first_line(group->world, group->ranks[i]);
    struct peer peer = {.arrival = NO_FILE};
    if (!root)
        return peer;
    const struct json *begun = json_member(root, "begun");
    const char *name = "", *of = "";
    int64_t collectives = 0;
    // Messages between two ranks cannot be counted: sends and receives differ.
    bool has_come = request->peer < 0 && begun && json_get_int(begun, group->name, &collectives) == 0 &&
                    collectives >= request->sequence;
    peer.arrival = has_come ? HAS_COME : NOT_COME;
    if (json_get_string(root, "waits for", &name) == 0 && json_get_string(root, "of group", &of) == 0)
        peer.waits = describe_wait(root, name, of);
    error_clear();
    json_free(root);
    return peer;
}

static bool is_waited_for(const struct comm_request *request, int i) {
    return i != request->group->rank && (request->peer < 0 || i == request->peer);
}

// Counts the peers that have arrived and those without a file. Only the latter are looked at again.
static void look_at_missing(const struct comm_request *request, struct peer *peers, int counts[HAS_COME + 1]) {
    for (int i = 0; i <= HAS_COME; i++)
        counts[i] = 0;
    for (int i = 0; i < request->group->size; i++) {
        if (!is_waited_for(request, i))
            continue;
        if (peers[i].arrival == NO_FILE)
            peers[i] = look_at(request, i);
        counts[peers[i].arrival]++;
    }
}

static void describe_peers(const struct comm_request *request, const struct peer *peers, bool all_have_come,
                           struct buffer *out) {
    const struct group *group = request->group;
    int named = 0, others = 0;
    for (int i = 0; i < group->size; i++) {
        if (!is_waited_for(request, i) || (!all_have_come && peers[i].arrival == HAS_COME))
            continue;
        if (++others > NAMED_PEERS)
            continue;
        buffer_printf(out, "%s", named++ ? ", " : "");
        hosts_name(group->world, group->ranks[i], out);
        if (peers[i].arrival == NO_FILE)
            buffer_printf(out, " (left no record in %s)", group->world->record_folder);
        else if (peers[i].arrival == NOT_COME && peers[i].waits)
            buffer_printf(out, " (%s)", peers[i].waits);
    }
    if (others > named)
        buffer_printf(out, " and %d more", others - named);
}

// Asks again for the files of ranks that had none; returns how many still have none.
static int ask_silent(const struct world *world, bool *is_silent) {
    int silent = 0;
    for (int rank = 0; rank < world->place.size; rank++) {
        if (!is_silent[rank])
            continue;
        struct json *root = read_first_line(world, rank);
        is_silent[rank] = root == NULL;
        silent += is_silent[rank];
        json_free(root);
    }
    return silent;
}

// The ranks we wait for wait for others themselves; the chain ends at a rank that does not. `patience` gives waiting
// ranks time to leave their files.
static void describe_silent(const struct world *world, struct stopwatch *patience, struct buffer *out) {
    bool *is_silent = memory_alloc(sizeof *is_silent * (size_t)world->place.size);
    for (int rank = 0; rank < world->place.size; rank++)
        is_silent[rank] = rank != world->place.rank;
    wait_for_turn(world, world->place.rank);
    int silent = ask_silent(world, is_silent), named = 0;
    while (silent > 0 && is_patient(world, patience))
        silent = ask_silent(world, is_silent);
    for (int rank = 0; rank < world->place.size && named < NAMED_PEERS; rank++) {
        if (!is_silent[rank])
            continue;
        buffer_printf(out, "%s", named++ ? ", " : "; ranks of the whole run without a record: ");
        hosts_name(world, rank, out);
    }
    if (silent > named)
        buffer_printf(out, " and %d more", silent - named);
    free(is_silent);
}

void hang_describe(const struct comm_request *request, struct buffer *out) {
    const struct group *group = request->group;
    const struct world *world = group->world;
    // A group that carries another group's host values belongs to its backend and knows no names.
    if (!group->ranks || !world->hosts) {
        buffer_printf(out, "another rank is lost or stuck; it is unknown which");
        return;
    }
    struct peer *peers = memory_alloc(sizeof *peers * (size_t)group->size);
    int counts[HAS_COME + 1] = {0};
    struct stopwatch patience = {0};
    if (world->record_folder) {
        if (request->peer < 0)
            wait_for_turn(world, group->rank);
        for (look_at_missing(request, peers, counts); counts[NO_FILE] > 0 && is_patient(world, &patience);)
            look_at_missing(request, peers, counts);
    }
    bool all_have_come = counts[NO_FILE] + counts[NOT_COME] == 0;
    if (world->record_folder && all_have_come) {
        buffer_printf(out, "all ranks entered this collective, so the network between them or a device is stuck: ");
        describe_peers(request, peers, true, out);
    } else if (world->record_folder) {
        buffer_printf(out, "%d other ranks arrived; missing: ", counts[HAS_COME]);
        describe_peers(request, peers, false, out);
        if (counts[NO_FILE] == 0)
            describe_silent(world, &patience, out);
    } else {
        buffer_printf(out, "another rank is lost or stuck: ");
        hosts_name_peers(group, out);
    }
    for (int i = 0; i < group->size; i++)
        free(peers[i].waits);
    free(peers);
}

static _Noreturn void give_up(const struct stopwatch *stopwatch, const struct comm_request *request) {
    const struct group *group = request->group;
    double deadline = group->world->deadline_seconds;
    struct buffer peers = {0};
    char *path = hang_path(group->world, group->world->place.rank);
    char now[64];
    clock_format(clock_wall_seconds(), now, sizeof now);
    if (path && !stopwatch->files)
        log_error("the deadline passed at %s; the last %d collectives of this rank are in %s", now, RECORD_ENTRIES,
                  path);
    hang_describe(request, &peers);
    if (stopwatch->files)
        die_code(EXIT_CODE_HANG,
                 "no heartbeat from some ranks during %s for %.0f s, longer than --distributed-timeout-minutes allows; "
                 "slow I/O does not stop heartbeats; %s",
                 stopwatch->files, deadline, buffer_string(&peers));
    die_code(EXIT_CODE_HANG,
             "collective \"%s\" in group \"%s\" (rank %d of %d) has waited %.0f s, longer than "
             "--distributed-timeout-minutes allows; %s",
             request->name, group->name, group->rank, group->size, deadline, buffer_string(&peers));
}

void stopwatch_look(struct stopwatch *stopwatch, const struct comm_request *request) {
    const struct world *world = request->group->world;
    count_time(stopwatch, world);
    if (stopwatch->waited > FILE_SHARE * world->deadline_seconds && !stopwatch->has_left) {
        leave_file(request, stopwatch->files != NULL);
        stopwatch->has_left = true;
    }
    if (stopwatch->waited > world->deadline_seconds)
        give_up(stopwatch, request);
}

void stopwatch_reset(struct stopwatch *stopwatch, const struct world *world) {
    char *path = stopwatch->has_left ? hang_path(world, world->place.rank) : NULL;
    if (path)
        unlink(path);
    free(path);
    *stopwatch = (struct stopwatch){.files = stopwatch->files};
}
