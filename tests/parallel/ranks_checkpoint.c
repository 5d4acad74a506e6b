// Checkpoints that several ranks write at once: for every layout and number of writers the files hold the same whole
// tensors, and every other layout reads its slices and pieces from them. Run under mpirun.
// tier: all
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "formats/weights.h"
#include "parallel/mesh.h"
#include "parallel/param.h"
#include "store/checkpoint.h"
#include "store/manifest.h"
#include "store/temporary.h"
#include "test.h"

#include <signal.h>
#include <sys/resource.h>

static struct device *device;
static struct world *world;
static struct group *all;
static char folder[256];
enum { PARAMS = 7, GROUPS = 2, BUCKET = 256 };

static struct mesh meshes[8];  // by the number of ranks that share layers

// A model with a vocabulary that does not divide evenly, packed rows, a split of columns, and vectors; and a group of
// parameters that is split over data-parallel ranks and has its replicas on those that share layers. The values in its
// flat buffers encode name and place.
struct checkpoint_lab {
    struct mesh mesh;
    struct param_list params;
    struct pieces pieces[GROUPS];
    float *values, *moments[GROUPS];  // flat; this rank's pieces of a group
    struct checkpoint_tensor *model, *optimizer;
    char **names;
};

static float expected(int param, int64_t i, bool is_moment) {
    return (float)((is_moment ? 1000000 : 0) + 10000 * (param + 1)) + (float)(i % 9973);
}

static int64_t vocabulary = 97;

static const struct param_group across = {.name = "across",
                                          .replicas = AXES(AXIS_TENSOR) | AXES(AXIS_CONTEXT),
                                          .slices = AXES(AXIS_DATA),
                                          .lr_multiplier = 1};

static struct shard shard_of(int param, const struct mesh *mesh) {
    int parts = mesh->length[AXIS_TENSOR], part = mesh->place[AXIS_TENSOR];
    struct shard packed = shard_whole(2, 24, 5);
    packed.segment_count = 3;
    packed.segments[0] = 16;
    packed.segments[1] = packed.segments[2] = 4;
    switch (param) {
    case 0:
        return shard_split(shard_whole(2, vocabulary, 8), 0, parts, part);
    case 1:
        return shard_split(packed, 0, parts, part);
    case 2:
        return shard_split(shard_whole(2, 6, 20), 1, parts, part);
    case 3:
        return shard_whole(2, 11, 13);
    case 5:
        return shard_split(shard_whole(2, 45, 17), 0, mesh->length[AXIS_DATA], mesh->place[AXIS_DATA]);
    case 6:
        return shard_whole(2, 9, 31);
    default:
        return shard_whole(1, 300, 1);
    }
}

static void fill_slice(float *to, int param, const struct shard *shard, bool is_moment) {
    for (int64_t i = 0; i < shard_run_count(shard); i++) {
        struct shard_run run = shard_run(shard, i);
        for (int64_t n = 0; n < run.count; n++)
            to[run.local_offset + n] = expected(param, run.global_offset + n, is_moment);
    }
}

static struct checkpoint_tensor moment_of(struct checkpoint_lab *lab, int i, bool is_divided) {
    const struct param *param = lab->params.items[i];
    const struct pieces *pieces = &lab->pieces[param->group];
    struct checkpoint_tensor tensor = {
        .name = lab->names[i], .shard = &param->shard, .group = &lab->params.groups[param->group]};
    struct tensor local = tensor_1d(lab->moments[param->group], DTYPE_F32, pieces_local_count(pieces));
    tensor.tensor = param_at(param, local, param->offset - pieces->first);
    if (!is_divided)
        return tensor;
    struct piece run;
    int64_t first = -1, count = 0;
    for (int64_t at = param->offset, end = at + shard_local_count(&param->shard); pieces_next(pieces, &at, end, &run);
         count += run.count)
        first = first < 0 ? run.local_offset : first;
    tensor.tensor = tensor_rows(local, first < 0 ? 0 : first, count);
    tensor.pieces = pieces;
    tensor.offset = param->offset;
    return tensor;
}

