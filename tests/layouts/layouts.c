// Trains on many layouts of ranks and compares each with one rank: the loss and the gradient norm of every step, and at
// the end all weights, each on the ranks that hold them.
//   layouts list                              all legal layouts, one per line
//   layouts show [LIST]                       the same for people, or those of a list
//   mpirun -n N layouts run LIST [FOLDER [FLAGS…]]    those of a list that have N ranks
// The results of one rank are stored in FOLDER for other calls. If ranks share sequences, the bytes they exchange are
// compared with the formula too.
#include "layouts.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "ops/device.h"
#include "config/config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Bytes that ranks that share sequences exchange. Keys and values of every layer are gathered in each forward pass and
// before its backward pass, and their gradients are reduce-scattered. Or heads are exchanged: queries, keys, values and
// results in each forward pass, their gradients in each backward pass. Or neighbours do the latter, and groups of them
// the former.
struct exchanged {
    int64_t gathered, scattered, exchanged;
};

static struct exchanged exchanged_so_far(const struct mesh *mesh) {
    const struct group *near = mesh->near_group ? mesh->near_group : mesh->group[AXIS_CONTEXT];
    const struct group *far = mesh->far_group ? mesh->far_group : mesh->group[AXIS_CONTEXT];
    return (struct exchanged){group_traffic(far, COLLECTIVE_ALL_GATHER).bytes,
                              group_traffic(far, COLLECTIVE_REDUCE_SCATTER).bytes,
                              group_traffic(near, COLLECTIVE_ALL_TO_ALL).bytes};
}

// The tokens of a sample, once for each layer that gathers or exchanges them. A decoder's cross-attention gathers the
// keys of the encoder's tokens.
static int64_t tokens_of_layers(const struct step *step, const struct config *config) {
    int64_t tokens = 0;
    for (int i = 0; i < step_params(step)->count; i++) {
        const char *name = step_params(step)->items[i]->name;
        if (strstr(name, "self_attention.linear_qkv.weight"))
            tokens += config->model.form == CONFIG_T5 && strncmp(name, "decoder", 7) == 0
                          ? config->run.decoder_seq_length
                          : config->run.seq_length;
        else if (strstr(name, "linear_kv.weight") || strstr(name, "linear_kv_up_proj.weight"))
            tokens += config->run.seq_length;
    }
    return tokens;
}

// How many times the forward pass of attention exchanges heads, or gathers keys, and how often it does so at least: if
// only some layers are recomputed, the others do it once less. If only attention is recomputed, the backward pass
// gathers its keys once for both. If latents are expanded again, heads are exchanged again, but not results.
struct forward_counts {
    int most, least;
};
static struct forward_counts forward_times(const struct layout *layout, bool of_heads) {
    const int *v = layout->value;
    bool is_full = v[LAYOUT_RECOMPUTE] == RECOMPUTE_FULL, is_block = v[LAYOUT_METHOD] == METHOD_BLOCK;
    bool is_kept = v[LAYOUT_METHOD] == METHOD_MORE && !of_heads;
    bool is_selective = of_heads && v[LAYOUT_RECOMPUTE] == RECOMPUTE_SELECTIVE;
    bool is_again = (is_full && !is_kept) || (is_selective && !is_block);
    bool has_more = is_selective && v[LAYOUT_MODEL] == MODEL_EXPERTS;
    return (struct forward_counts){is_again || has_more ? 2 : 1, is_again && !(is_full && is_block) ? 2 : 1};
}

static bool is_by_formula(const struct step *step, const struct config *config, const struct layout *layout,
                          const struct exchanged *found) {
    const int *v = layout->value;
    int64_t values = config->model.multi_latent_attention ? config->model.v_head_dim : config->model.kv_channels;
    int64_t keys = config_query_groups(&config->model) * config_kv_ranks(config) * (config->model.kv_channels + values);
    int64_t heads = config->model.num_attention_heads * (config->model.kv_channels + values) + keys;
    int64_t micro_batches = config->run.global_batch_size / config->run.micro_batch_size / v[LAYOUT_DATA];
    int64_t rows = STEPS * micro_batches * config->run.micro_batch_size * tokens_of_layers(step, config);
    int64_t bytes = rows * (int64_t)dtype_bytes(step_values(step).dtype) / v[LAYOUT_TENSOR];
    int near = layout_head_ranks(layout);
    // Of 1 / near of the heads, which a rank has of all tokens, keys are gathered.
    int64_t gathered = v[LAYOUT_CONTEXT] > near ? bytes * keys / near : 0;
    int64_t exchanged = near > 1 ? bytes * heads / v[LAYOUT_CONTEXT] : 0;
    struct forward_counts keys_times = forward_times(layout, false), heads_times = forward_times(layout, true);
    return found->scattered == gathered && found->gathered >= gathered * (keys_times.least + 1) &&
           found->gathered <= gathered * (keys_times.most + 1) &&
           found->exchanged >= exchanged * (heads_times.least + 1) &&
           found->exchanged <= exchanged * (heads_times.most + 1);
}

