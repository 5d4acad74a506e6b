// Trains on many layouts of ranks and compares each with one rank: the loss and the gradients' norm of every step, and
// all weights at the end, every rank those that it holds.
//   layouts list                    all legal layouts, one a line
//   layouts show LIST               the same for people
//   mpirun -n N layouts run LIST MODEL [sample] [FLAGS…]    those of N ranks
// The run on one rank is rank 0's, which tells the others what came of it. Where ranks share sequences, what travels
// among them is compared with the formula too.
#include "layouts.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "ops/device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 20, MOST_REFERENCES = 16 };

// A run and what came of it. The step stays open: it holds the weights.
struct run {
    struct config config;
    struct world *world;
    struct step *step;
    double losses[STEPS], pair_losses[STEPS], norms[STEPS];
};

// The largest differences to the run on one rank, relative.
struct difference {
    double loss, norm, weights;
    char worst[128];  // the tensor
};

static double relative(double value, double expected) {
    double scale = fabs(expected) > 1e-30 ? fabs(expected) : 1;
    return isfinite(value) ? fabs(value - expected) / scale : INFINITY;
}

static int open_run(struct run *run, struct device *device, const struct mesh *mesh) {
    TRY(step_open(&run->step, &run->config, device, mesh, STEP_TRAIN));
    step_initialize(run->step);
    return 0;
}

static int train(struct run *run) {
    const struct mesh *mesh = &run->step->mesh;
    struct samples samples;
    samples_open(&samples, &run->config, mesh->place[AXIS_DATA], mesh->length[AXIS_DATA]);
    int status = 0;
    for (int i = 0; i < STEPS && status == 0; i++) {
        struct step_source source = samples_step(&samples);
        status = step_train(run->step, &source, run->config.lr, 0.01);
        if (status == 0) {
            struct step_result result = step_result(run->step);
            run->losses[i] = result.loss;
            run->pair_losses[i] = result.pair_loss;
            run->norms[i] = result.grad_norm;
        }
    }
    step_settle(run->step);
    samples_close(&samples);
    return status;
}

static void tell(struct group *all, double values[STEPS]) {
    int64_t bits[STEPS];
    memcpy(bits, values, sizeof bits);
    comm_broadcast_i64(all, bits, STEPS, 0, "what one rank gave");
    memcpy(values, bits, sizeof bits);
}

// All ranks have the step; only rank 0 trains.
static int train_alone(struct run *run, const struct layout *layout, struct world *world, struct device *device,
                       const char *more) {
    struct mesh mesh;
    struct group *all = world_group_all(world);
    TRY(layout_config(&run->config, layout, true, more));
    TRY(world_open(&run->world, &(struct world_options){.backend = "self"}, device));
    TRY(mesh_place(&mesh, 0, 1, 1, 1, 1));
    TRY(mesh_connect(&mesh, run->world));
    TRY(open_run(run, device, &mesh));
    if (group_rank(all) == 0)
        TRY(train(run));
    comm_broadcast(all, run->step->values, 0, "weights of one rank");
    tell(all, run->losses);
    tell(all, run->pair_losses);
    tell(all, run->norms);
    return 0;
}

static void close_run(struct run *run) {
    step_close(run->step);
    if (run->world)
        world_close(run->world);
    config_free(&run->config);
}

// A parameter's values as this rank holds them, in fp32.
static float *values_of(const struct step *step, const struct param *param) {
    int64_t count = tensor_count(param->value);
    float *values = memory_alloc(sizeof *values * (size_t)(count + 1));
    if (param->value.dtype == DTYPE_F32) {
        device_copy_out(step->device, values, tensor_flat(param->value));
        return values;
    }
    struct tensor wide = tensor_1d(device_alloc(step->device, sizeof(float) * (size_t)(count + 1)), DTYPE_F32, count);
    op_copy(step->device, &(struct op_copy){.dst = wide, .src = tensor_flat(param->value)});
    device_copy_out(step->device, values, wide);
    device_free(step->device, wide.data);
    return values;
}