static void open_lab(struct checkpoint_lab *lab, int parts, bool is_divided, bool is_filled) {
    *lab = (struct checkpoint_lab){0};
    lab->mesh = meshes[parts];
    for (int i = 0; i < PARAMS; i++) {
        char name[16];
        snprintf(name, sizeof name, "tensor%d", i);
        struct param *param = param_add(&lab->params, name, shard_of(i, &lab->mesh), INIT_ZERO, 0);
        param->group = i < 5 ? 0 : param_list_group(&lab->params, &across);
    }
    struct division divisions[GROUPS];
    for (int i = 0; i < GROUPS; i++) {
        struct group *replicas = mesh_group(&lab->mesh, lab->params.groups[i].replicas);
        divisions[i] = (struct division){.parts = is_divided ? group_size(replicas) : 1,
                                         .part = is_divided ? group_rank(replicas) : 0,
                                         .bucket = BUCKET};
    }
    pieces_divide(&lab->params, divisions, lab->pieces);
    int64_t total = lab->params.total;
    lab->values = memory_alloc(sizeof(float) * (size_t)total);
    for (int i = 0; i < GROUPS; i++)
        lab->moments[i] = memory_alloc(sizeof(float) * (size_t)pieces_local_count(&lab->pieces[i]));
    lab->model = memory_alloc(sizeof *lab->model * PARAMS);
    lab->optimizer = memory_alloc(sizeof *lab->optimizer * PARAMS);
    lab->names = memory_alloc(sizeof *lab->names * PARAMS);
    float *flat = memory_alloc(sizeof(float) * (size_t)total);
    for (int i = 0; i < PARAMS; i++) {
        const struct param *param = lab->params.items[i];
        lab->names[i] = memory_printf("exp_avg.%s", param->name);
        lab->model[i] =
            (struct checkpoint_tensor){.name = param->name,
                                       .tensor = param_in(param, tensor_1d(lab->values, DTYPE_F32, lab->params.total)),
                                       .shard = &param->shard,
                                       .group = &lab->params.groups[param->group]};
        lab->optimizer[i] = moment_of(lab, i, is_divided);
        if (is_filled) {
            fill_slice(lab->values + param->offset, i, &param->shard, false);
            fill_slice(flat + param->offset, i, &param->shard, true);
        }
    }
    struct piece run;
    for (int i = 0; i < GROUPS; i++)
        for (int64_t at = lab->pieces[i].first; pieces_next(&lab->pieces[i], &at, lab->params.groups[i].end, &run);)
            memcpy(lab->moments[i] + run.local_offset, flat + run.flat_offset, sizeof(float) * (size_t)run.count);
    free(flat);
}

static void close_lab(struct checkpoint_lab *lab) {
    for (int i = 0; i < PARAMS; i++)
        free(lab->names[i]);
    free(lab->names);
    free(lab->model);
    free(lab->optimizer);
    free(lab->values);
    for (int i = 0; i < GROUPS; i++)
        free(lab->moments[i]);
    param_list_free(&lab->params);
}

static struct checkpoint_state state = {.iteration = 1, .loss_scale = 1};
static int64_t keep_last = 1;

static int save_lab(const struct checkpoint_lab *lab, int64_t writers, bool is_background) {
    struct checkpoint_ranks ranks = {.mesh = &lab->mesh, .writers = writers};
    struct checkpoint_save save = {.folder = folder,
                                   .device = device,
                                   .model = lab->model,
                                   .model_count = PARAMS,
                                   .optimizer = lab->optimizer,
                                   .optimizer_count = PARAMS,
                                   .ranks = &ranks,
                                   .state = &state,
                                   .keep_last = keep_last};
    if (!is_background)
        return checkpoint_save(&save);
    struct checkpoint_job *job;
    TRY(checkpoint_save_start(&job, &save));
    // The saved values are those at the start of the save.
    lab->values[0] += 1;
    *lab->moments[0] += 1;
    int status = checkpoint_save_finish(job);
    lab->values[0] -= 1;
    *lab->moments[0] -= 1;
    return status;
}

// The files themselves, read without any knowledge of ranks.
static void check_files(int64_t iteration, int64_t writers) {
    char *path = checkpoint_path(folder, iteration), name[32];
    struct weights weights;
    EXPECT_OK(checkpoint_verify(path, false));
    EXPECT_OK(weights_open_checkpoint(&weights, path, "model"));
    // A writer of few tensors may have only the optimizer's.
    int64_t files = (int64_t)weights.safetensors_count;
    EXPECT(files <= writers && (files > 1 || writers == 1));
    EXPECT_INT((int64_t)weights.count, PARAMS);
    for (int i = 0; i < PARAMS; i++) {
        snprintf(name, sizeof name, "tensor%d", i);
        const struct weight *weight = weights_find(&weights, name);
        EXPECT(weight != NULL);
        float *values = memory_alloc(weight->bytes);
        EXPECT_OK(weight_read(weight, values));
        for (int64_t n = 0; n < (int64_t)(weight->bytes / sizeof(float)); n++)
            EXPECT(values[n] == expected(i, n, false));
        free(values);
    }
    weights_close(&weights);
    free(path);
}