// Shared by all layouts of a call.
struct bench {
    struct device *device;
    struct world *world;
    const char *more;  // flags in addition to a layout's own
    struct references references;
    struct mesh **meshes;
    int mesh_count;
};

// Groups live as long as the world, so every mesh is made once.
static int mesh_for(struct bench *bench, const struct layout *layout, const struct config *config,
                    const struct mesh **result) {
    const int *v = layout->value;
    for (int i = 0; i < bench->mesh_count; i++) {
        const struct mesh *mesh = bench->meshes[i];
        *result = mesh;
        if (mesh->length[AXIS_TENSOR] == v[LAYOUT_TENSOR] && mesh->length[AXIS_CONTEXT] == v[LAYOUT_CONTEXT] &&
            mesh->near_ranks == config_near_ranks(config) && mesh_count(mesh, MESH_EXPERTS) == v[LAYOUT_EXPERT] &&
            mesh_count(mesh, MESH_EXPERT_SLICES) == v[LAYOUT_SLICES] &&
            mesh->length[AXIS_PIPELINE] == v[LAYOUT_PIPELINE] && mesh->kv_ranks == config_kv_ranks(config))
            return 0;
    }
    bench->meshes = memory_realloc(bench->meshes, sizeof(struct mesh *) * (size_t)(bench->mesh_count + 1));
    struct mesh *mesh = memory_alloc(sizeof *mesh);
    bench->meshes[bench->mesh_count++] = mesh;
    struct world_place place = world_place(bench->world);
    *result = mesh;
    TRY(mesh_place_config(mesh, place.rank, place.size, config));
    return mesh_connect(mesh, bench->world);
}

// All ranks agree: the largest difference of any of them.
static void share_difference(struct bench *bench, struct difference *found) {
    double *const numbers[] = {&found->loss, &found->norm, &found->weights, &found->elements};
    enum { NUMBERS = sizeof numbers / sizeof numbers[0] };
    // Non-negative doubles have the same order as their bits.
    int64_t bits[NUMBERS];
    for (int i = 0; i < NUMBERS; i++)
        memcpy(bits + i, numbers[i], sizeof *bits);
    comm_max_i64(world_group_all(bench->world), bits, NUMBERS, "differences");
    for (int i = 0; i < NUMBERS; i++)
        memcpy(numbers[i], bits + i, sizeof *bits);
}

// In fp32 one part in a hundred thousand. A run in 16 bits rounds every result, and each layout, which has different
// sums, rounds differently. How much that matters is known from one rank: as much as its run in 16 bits differs from
// its run in fp32, in the same slices, since slices of small values differ more. A layout whose ranks share layers or
// sequences also rounds its partial sums, so it may be up to three times as far from fp32 as one rank is, and four
// times as far from one rank.
static struct difference bounds_for(struct bench *bench, const struct layout *layout, const struct step *step) {
    int dtype = layout->value[LAYOUT_DTYPE];
    if (dtype == 0)
        return (struct difference){.loss = 1e-5, .norm = 1e-5, .weights = 1e-5, .elements = 1e-5};
    struct difference own = compare_references(step, reference_find(&bench->references, layout, dtype),
                                               reference_find(&bench->references, layout, 0), &bench->references);
    share_difference(bench, &own);
    return (struct difference){4 * own.loss, 4 * own.norm, 4 * own.weights, 4 * own.elements, ""};
}

// Trains, and checks that the ranks that share sequences exchanged what the formula says.
static int train_layout(struct bench *bench, const struct layout *layout, const struct config *config,
                        struct step **step, struct loss_history *history) {
    const struct mesh *mesh = NULL;
    TRY(mesh_for(bench, layout, config, &mesh));
    struct exchanged before = exchanged_so_far(mesh);
    TRY(setup_step(step, &(struct setup){config, bench->device, mesh, STEP_TRAIN}));
    step_initialize(*step);
    TRY(train(*step, config, history));
    struct exchanged after = exchanged_so_far(mesh);
    struct exchanged found = {after.gathered - before.gathered, after.scattered - before.scattered,
                              after.exchanged - before.exchanged};
    int64_t is_odd = !is_by_formula(*step, config, layout, &found);
    comm_max_i64(world_group_all(bench->world), &is_odd, 1, "volume");
    return (int)is_odd;
}