static const struct param *find(const struct step *step, const char *name) {
    for (int i = 0; i < step->params.count; i++)
        if (strcmp(step->params.items[i]->name, name) == 0)
            return step->params.items[i];
    die("one rank has no %s", name);
}

// The norm of a slice's difference, by the norm of what it should be.
static double slice_difference(const struct run *run, const struct param *param, const struct run *alone) {
    float *slice = values_of(run->step, param), *expected = values_of(alone->step, find(alone->step, param->name));
    double squares = 0, difference = 0;
    for (int64_t i = 0; i < shard_run_count(&param->shard); i++) {
        struct shard_run part = shard_run(&param->shard, i);
        for (int64_t n = 0; n < part.count; n++) {
            double value = (double)slice[part.local_offset + n], want = (double)expected[part.global_offset + n];
            squares += want * want;
            difference += (value - want) * (value - want);
        }
    }
    free(slice);
    free(expected);
    return isfinite(difference) ? sqrt(difference / (squares > 0 ? squares : 1)) : INFINITY;
}

static struct difference compare(const struct run *run, const struct run *alone) {
    struct difference found = {0};
    for (int i = 0; i < STEPS; i++) {
        found.loss = fmax(found.loss, relative(run->losses[i], alone->losses[i]));
        found.loss = fmax(found.loss, relative(run->pair_losses[i], alone->pair_losses[i]));
        found.norm = fmax(found.norm, relative(run->norms[i], alone->norms[i]));
    }
    for (int i = 0; i < run->step->params.count; i++) {
        const struct param *param = run->step->params.items[i];
        double most = slice_difference(run, param, alone);
        if (most > found.weights) {
            found.weights = most;
            snprintf(found.worst, sizeof found.worst, "%s", param->name);
        }
    }
    return found;
}

// What the ranks that share sequences give each other in one step, in bytes: keys and values of every layer are
// gathered in each forward pass and before its backward, and their gradients are scattered as sums.
struct exchanged {
    int64_t gathered, scattered;
};

static struct exchanged exchanged_so_far(const struct mesh *mesh) {
    const struct group *group = mesh->group[AXIS_CONTEXT];
    return (struct exchanged){group_traffic(group, COLLECTIVE_ALL_GATHER).bytes,
                              group_traffic(group, COLLECTIVE_REDUCE_SCATTER).bytes};
}

static struct exchanged exchanged_by_formula(const struct run *run, const struct layout *layout) {
    const struct config *config = &run->config;
    int64_t width = 2 * config_query_groups(config) * config->kv_channels / layout->value[LAYOUT_TENSOR];
    int64_t micro_batches = config->global_batch_size / config->micro_batch_size / layout->value[LAYOUT_DATA];
    int64_t tokens = 0;
    // A decoder's cross-attention gathers the keys of the encoder's tokens.
    for (int i = 0; i < run->step->params.count; i++) {
        const char *name = run->step->params.items[i]->name;
        if (strstr(name, "self_attention.linear_qkv.weight"))
            tokens += config_form(config) == CONFIG_T5 && strncmp(name, "decoder", 7) == 0 ? config->decoder_seq_length
                                                                                           : config->seq_length;
        else if (strstr(name, "linear_kv.weight"))
            tokens += config->seq_length;
    }
    int64_t once = micro_batches * config->micro_batch_size * tokens * width * (int64_t)dtype_bytes(run->step->dtype);
    bool is_recomputed = config->recompute_granularity && strcmp(config->recompute_granularity, "full") == 0;
    if (layout->value[LAYOUT_CONTEXT] == 1)
        once = 0;
    return (struct exchanged){once * STEPS * (is_recomputed ? 3 : 2), once * STEPS};
}

// What all layouts of a call share.
struct bench {
    struct device *device;
    struct world *world;
    const char *more;  // flags beside a layout's own
    struct difference bounds;
    struct run *references[MOST_REFERENCES];
    int reference_count;
    struct mesh meshes[MOST_REFERENCES * 4];
    int mesh_count;
};

