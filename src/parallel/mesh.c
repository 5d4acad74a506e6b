// The grid of ranks and its groups. See mesh.h.
#include "parallel/mesh.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/memory.h"
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A new axis is an entry of enum axis, a row here and, unless it is in MESH_SAMPLES, a factor of config_model_ranks.
// Its ranks read the same samples and sum their gradients, so something must be split along it: see
// docs/internals/parallel.md.
static const struct {
    const char *name;
    size_t length;  // int64_t in struct config
} axes[AXIS_COUNT] = {
    [AXIS_TENSOR] = {"tensor", offsetof(struct config, machine.tensor_model_parallel_size)},
    [AXIS_CONTEXT] = {"context", offsetof(struct config, machine.context_parallel_size)},
    [AXIS_DATA] = {"data", 0},  // what the other axes leave
    [AXIS_PIPELINE] = {"pipeline", offsetof(struct config, machine.pipeline_model_parallel_size)},
};

const char *mesh_axis_name(enum axis axis) {
    return axes[axis].name;
}

static int refuse(const struct mesh *mesh, int model) {
    struct buffer text = {0};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        if (axis != AXIS_DATA)
            buffer_printf(&text, "%s%s %d", text.length > 0 ? " × " : "", axes[axis].name, mesh->length[axis]);
    error_set("%d ranks cannot be split into %s; start a multiple of %d ranks or change the --*-parallel-size flags",
              mesh->size, buffer_string(&text), model);
    buffer_free(&text);
    return -1;
}

int mesh_place(struct mesh *mesh, int rank, int size, const int length[AXIS_COUNT]) {
    *mesh = (struct mesh){.rank = rank, .size = size, .kv_ranks = 1, .near_ranks = 1};
    int model = 1;
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        mesh->length[axis] = length && length[axis] != 0 && axis != AXIS_DATA ? length[axis] : 1;
        model *= mesh->length[axis];
    }
    if (model <= 0 || size % model != 0)
        return refuse(mesh, model);
    mesh->length[AXIS_DATA] = size / model;
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        for (int part = 0; part < AXIS_PARTS; part++)
            mesh->parts[axis][part] = 1;
        mesh->parts[axis][axis == AXIS_TENSOR ? AXIS_SPLITS : AXIS_COPIES] = mesh->length[axis];
    }
    mesh_move(mesh, mesh->place, MESH_ALL, rank);
    mesh_declare(mesh, MESH_REPLICAS, "replicas");
    mesh_declare(mesh, MESH_STAGE, "stage");
    return 0;
}

bool mesh_deals_experts(const struct mesh *mesh) {
    return mesh_count(mesh, MESH_EXPERTS) > 1 || mesh_count(mesh, MESH_EXPERT_SLICES) != mesh->length[AXIS_TENSOR];
}

static int deal_experts(struct mesh *mesh, const struct config *config) {
    struct config_expert_ranks ranks;
    if (config_expert_ranks(config, mesh->length[AXIS_DATA], &ranks) < 0)
        return error_set("--expert-model-parallel-size %d × --expert-tensor-parallel-size %d does not fit tensor %d × "
                         "context %d × data %d ranks; make it a divisor, e.g. 1",
                         (int)config->machine.expert_model_parallel_size, (int)config_expert_slices(config),
                         mesh->length[AXIS_TENSOR], mesh->length[AXIS_CONTEXT], mesh->length[AXIS_DATA]);
    const int dealt[] = {
        [AXIS_TENSOR] = (int)ranks.tensor, [AXIS_CONTEXT] = (int)ranks.context, [AXIS_DATA] = (int)ranks.data};
    mesh->parts[AXIS_TENSOR][AXIS_SPLITS] = (int)config_expert_slices(config);
    for (int axis = 0; axis <= AXIS_DATA; axis++) {
        mesh->parts[axis][AXIS_DEALS] = dealt[axis];
        mesh->parts[axis][AXIS_COPIES] = mesh->length[axis] / mesh->parts[axis][AXIS_SPLITS] / dealt[axis];
    }
    if (!mesh_deals_experts(mesh))
        return 0;
    mesh_declare(mesh, MESH_EXPERT_SLICES, "ranks that split experts");
    mesh_declare(mesh, MESH_EXPERTS, "ranks that share out experts");
    mesh_declare(mesh, MESH_SAME_EXPERTS, "ranks with the same slices of experts");
    mesh_declare(mesh, MESH_STAGE & ~MESH_SAME_EXPERTS, "ranks with other slices of experts");
    mesh_declare(mesh, MESH_STAGE & ~MESH_EXPERTS, "ranks with the same experts");
    return 0;
}