// Returns whether the layout gives the same as one rank; prints a line about it.
static bool check_layout(struct bench *bench, const struct layout *layout) {
    struct config config;
    struct step *step = NULL;
    struct loss_history history;
    char text[256];
    layout_describe(layout, text, sizeof text);
    double start = clock_seconds();
    int status = layout_config(&config, layout, bench->more);
    if (status == 0)
        status = train_layout(bench, layout, &config, &step, &history);
    if (status < 0)
        die("layout %d, %s: %s", layout->number, text, error_message());
    bool is_odd = status > 0;
    const struct reference *alone = reference_find(&bench->references, layout, layout->value[LAYOUT_DTYPE]);
    struct difference found = compare_run(step, &history, alone, &bench->references);
    struct difference bounds = bounds_for(bench, layout, step);
    double own = found.weights;
    share_difference(bench, &found);
    bool is_good = found.loss <= bounds.loss && found.norm <= bounds.norm && found.weights <= bounds.weights &&
                   found.elements <= bounds.elements;
    if (step_mesh(step)->rank == 0)
        printf("%s %d %s | loss %.1e, norm %.1e, weights %.1e, elements %.1e | %.2f s%s\n",
               is_good && !is_odd ? "ok  " : "FAIL", layout->number, text, found.loss, found.norm, found.weights,
               found.elements, clock_seconds() - start,
               is_odd ? " | other volume among ranks that share sequences than the formula's" : "");
    if (step_mesh(step)->rank == 0 && !is_good)
        printf("     allowed: loss %.1e, norm %.1e, weights %.1e, elements %.1e\n", bounds.loss, bounds.norm,
               bounds.weights, bounds.elements);
    if (own == found.weights && own > bounds.weights)
        printf("     %s differs most, on rank %d\n", found.worst, step_mesh(step)->rank);
    fflush(stdout);
    step_close(step);
    config_free(&config);
    return is_good && !is_odd;
}

static int read_list(struct layout_list *list, const char *path) {
    FILE *file = fopen(path, "r");
    if (!file)
        return error_set("cannot open %s", path);
    int status = layouts_read(list, file);
    fclose(file);
    return status;
}

// layouts run LIST [FOLDER [FLAGS…]]
static int run_layouts(int argc, char **argv) {
    struct bench bench = {0};
    struct world_place place;
    struct layout_list list;
    struct buffer more = {0};
    TRY(read_list(&list, argv[2]));
    TRY(world_start("mpi", &place));
    for (int i = 4; i < argc; i++)
        buffer_printf(&more, "%s ", argv[i]);
    bench.more = buffer_string(&more);
    TRY(device_open(&bench.device, &(struct device_options){.name = "cpu", .threads = 1}));
    TRY(world_open(&bench.world, &(struct world_options){.backend = "mpi", .deadline_seconds = 600}, bench.device));
    if (references_make(&bench.references, &list,
                        &(struct reference_makers){bench.world, bench.device, bench.more, argc > 3 ? argv[3] : NULL}) <
        0)
        die("one rank: %s", error_message());
    int failed = 0;
    for (int i = 0; i < list.count; i++)
        if (list.items[i].ranks == place.size)
            failed += !check_layout(&bench, &list.items[i]);
    if (place.rank == 0)
        printf("all layouts of %d ranks were tried\n", place.size);
    references_free(&bench.references);
    world_close(bench.world);
    for (int i = 0; i < bench.mesh_count; i++)
        free(bench.meshes[i]);
    free(bench.meshes);
    device_close(bench.device);
    layouts_free(&list);
    buffer_free(&more);
    return failed > 0 ? error_set("%d layouts differ", failed) : 0;
}

static int print_list(bool is_for_people, const char *path) {
    struct layout_list list;
    char text[256];
    TRY(path ? read_list(&list, path) : layouts_make(&list));
    if (!is_for_people)
        layouts_write(&list, stdout);
    for (int i = 0; is_for_people && i < list.count; i++) {
        layout_describe(&list.items[i], text, sizeof text);
        printf("%d %s%s\n", list.items[i].number, text, list.items[i].is_in_sample ? " (sample)" : "");
    }
    layouts_free(&list);
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    log_set_level(LOG_WARN);
    int status = strcmp(what, "list") == 0              ? print_list(false, NULL)
                 : strcmp(what, "show") == 0            ? print_list(true, argc > 2 ? argv[2] : NULL)
                 : strcmp(what, "run") == 0 && argc > 2 ? run_layouts(argc, argv)
                                                        : error_set("usage: layouts list|show|run …");
    if (status < 0)
        fprintf(stderr, "layouts: %s\n", error_message());
    return status < 0;
}