// The run on one rank with a layout's global batch.
static int reference_for(struct bench *bench, const struct layout *layout, const struct run *like,
                         const struct run **result) {
    for (int i = 0; i < bench->reference_count; i++)
        if (bench->references[i]->config.global_batch_size == like->config.global_batch_size) {
            *result = bench->references[i];
            return 0;
        }
    CHECK(bench->reference_count < MOST_REFERENCES);
    struct run *alone = memory_alloc(sizeof *alone);
    bench->references[bench->reference_count++] = alone;
    *result = alone;
    return train_alone(alone, layout, bench->world, bench->device, bench->more);
}

// Groups live as long as the world, so every division of ranks is made once.
static int mesh_for(struct bench *bench, const struct layout *layout, const struct mesh **result) {
    const int *v = layout->value;
    for (int i = 0; i < bench->mesh_count; i++) {
        const int *length = bench->meshes[i].length;
        *result = &bench->meshes[i];
        if (length[AXIS_TENSOR] == v[LAYOUT_TENSOR] && length[AXIS_CONTEXT] == v[LAYOUT_CONTEXT] &&
            length[AXIS_PIPELINE] == v[LAYOUT_PIPELINE])
            return 0;
    }
    CHECK(bench->mesh_count < (int)(sizeof bench->meshes / sizeof bench->meshes[0]));
    struct mesh *mesh = &bench->meshes[bench->mesh_count++];
    struct world_place place = world_place(bench->world);
    *result = mesh;
    TRY(mesh_place(mesh, place.rank, place.size, v[LAYOUT_TENSOR], v[LAYOUT_CONTEXT], v[LAYOUT_PIPELINE]));
    return mesh_connect(mesh, bench->world);
}

// All ranks agree: the largest difference of any of them.
static void share_difference(struct bench *bench, struct difference *found) {
    // Non-negative doubles are ordered as their bits are.
    int64_t bits[3];
    memcpy(bits, &found->loss, sizeof *bits);
    memcpy(bits + 1, &found->norm, sizeof *bits);
    memcpy(bits + 2, &found->weights, sizeof *bits);
    comm_max_i64(world_group_all(bench->world), bits, 3, "differences");
    memcpy(&found->loss, bits, sizeof *bits);
    memcpy(&found->norm, bits + 1, sizeof *bits);
    memcpy(&found->weights, bits + 2, sizeof *bits);
}

// Returns whether the layout gives what one rank gives; says so in a line.
static bool check_layout(struct bench *bench, const struct layout *layout) {
    struct run run = {0};
    const struct run *alone = NULL;
    const struct mesh *mesh = NULL;
    char text[256];
    layout_describe(layout, text, sizeof text);
    double start = clock_seconds();
    int status = layout_config(&run.config, layout, false, bench->more);
    if (status == 0)
        status = reference_for(bench, layout, &run, &alone);
    if (status == 0)
        status = mesh_for(bench, layout, &mesh);
    struct exchanged before = status == 0 ? exchanged_so_far(mesh) : (struct exchanged){0};
    if (status == 0)
        status = open_run(&run, bench->device, mesh);
    if (status == 0)
        status = train(&run);
    if (status < 0)
        die("%s: %s", text, error_message());
    struct exchanged after = exchanged_so_far(mesh), want = exchanged_by_formula(&run, layout);
    int64_t is_odd =
        after.gathered - before.gathered != want.gathered || after.scattered - before.scattered != want.scattered;
    comm_max_i64(world_group_all(bench->world), &is_odd, 1, "volume");
    struct difference found = compare(&run, alone);
    double own = found.weights;
    share_difference(bench, &found);
    const struct difference *bounds = &bench->bounds;
    bool is_good = found.loss <= bounds->loss && found.norm <= bounds->norm && found.weights <= bounds->weights;
    if (mesh->rank == 0)
        printf("%s %s | loss %.1e, norm %.1e, weights %.1e | %.1f s%s\n", is_good && !is_odd ? "ok  " : "FAIL", text,
               found.loss, found.norm, found.weights, clock_seconds() - start,
               is_odd ? " | other volume among ranks that share sequences than the formula's" : "");
    if (own == found.weights && own > bounds->weights / 4)
        printf("     %s differs most, on rank %d\n", found.worst, mesh->rank);
    fflush(stdout);
    close_run(&run);
    return is_good && !is_odd;
}

