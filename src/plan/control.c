// Counts of src/comm/tcp.c, mesh_connect, rank_report.c and checkpoint/save.c, times what the hub pays. See control.h.
#include "plan/control.h"

const char *const control_names[CONTROL_PHASES] = {"join", "addresses", "hosts", "groups", "log_line", "save"};

// CPU time of the hub, bench_star with 64 to 512 processes (2026-11-17, 2 shared cores): 15 to 22 us for a rank that
// joins, 4 to 10 us for a rank's row and its answer, 3 to 6 GB/s of answers.
static const double JOIN_SECONDS = 18e-6, MESSAGE_SECONDS = 8e-6, BYTES_PER_SECOND = 5e9;

// Numbers of 8 bytes in the row of a rank.
enum { ADDRESS_WORDS = 4, HOST_WORDS = 12, PORT_WORDS = 1, LOG_WORDS = 8, SAVE_WORDS = 12 };

static double star_bytes(int ranks, int words) {
    return 8.0 * words * ranks * ranks;
}

static struct control_cost table_cost(int ranks, int words) {
    double bytes = star_bytes(ranks, words);
    return (struct control_cost){bytes, ranks * MESSAGE_SECONDS + bytes / BYTES_PER_SECOND};
}

// The calls of world_group in mesh_connect.
static int count_groups(const struct mesh *mesh) {
    enum { LINK_ROUNDS = 3, LINK_WAYS = 2 };
    return AXIS_COUNT + mesh->set_count + (mesh->length[AXIS_PIPELINE] > 1 ? LINK_ROUNDS * LINK_WAYS : 0);
}

// Groups of one call are disjoint, so that they join beside each other: the largest is the last.
static double join_groups_seconds(const struct mesh *mesh) {
    double ranks = 0;
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        ranks += mesh->length[axis];
    for (int i = 0; i < mesh->set_count; i++)
        ranks += mesh_count(mesh, mesh->sets[i].axes);
    return ranks * JOIN_SECONDS;
}

void control_plan(const struct mesh *mesh, struct control_cost costs[CONTROL_PHASES]) {
    int ranks = mesh->size, groups = count_groups(mesh);
    struct control_cost ports = table_cost(ranks, PORT_WORDS);
    costs[CONTROL_JOIN] = (struct control_cost){0, ranks * JOIN_SECONDS};
    costs[CONTROL_ADDRESSES] = table_cost(ranks, ADDRESS_WORDS);
    costs[CONTROL_HOSTS] = table_cost(ranks, HOST_WORDS);
    costs[CONTROL_GROUPS] =
        (struct control_cost){groups * ports.bytes, groups * ports.seconds + join_groups_seconds(mesh)};
    costs[CONTROL_LOG] = table_cost(ranks, LOG_WORDS);
    costs[CONTROL_SAVE] = table_cost(ranks, SAVE_WORDS);
}

double control_start_seconds(const struct control_cost costs[CONTROL_PHASES]) {
    double seconds = 0;
    for (int i = 0; i <= CONTROL_GROUPS; i++)
        seconds += costs[i].seconds;
    return seconds;
}