// Another layout reads its part.
static void check_load(int64_t iteration, int parts, bool is_divided) {
    struct checkpoint_lab empty, filled;
    open_lab(&empty, parts, is_divided, false);
    open_lab(&filled, parts, is_divided, true);
    char *path = checkpoint_path(folder, iteration);
    struct checkpoint_load load = {
        .path = path, .part = CHECKPOINT_MODEL, .device = device, .tensors = empty.model, .count = PARAMS};
    EXPECT_OK(checkpoint_load_tensors(&load));
    load.part = CHECKPOINT_OPTIMIZER;
    load.tensors = empty.optimizer;
    EXPECT_OK(checkpoint_load_tensors(&load));
    EXPECT(memcmp(empty.values, filled.values, sizeof(float) * (size_t)filled.params.total) == 0);
    for (int i = 0; i < GROUPS; i++) {
        size_t bytes = sizeof(float) * (size_t)pieces_local_count(&filled.pieces[i]);
        EXPECT(memcmp(empty.moments[i], filled.moments[i], bytes) == 0);
    }
    free(path);
    close_lab(&empty);
    close_lab(&filled);
}

TEST(every_layout_writes_the_same_and_reads_any) {
    int size = group_size(all);
    for (int parts = 1; parts <= size; parts *= 2)
        for (int is_divided = 0; is_divided < 2; is_divided++)
            for (int64_t writers = 1; writers <= size; writers++) {
                struct checkpoint_lab lab;
                open_lab(&lab, parts, is_divided, true);
                EXPECT_OK(save_lab(&lab, writers, writers % 2 == 0));
                check_files(state.iteration, writers);
                for (int other = 1; other <= size; other *= 2) {
                    check_load(state.iteration, other, false);
                    check_load(state.iteration, other, true);
                }
                close_lab(&lab);
                comm_barrier(all, "read");
                state.iteration++;
            }
}

// Slices that do not fit in one message.
TEST(long_slices) {
    vocabulary = 1200007;
    for (int parts = 1; parts <= 2; parts++)
        for (int is_divided = 0; is_divided <= 1; is_divided++) {
            struct checkpoint_lab lab;
            open_lab(&lab, parts, is_divided, true);
            EXPECT_OK(save_lab(&lab, 1, false));
            check_files(state.iteration, 1);
            check_load(state.iteration, parts, is_divided);
            close_lab(&lab);
            comm_barrier(all, "read");
            state.iteration++;
        }
    vocabulary = 97;
}

// The last rank cannot write: no rank gets a new checkpoint, and all keep the old one.
TEST(one_rank_that_fails_is_everybodys_failure) {
    int rank = group_rank(all), size = group_size(all);
    for (int is_background = 0; is_background < 2; is_background++) {
        struct checkpoint_lab lab;
        open_lab(&lab, 2, true, true);
        EXPECT_OK(save_lab(&lab, size, false));
        int64_t good = state.iteration++;
        struct rlimit before, tight;
        getrlimit(RLIMIT_FSIZE, &before);
        tight = before;
        tight.rlim_cur = 64;
        signal(SIGXFSZ, SIG_IGN);
        if (rank == size - 1)
            setrlimit(RLIMIT_FSIZE, &tight);
        int status = save_lab(&lab, size, is_background);
        setrlimit(RLIMIT_FSIZE, &before);
        EXPECT_INT(status, -1);
        // All ranks know which one failed and why, and nothing half-written is left by then.
        char who[24];
        snprintf(who, sizeof who, "rank %d: ", size - 1);
        EXPECT(strstr(error_message(), who) == error_message());
        EXPECT(strstr(error_message(), "this process may write files of 64 bytes") != NULL);
        EXPECT(error_is_shared());
        EXPECT_INT(count_leftovers(folder), 0);
        char *path = NULL;
        int64_t found = -1;
        EXPECT_OK(checkpoint_find(&(struct checkpoint_find){.folder = folder, .step = -1}, &path, &found));
        EXPECT_INT(found, good);
        free(path);
        path = checkpoint_path(folder, state.iteration);
        EXPECT(!file_exists(path));
        free(path);
        comm_barrier(all, "seen");
        state.iteration++;
        close_lab(&lab);
    }
}

