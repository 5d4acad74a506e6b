// The results of one rank, with which all layouts are compared. See layouts.h.
#include "layouts.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"

#include <stdlib.h>

int train(struct step *step, const struct config *config, struct loss_history *history) {
    struct samples samples;
    const struct mesh *mesh = step_mesh(step);
    samples_open(&samples, config, mesh_index(mesh, mesh->place, MESH_SAMPLES), mesh_count(mesh, MESH_SAMPLES));
    int status = 0;
    for (int i = 0; i < STEPS && status == 0; i++) {
        struct step_source source = samples_step(&samples);
        status = step_train(step, &source, config->run.lr, 0.01);
        if (status == 0) {
            struct step_result result = step_result(step);
            history->loss[i] = result.loss;
            history->other_loss[i] = result.pair_loss;
            for (int kind = 0; kind < BALANCE_COUNT; kind++)
                history->other_loss[i] += result.balance[kind];
            for (int depth = 0; depth < result.depths; depth++)
                history->other_loss[i] += result.depth_losses[depth];
            history->norm[i] = result.grad_norm;
        }
    }
    step_settle(step);
    samples_close(&samples);
    return status;
}

static int open_alone(struct step **step, const struct config *config, struct world *world, struct device *device) {
    struct mesh mesh;
    TRY(mesh_place(&mesh, 0, 1, NULL));
    TRY(mesh_connect(&mesh, world));
    TRY(setup_step(step, &(struct setup){config, device, &mesh, STEP_TRAIN}));
    step_initialize(*step);
    return 0;
}

static int64_t value_count(const struct references *references, const struct reference *reference) {
    return step_params(references->steps[reference->model])->total;
}

static int train_alone(struct references *references, struct reference *reference, struct device *device,
                       const char *more) {
    struct config config;
    struct step *step = NULL;
    int status = reference_config(&config, reference, more);
    if (status == 0)
        status = open_alone(&step, &config, references->world, device);
    if (status == 0)
        status = train(step, &config, &reference->history);
    if (status == 0) {
        CHECK(step_params(step)->total == value_count(references, reference));
        struct tensor wide = tensor_1d(reference->values, DTYPE_F32, step_params(step)->total);
        op_copy(device, &(struct op_copy){.dst = wide, .src = step_values(step)});
    }
    if (step)
        step_close(step);
    config_free(&config);
    return status;
}

static char *path_of(const struct reference *reference, const char *folder) {
    return memory_printf("%s/alone.%d.%d.%lld.%lld", folder, reference->model, reference->dtype,
                         (long long)reference->global_batch, (long long)reference->micro_batch);
}

static bool is_read(const struct references *references, struct reference *reference, const char *folder) {
    char *path = path_of(reference, folder);
    FILE *file = fopen(path, "rb");
    size_t count = (size_t)value_count(references, reference);
    bool is_whole = file && fread(&reference->history, sizeof reference->history, 1, file) == 1 &&
                    fread(reference->values, sizeof *reference->values, count, file) == count;
    if (file)
        fclose(file);
    free(path);
    return is_whole;
}

// Several calls may write the same file at once, so it appears complete or not at all.
static int keep(const struct references *references, const struct reference *reference, const char *folder) {
    char *path = path_of(reference, folder), *temporary = memory_printf("%s.XXXXXX", path);
    size_t count = (size_t)value_count(references, reference);
    int descriptor = mkstemp(temporary);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "wb") : NULL;
    bool is_good = file && fwrite(&reference->history, sizeof reference->history, 1, file) == 1 &&
                   fwrite(reference->values, sizeof *reference->values, count, file) == count;
    is_good = (!file || fclose(file) == 0) && is_good && rename(temporary, path) == 0;
    int status = is_good ? 0 : error_set("cannot write %s; is the disk full?", path);
    free(temporary);
    free(path);
    return status;
}

const struct reference *reference_find(const struct references *references, const struct layout *layout, int dtype) {
    for (int i = 0; i < references->count; i++) {
        const struct reference *reference = &references->items[i];
        if (reference->model == layout->value[LAYOUT_MODEL] && reference->dtype == dtype &&
            reference->global_batch == layout_global_batch(layout) &&
            reference->micro_batch == layout_micro_batch(layout))
            return reference;
    }
    return NULL;
}

int64_t reference_offset(const struct references *references, int model, const char *name) {
    const struct param *param = param_find(step_params(references->steps[model]), name);
    CHECK(param);
    return param->offset;
}

static int add(struct references *references, const struct layout *layout, int dtype, struct device *device,
               const char *more) {
    int model = layout->value[LAYOUT_MODEL];
    if (reference_find(references, layout, dtype))
        return 0;
    references->items = memory_realloc(references->items, sizeof *references->items * (size_t)(references->count + 1));
    struct reference *reference = &references->items[references->count++];
    *reference = (struct reference){
        .model = model, .global_batch = layout_global_batch(layout), .micro_batch = layout_micro_batch(layout)};
    if (!references->steps[model]) {
        TRY(reference_config(&references->configs[model], reference, more));
        TRY(open_alone(&references->steps[model], &references->configs[model], references->world, device));
    }
    reference->dtype = dtype;
    reference->values = memory_alloc(sizeof *reference->values * (size_t)value_count(references, reference));
    return 0;
}

static void tell(const struct references *references, struct reference *reference, struct group *all, int owner) {
    enum { NUMBERS = sizeof reference->history / sizeof(int64_t) };
    comm_broadcast_i64(all, (int64_t *)(void *)&reference->history, NUMBERS, owner, "what one rank gave");
    comm_broadcast(all, tensor_1d(reference->values, DTYPE_F32, value_count(references, reference)), owner,
                   "weights of one rank");
}

int references_make(struct references *references, const struct layout_list *list, const struct reference_makers *by) {
    struct world_place place = world_place(by->world);
    *references = (struct references){0};
    TRY(world_open(&references->world, &(struct world_options){.backend = "self"}, by->device));
    for (int i = 0; i < list->count; i++) {
        const struct layout *layout = &list->items[i];
        if (layout->ranks != place.size)
            continue;
        TRY(add(references, layout, 0, by->device, by->more));
        TRY(add(references, layout, layout->value[LAYOUT_DTYPE], by->device, by->more));
    }
    for (int i = 0; i < references->count; i++) {
        struct reference *reference = &references->items[i];
        if (i % place.size != place.rank || (by->folder && is_read(references, reference, by->folder)))
            continue;
        TRY(train_alone(references, reference, by->device, by->more));
        if (by->folder)
            TRY(keep(references, reference, by->folder));
    }
    for (int i = 0; i < references->count; i++)
        tell(references, &references->items[i], world_group_all(by->world), i % place.size);
    return 0;
}

void references_free(struct references *references) {
    for (int i = 0; i < references->count; i++)
        free(references->items[i].values);
    free(references->items);
    for (int model = 0; model < MODEL_COUNT; model++)
        if (references->steps[model]) {
            step_close(references->steps[model]);
            config_free(&references->configs[model]);
        }
    world_close(references->world);
}
