// The files of waiting ranks, and what can be learnt from them. See hang.h.
#include "comm/hang.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/backend.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_LINE_BYTES = 1 << 16, NAMED_PEERS = 8 };

// What a peer's file says about a request of ours.
enum arrival { NO_FILE, NOT_COME, HAS_COME };

struct peer {
    enum arrival arrival;
    char *waits;  // "activations" in group "pipeline"; NULL if nothing is known. Owned
};

// The file of a rank, to be freed; NULL if the world has no folder for them.
static char *hang_path(const struct world *world, int rank) {
    return world->record_folder ? memory_printf("%s/flight-%d.jsonl", world->record_folder, rank) : NULL;
}

double hang_passed(const struct world *world, double seconds) {
    return fmin(seconds, fmin(1, world->deadline_seconds / 10));
}

// How long a rank that gives up has waited for the files of others.
struct patience {
    double waited, looked;
};

// Waits a little; false if that was long enough.
static bool is_patient(const struct world *world, struct patience *patience) {
    if (patience->waited >= fmin(5, world->deadline_seconds))
        return false;
    clock_sleep(0.1);
    double now = clock_seconds();
    patience->waited += hang_passed(world, now - patience->looked);
    patience->looked = now;
    return true;
}

static void write_first_line(const struct comm_request *request, struct group *const *groups, int count,
                             struct buffer *out) {
    const struct world *world = request->group->world;
    const struct watch *watch = groups == world->groups ? world->watch : NULL;  // a thread's own group it never sees
    struct json_writer json = {.out = out};
    json_begin_object(&json);
    json_key(&json, "rank");
    json_int(&json, world->place.rank);
    json_key(&json, "run");
    json_int(&json, hosts_run(world));
    json_key(&json, "waits for");
    json_cstring(&json, request->name);
    json_key(&json, "of group");
    json_cstring(&json, request->group->name);
    json_key(&json, "begun");
    json_begin_object(&json);
    for (int i = 0; i < count; i++) {
        if (groups[i]->size == 1)
            continue;
        json_key(&json, groups[i]->name);
        json_int(&json, watch_begun(watch, groups[i]));
    }
    json_end_object(&json);
    json_end_object(&json);
    buffer_append_byte(out, '\n');
}

static void leave(const struct world *world, struct buffer *content) {
    char *path = hang_path(world, world->place.rank);
    if (path && file_write_all(path, content->data, content->length) < 0)
        log_warn("the flight record is lost: %s", error_message());
    error_clear();
    free(path);
    buffer_free(content);
}

void hang_leave(const struct comm_request *request) {
    const struct world *world = request->group->world;
    if (!world->record_folder)
        return;
    struct buffer content = {0};
    char *text = NULL;
    size_t length = 0;
    write_first_line(request, world->groups, world->group_count, &content);
    FILE *record = open_memstream(&text, &length);
    if (record) {
        record_write(&world->record, world->place.rank, record);
        fclose(record);
        buffer_append(&content, text, length);
    }
    free(text);
    leave(world, &content);
}

void hang_leave_name(const struct comm_request *request) {
    struct buffer content = {0};
    write_first_line(request, &(struct group *){request->group}, 1, &content);
    leave(request->group->world, &content);
}

void hang_forget(const struct world *world) {
    char *path = hang_path(world, world->place.rank);
    if (path)
        unlink(path);
    free(path);
}

// The first line of a rank's file as JSON; NULL if there is none of this run.
static struct json *read_first_line(const struct world *world, int rank) {
    char *path = hang_path(world, rank), *line = memory_alloc(FIRST_LINE_BYTES);
    struct json *root = NULL;
    int64_t run = -1;
    FILE *file = path ? fopen(path, "r") : NULL;
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
    // Between two ranks there is nothing to count: what they send and receive differs.
    bool has_come = request->peer < 0 && begun && json_get_int(begun, group->name, &collectives) == 0 &&
                    collectives >= request->sequence;
    peer.arrival = has_come ? HAS_COME : NOT_COME;
    if (json_get_string(root, "waits for", &name) == 0 && json_get_string(root, "of group", &of) == 0)
        peer.waits = memory_printf("waits for \"%.64s\" in group \"%.64s\"", name, of);
    error_clear();
    json_free(root);
    return peer;
}

static bool is_waited_for(const struct comm_request *request, int i) {
    return i != request->group->rank && (request->peer < 0 || i == request->peer);
}

// How many of the others have arrived, and how many have not left a file yet.
static void look_at_all(const struct comm_request *request, struct peer *peers, int counts[HAS_COME + 1]) {
    for (int i = 0; i <= HAS_COME; i++)
        counts[i] = 0;
    for (int i = 0; i < request->group->size; i++) {
        if (!is_waited_for(request, i))
            continue;
        free(peers[i].waits);
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

// Those whom we wait for wait for others themselves; at the end of that chain is a rank that does not. `patience` is
// for ranks that wait, too, and have not come to say so.
static void describe_silent(const struct world *world, struct patience *patience, struct buffer *out) {
    bool *is_silent = memory_alloc(sizeof *is_silent * (size_t)world->place.size);
    for (int rank = 0; rank < world->place.size; rank++)
        is_silent[rank] = rank != world->place.rank;
    int silent = ask_silent(world, is_silent), named = 0;
    while (silent > 0 && is_patient(world, patience))
        silent = ask_silent(world, is_silent);
    for (int rank = 0; rank < world->place.size && named < NAMED_PEERS; rank++) {
        if (!is_silent[rank])
            continue;
        buffer_printf(out, "%s", named++ ? ", " : "; of the whole run these left no record: ");
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
        buffer_printf(out, "another rank is lost or stuck: which one is not known");
        return;
    }
    struct peer *peers = memory_alloc(sizeof *peers * (size_t)group->size);
    int counts[HAS_COME + 1] = {0};
    struct patience patience = {.looked = clock_seconds()};
    if (world->record_folder)
        for (look_at_all(request, peers, counts); counts[NO_FILE] > 0 && is_patient(world, &patience);)
            look_at_all(request, peers, counts);
    bool all_have_come = counts[NO_FILE] + counts[NOT_COME] == 0;
    if (world->record_folder && all_have_come) {
        buffer_printf(out, "all of its ranks have come, so the network between them or a device is stuck: ");
        describe_peers(request, peers, true, out);
    } else if (world->record_folder) {
        buffer_printf(out, "%d of the others have come; lost or stuck: ", counts[HAS_COME]);
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

void hang_give_up(const struct comm_request *request) {
    const struct group *group = request->group;
    struct buffer peers = {0};
    char *path = hang_path(group->world, group->world->place.rank);
    if (path)
        log_error("the last %d collectives of this rank are in %s", RECORD_ENTRIES, path);
    hang_describe(request, &peers);
    die_code(EXIT_CODE_HANG,
             "collective \"%s\" in group \"%s\" (rank %d of %d) has waited %.0f s, longer than "
             "--distributed-timeout-minutes allows; %s",
             request->name, group->name, group->rank, group->size, group->world->deadline_seconds,
             buffer_string(&peers));
}