// Changes one byte in the middle of a file; the next call restores it.
static void damage(const char *path) {
    comm_barrier(all, "before damage");
    if (group_rank(all) == 0) {
        FILE *file = fopen(path, "r+b");
        EXPECT(file != NULL);
        EXPECT_INT(fseek(file, 0, SEEK_END), 0);
        long middle = ftell(file) / 2;
        EXPECT_INT(fseek(file, middle, SEEK_SET), 0);
        int byte = fgetc(file);
        EXPECT_INT(fseek(file, middle, SEEK_SET), 0);
        EXPECT_INT(fputc(byte ^ 1, file), byte ^ 1);
        EXPECT_INT(fclose(file), 0);
    }
    comm_barrier(all, "after damage");
}

// All ranks verify a checkpoint together: whichever file is damaged, all know it, and all fall back to the same older
// one; if that is damaged too, to the third.
TEST(damage_is_found_by_whoever_proves_the_file) {
    struct checkpoint_lab lab;
    open_lab(&lab, 1, true, true);
    keep_last = 0;
    int64_t first = state.iteration;
    for (int i = 0; i < 3; i++, state.iteration++)
        EXPECT_OK(save_lab(&lab, group_size(all), false));
    log_set_level(LOG_ERROR);
    char *newest = checkpoint_path(folder, first + 2), *middle = checkpoint_path(folder, first + 1);
    struct manifest manifest;
    EXPECT_OK(manifest_read(&manifest, newest));
    EXPECT((int)manifest.count > group_size(all));
    char *older = file_join(middle, "state.json");
    for (size_t f = 0; f < manifest.count; f++)
        for (int both = 0; both < 2; both++) {
            char *path = file_join(newest, manifest.files[f].name), *found = NULL;
            int64_t iteration = -1;
            damage(path);
            if (both)
                damage(older);
            struct checkpoint_find find = {.folder = folder, .step = -1, .allow_fallback = true, .all = all};
            EXPECT_OK(checkpoint_find(&find, &found, &iteration));
            EXPECT_INT(iteration, first + 1 - both);
            EXPECT(strcmp(found, middle) == 0 || both);
            free(found);
            find.step = first + 2;
            EXPECT_ERROR(checkpoint_find(&find, &found, &iteration), manifest.files[f].name);
            EXPECT_INT(error_exit_code(), EXIT_CODE_NO_CHECKPOINT);
            damage(path);
            if (both)
                damage(older);
            free(path);
        }
    int64_t iteration = -1;
    char *found = NULL;
    EXPECT_OK(checkpoint_find(&(struct checkpoint_find){.folder = folder, .step = -1, .all = all}, &found, &iteration));
    EXPECT_INT(iteration, first + 2);
    free(found);
    manifest_free(&manifest);
    free(newest);
    free(middle);
    free(older);
    close_lab(&lab);
    keep_last = 1;
}

int main(void) {
    const struct test_case cases[] = {
        TEST_CASE(every_layout_writes_the_same_and_reads_any),
        TEST_CASE(long_slices),
        TEST_CASE(one_rank_that_fails_is_everybodys_failure),
        TEST_CASE(damage_is_found_by_whoever_proves_the_file),
    };
    struct world_place place;
    if (world_start("mpi", &place) < 0 ||
        device_open(&device, &(struct device_options){.name = "cpu", .threads = 1}) < 0 ||
        world_open(&world, &(struct world_options){.backend = "mpi", .deadline_seconds = 300}, device) < 0) {
        printf("%s\n", error_message());
        return 1;
    }
    all = world_group_all(world);
    for (int parts = 1; parts <= place.size; parts *= 2) {
        int status = mesh_place(&meshes[parts], place.rank, place.size, (const int[AXIS_COUNT]){[AXIS_TENSOR] = parts});
        mesh_declare(&meshes[parts], across.replicas, "across");
        if (status < 0 || mesh_connect(&meshes[parts], world) < 0)
            return 1;
    }
    int64_t process = place.rank == 0 ? (int64_t)getpid() : 0;
    comm_max_i64(all, &process, 1, "folder");
    snprintf(folder, sizeof folder, "/tmp/bevatron-ranks-checkpoint-%lld", (long long)process);
    // A process of this number may have been killed before it removed it.
    if (place.rank == 0)
        (void)file_remove_tree(folder);
    comm_barrier(all, "folder");
    int status = test_main(cases, sizeof cases / sizeof cases[0]);
    comm_barrier(all, "end");
    if (place.rank == 0)
        file_remove_tree(folder);
    world_close(world);
    device_close(device);
    return status;
}