int mesh_place_config(struct mesh *mesh, int rank, int size, const struct config *config) {
    int length[AXIS_COUNT];
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        length[axis] = axis == AXIS_DATA ? 0 : (int)*(const int64_t *)((const char *)config + axes[axis].length);
    TRY(mesh_place(mesh, rank, size, length));
    TRY(deal_experts(mesh, config));
    mesh->kv_ranks = (int)config_kv_ranks(config);
    mesh->near_ranks = (int)config_near_ranks(config);
    CHECK(mesh_count(mesh, MESH_SAMPLES) * config_model_ranks(config) == size);  // batch sizes use the latter
    return 0;
}

int mesh_count(const struct mesh *mesh, unsigned along) {
    int count = 1;
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        for (int part = 0; part < AXIS_PARTS; part++)
            count *= along & AXIS_PART(axis, part) ? mesh->parts[axis][part] : 1;
    return count;
}

int mesh_index(const struct mesh *mesh, const int place[AXIS_COUNT], unsigned along) {
    int index = 0, stride = 1;
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        CHECK(place[axis] >= 0 && place[axis] < mesh->length[axis]);
        for (int part = 0, rest = place[axis]; part < AXIS_PARTS; rest /= mesh->parts[axis][part++])
            if (along & AXIS_PART(axis, part)) {
                index += stride * (rest % mesh->parts[axis][part]);
                stride *= mesh->parts[axis][part];
            }
    }
    return index;
}

void mesh_move(const struct mesh *mesh, int place[AXIS_COUNT], unsigned along, int index) {
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        int moved = 0, stride = 1;
        for (int part = 0; part < AXIS_PARTS; part++) {
            int length = mesh->parts[axis][part];
            // Moving along all parts of an axis does not need its place, which may be undefined.
            int digit = (along & AXES(axis)) == AXES(axis) ? 0 : place[axis] / stride % length;
            if (along & AXIS_PART(axis, part)) {
                digit = index % length;
                index /= length;
            }
            moved += stride * digit;
            stride *= length;
        }
        if (along & AXES(axis))
            place[axis] = moved;
    }
}

int mesh_rank_at(const struct mesh *mesh, const int place[AXIS_COUNT]) {
    return mesh_index(mesh, place, MESH_ALL);
}

void mesh_declare(struct mesh *mesh, unsigned along, const char *name) {
    CHECK(mesh->set_count < MESH_MOST_SETS);
    mesh->sets[mesh->set_count++] = (struct mesh_set){.axes = along, .name = name};
}

struct group *mesh_group(const struct mesh *mesh, unsigned along) {
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        if (along == AXES(axis))
            return mesh->group[axis];
    for (int i = 0; i < mesh->set_count; i++)
        if (along == mesh->sets[i].axes)
            return mesh->sets[i].group;
    die("no group of ranks was declared along the axes %#x", along);
}

// Creates the group of ranks that differ from this one only along the given axes.
static int connect(struct mesh *mesh, struct world *world, struct group **group, unsigned along, const char *name) {
    int count = mesh_count(mesh, along), place[AXIS_COUNT];
    int *ranks = memory_alloc(sizeof(int) * (size_t)count);
    memcpy(place, mesh->place, sizeof place);
    for (int i = 0; i < count; i++) {
        mesh_move(mesh, place, along, i);
        ranks[i] = mesh_rank_at(mesh, place);
    }
    int status = world_group(world, group, ranks, count, name);
    free(ranks);
    return status;
}

// Some ranks along an axis: `count` of them, `stride` apart.
struct rank_line {
    enum axis axis;
    int first, stride, count;
    const char *name;
};
static int connect_line(const struct mesh *mesh, struct world *world, struct group **group,
                        const struct rank_line *line) {
    int place[AXIS_COUNT];
    int *ranks = memory_alloc(sizeof(int) * (size_t)line->count);
    memcpy(place, mesh->place, sizeof place);
    for (int i = 0; i < line->count; i++) {
        place[line->axis] = line->first + i * line->stride;
        ranks[i] = mesh_rank_at(mesh, place);
    }
    int status = world_group(world, group, ranks, line->count, line->name);
    free(ranks);
    return status;
}