// layouts run LIST MODEL [sample] [FLAGS…]
static int run_layouts(int argc, char **argv) {
    struct bench bench = {.more = ""};
    struct world_place place;
    struct layout_list list;
    FILE *file = argc > 3 ? fopen(argv[2], "r") : NULL;
    if (!file)
        return error_set("usage: layouts run LIST MODEL [sample] [FLAGS…]");
    int status = layouts_read(&list, file);
    fclose(file);
    TRY(status);
    TRY(world_start("mpi", &place));
    bool is_sample = argc > 4 && strcmp(argv[4], "sample") == 0;
    struct buffer more = {0};
    for (int i = is_sample ? 5 : 4; i < argc; i++)
        buffer_printf(&more, "%s ", argv[i]);
    bench.more = buffer_string(&more);
    // In bf16 a sum that is taken in another order may round to its neighbour, 8 bits behind the first. Weights that
    // begin with 0, the biases, are after 20 steps nothing but the sum of 20 such updates.
    bool is_half = strstr(bench.more, "--bf16") != NULL;
    bench.bounds = is_half ? (struct difference){.loss = 1e-3, .norm = 5e-2, .weights = 0.2}
                           : (struct difference){.loss = 1e-5, .norm = 1e-5, .weights = 1e-5};
    TRY(device_open(&bench.device, &(struct device_options){.name = "cpu", .threads = 1}));
    TRY(world_open(&bench.world, &(struct world_options){.backend = "mpi", .deadline_seconds = 600}, bench.device));
    int failed = 0, count = 0;
    for (int i = 0; i < list.count; i++) {
        const struct layout *layout = &list.items[i];
        const char *model = model_text((enum model_name)layout->value[LAYOUT_MODEL]);
        if (layout->ranks != place.size || strcmp(model, argv[3]) != 0 || (is_sample && !layout->is_in_sample))
            continue;
        failed += !check_layout(&bench, layout);
        count++;
    }
    if (place.rank == 0)
        printf("%d of %d layouts of %s on %d ranks as on one rank\n", count - failed, count, argv[3], place.size);
    for (int i = 0; i < bench.reference_count; i++) {
        close_run(bench.references[i]);
        free(bench.references[i]);
    }
    world_close(bench.world);
    device_close(bench.device);
    layouts_free(&list);
    buffer_free(&more);
    return failed > 0 ? error_set("%d layouts differ", failed) : 0;
}

static int print_list(bool is_for_people, const char *path) {
    struct layout_list list;
    FILE *file = path ? fopen(path, "r") : NULL;
    if (path && !file)
        return error_set("cannot open %s", path);
    TRY(path ? layouts_read(&list, file) : layouts_make(&list));
    if (file)
        fclose(file);
    char text[256];
    if (!is_for_people)
        layouts_write(&list, stdout);
    for (int i = 0; is_for_people && i < list.count; i++) {
        layout_describe(&list.items[i], text, sizeof text);
        printf("%s%s\n", text, list.items[i].is_in_sample ? " (sample)" : "");
    }
    layouts_free(&list);
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    log_set_level(LOG_WARN);
    int status = strcmp(what, "list") == 0               ? print_list(false, NULL)
                 : strcmp(what, "show") == 0 && argc > 2 ? print_list(true, argv[2])
                 : strcmp(what, "run") == 0              ? run_layouts(argc, argv)
                                                         : error_set("usage: layouts list|show|run …");
    if (status < 0)
        fprintf(stderr, "layouts: %s\n", error_message());
    return status < 0;
}