// Creates the group of tensor-parallel ranks that share this one's heads of keys and values.
static int connect_kv(struct mesh *mesh, struct world *world) {
    int count = mesh->kv_ranks;
    if (count == 1)
        return 0;
    CHECK(mesh->length[AXIS_TENSOR] % count == 0);
    const struct rank_line line = {AXIS_TENSOR, mesh->place[AXIS_TENSOR] / count * count, 1, count,
                                   "ranks that share keys and values"};
    return connect_line(mesh, world, &mesh->kv_group, &line);
}

// Creates the groups of context-parallel ranks that exchange heads with this one, or gather keys of the same heads.
static int connect_near(struct mesh *mesh, struct world *world) {
    int count = mesh->near_ranks, place = mesh->place[AXIS_CONTEXT], all = mesh->length[AXIS_CONTEXT];
    if (count == 1)
        return 0;
    CHECK(all % count == 0 && all > count);
    const struct rank_line near = {AXIS_CONTEXT, place / count * count, 1, count, "neighbours that exchange heads"};
    const struct rank_line far = {AXIS_CONTEXT, place % count, count, all / count, "ranks with the same heads"};
    TRY(connect_line(mesh, world, &mesh->near_group, &near));
    return connect_line(mesh, world, &mesh->far_group, &far);
}

// The rank at another stage of this one's pipeline.
static int rank_of_stage(const struct mesh *mesh, int stage) {
    int place[AXIS_COUNT];
    memcpy(place, mesh->place, sizeof place);
    place[AXIS_PIPELINE] = stage;
    return mesh_rank_at(mesh, place);
}

// Pairs of stages (p, p + 1) that are created in one call must be disjoint: even p, odd p and, if the number of stages
// is odd, the last with the first.
static int round_of(const struct mesh *mesh, int stage) {
    int stages = mesh->length[AXIS_PIPELINE];
    return stage == stages - 1 && stages % 2 != 0 ? 2 : stage % 2;
}

static int connect_links(struct mesh *mesh, struct world *world) {
    int stages = mesh->length[AXIS_PIPELINE], mine = mesh->place[AXIS_PIPELINE];
    int before = (mine + stages - 1) % stages;
    for (int round = 0; stages > 1 && round < 3; round++) {
        bool begins = round_of(mesh, mine) == round, ends = round_of(mesh, before) == round;
        int first = begins ? mine : before, second = (first + 1) % stages;
        int forward[2] = {rank_of_stage(mesh, first), rank_of_stage(mesh, second)};
        int backward[2] = {forward[1], forward[0]};
        int count = begins || ends ? 2 : 0;
        struct group *groups[2];
        char name[2][64];
        snprintf(name[0], sizeof name[0], "activations, stage %d to %d", first, second);
        snprintf(name[1], sizeof name[1], "activation gradients, stage %d to %d", second, first);
        TRY(world_group(world, &groups[0], forward, count, name[0]));
        TRY(world_group(world, &groups[1], backward, count, name[1]));
        if (count > 0) {
            comm_connect(groups[0]);
            comm_connect(groups[1]);
            mesh->links[begins ? LINK_FORWARD_OUT : LINK_FORWARD_IN] = groups[0];
            mesh->links[begins ? LINK_BACKWARD_IN : LINK_BACKWARD_OUT] = groups[1];
        }
    }
    return 0;
}

// Names must differ: in hang reports, ranks look up each other's progress in a group by its name.
int mesh_connect(struct mesh *mesh, struct world *world) {
    mesh->all = world_group_all(world);
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        TRY(connect(mesh, world, &mesh->group[axis], AXES(axis), axes[axis].name));
    for (int i = 0; i < mesh->set_count; i++)
        TRY(connect(mesh, world, &mesh->sets[i].group, mesh->sets[i].axes, mesh->sets[i].name));
    mesh->replicas = mesh_group(mesh, MESH_REPLICAS);
    mesh->stage = mesh_group(mesh, MESH_STAGE);
    TRY(connect_kv(mesh, world));
    TRY(connect_near(mesh, world));
    return connect_links(mesh, world);
}

int mesh_open_twin(struct mesh *paper, struct world **world, const struct mesh *mesh, struct device *device) {
    *paper = *mesh;
    TRY(world_open_twin(world, device, mesh->rank, mesh->size));
    return mesh_connect(paper, *world);
}
