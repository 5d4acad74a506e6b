// Runs a model of --load on the samples of a file: its logits. With --gradients, also the gradients of the first
// micro-batch, and of --train-iters updates the losses (the last column is the auxiliary loss of experts), norms of
// gradients and weights, for peers to compare with another program. The samples are arrays of a safetensors file
// (tokens, labels, mask; types, lengths, decoder_tokens, pair_labels if the model has them), one micro-batch after
// another. Gradients and weights are written as our checkpoints, --gradients and --save, so that `checkpoint convert`
// gives them the names and the packing of the other program. Arithmetic is fp32.
#include "base/error.h"
#include "base/memory.h"
#include "plan/setup.h"
#include "store/safetensors.h"
#include "train/state.h"
#include <stdio.h>
#include <stdlib.h>

struct asked {
    struct flag_given given;
    char *samples, *logits, *gradients;
    struct config config;
};

static const struct flag own_flags[] = {
    {.name = "Files", .type = FLAG_GROUP},
    {.name = "--samples", .type = FLAG_STRING, .offset = offsetof(struct asked, samples), .help = "file to read"},
    {.name = "--logits", .type = FLAG_STRING, .offset = offsetof(struct asked, logits), .help = "file of floats"},
    {.name = "--gradients", .type = FLAG_STRING, .offset = offsetof(struct asked, gradients), .help = "folder"},
};

struct file_feed {
    const struct safetensors *file;
    const struct config *config;
    int64_t next;  // sample of the next micro-batch
};

static void *rows(const struct file_feed *feed, const char *name) {
    const struct safetensors_tensor *found = safetensors_find(feed->file, name);
    return found ? (void *)(found->data + found->bytes / (size_t)found->shape[0] * (size_t)feed->next) : NULL;
}

static int next_input(void *context, struct batch *input) {
    struct file_feed *feed = context;
    static int64_t samples[64];
    int64_t B = feed->config->run.micro_batch_size;
    CHECK(B <= 64);
    for (int64_t b = 0; b < B; b++)
        samples[b] = feed->next + b;
    *input = (struct batch){.B = B,
                            .T = feed->config->run.seq_length,
                            .S = feed->config->run.decoder_seq_length,
                            .tokens = rows(feed, "tokens"),
                            .labels = rows(feed, "labels"),
                            .loss_mask = rows(feed, "mask"),
                            .token_types = rows(feed, "types"),
                            .lengths = rows(feed, "lengths"),
                            .decoder_tokens = rows(feed, "decoder_tokens"),
                            .pair_labels = rows(feed, "pair_labels"),
                            .samples = samples};
    feed->next += B;
    return 0;
}

// One of the two kinds of step with the weights of what was found.
static int open_step(struct step **step, const struct asked *asked, const struct found_checkpoint *found,
                     struct mesh *mesh, struct device *device, enum step_mode mode) {
    TRY(setup_step(step, &(struct setup){&asked->config, device, mesh, mode}));
    if (mode == STEP_TRAIN)
        step_initialize(*step);
    return state_load_found(&(struct run_state){.step = *step, .config = &asked->config}, found, false);
}

static int write_logits(struct step *step, const struct asked *asked, const struct safetensors *file) {
    struct file_feed feed = {.file = file, .config = &asked->config};
    struct step_source source = {.next = next_input, .context = &feed, .count = 1};
    TRY(step_evaluate(step, &source));
    // The arena was released, but nothing has been written since.
    struct tensor logits = step_evaluated_logits(step);
    size_t bytes = tensor_bytes(logits);
    void *values = memory_alloc(bytes);
    device_copy_out(step_device(step), values, logits);
    FILE *out = fopen(asked->logits, "wb");
    bool is_written = out && fwrite(values, 1, bytes, out) == bytes;
    is_written = out && fclose(out) == 0 && is_written;
    free(values);
    return is_written ? 0 : error_set("cannot write %s", asked->logits);
}

static int save_as(struct step *step, struct asked *asked, const char *folder) {
    char *kept = asked->config.run.save;
    asked->config.run.save = memory_string(folder);
    struct progress_state progress = {.iteration = 1};
    int result = state_save(&(struct run_state){.step = step, .config = &asked->config, .progress = &progress});
    free(asked->config.run.save);
    asked->config.run.save = kept;
    return result;
}

// The gradients replace the weights while they are saved.
static int save_gradients(struct step *step, struct asked *asked) {
    size_t count = (size_t)step_params(step)->count;
    void **kept = memory_alloc(sizeof *kept * count);
    for (size_t i = 0; i < count; i++) {
        const struct param *param = step_params(step)->items[i];
        size_t bytes = tensor_bytes(param->value);
        CHECK(bytes == tensor_bytes(param->grad));
        void *gradient = memory_alloc(bytes);
        kept[i] = memory_alloc(bytes);
        device_copy_out(step_device(step), kept[i], param->value);
        device_copy_out(step_device(step), gradient, param->grad);
        device_copy_in(step_device(step), param->value, gradient);
        free(gradient);
    }
    int result = save_as(step, asked, asked->gradients);
    for (size_t i = 0; i < count; i++) {
        device_copy_in(step_device(step), step_params(step)->items[i]->value, kept[i]);
        free(kept[i]);
    }
    free(kept);
    return result;
}

static int train(struct step *step, struct asked *asked, const struct safetensors *file) {
    struct file_feed feed = {.file = file, .config = &asked->config};
    for (int64_t i = 0; i < asked->config.run.train_iters; i++) {
        struct step_source source = {.next = next_input, .context = &feed, .count = 1};
        TRY(step_train(step, &source, asked->config.run.lr, asked->config.run.weight_decay));
        struct step_result result = step_result(step);
        printf("%.9g %.9g %.9g %.9g\n", result.loss, result.pair_loss, result.grad_norm,
               result.has_balance[BALANCE_BATCH] ? result.balance[BALANCE_BATCH] : 0);
        if (i == 0)
            TRY(save_gradients(step, asked));
    }
    return save_as(step, asked, asked->config.run.save);
}

static int run_asked(struct asked *asked) {
    struct config *config = &asked->config;
    struct found_checkpoint found;
    TRY(find_checkpoint_here(&found, config, false));
    TRY(state_load_config(config, &found));
    TRY(config_validate(config, 1));
    struct safetensors file;
    TRY(safetensors_open(&file, asked->samples));
    struct device *device;
    struct world *world;
    struct mesh mesh;
    TRY(device_open(&device, &(struct device_options){.name = "cpu", .threads = 1}));
    TRY(world_open(&world, &(struct world_options){.backend = "self"}, device));
    TRY(mesh_place(&mesh, 0, 1, NULL));
    TRY(mesh_connect(&mesh, world));
    struct step *step;
    TRY(open_step(&step, asked, &found, &mesh, device, STEP_EVALUATE));
    TRY(write_logits(step, asked, &file));
    step_close(step);
    if (asked->gradients) {
        TRY(open_step(&step, asked, &found, &mesh, device, STEP_TRAIN));
        TRY(train(step, asked, &file));
        step_close(step);
    }
    world_close(world);
    device_close(device);
    safetensors_close(&file);
    found_checkpoint_free(&found);
    return 0;
}

int main(int argc, char **argv) {
    const struct flag_table tables[] = {
        {.rows = {own_flags, sizeof own_flags / sizeof own_flags[0], NULL}, .given = offsetof(struct asked, given)},
        config_flag_table(offsetof(struct asked, config)),
    };
    const struct flag_command command = {
        .name = "model", .summary = "What a model makes of samples.", .tables = tables, .table_count = 2};
    struct asked asked;
    int status = flags_parse(&command, &asked, argc, argv);
    if (status == 0)
        status = run_asked(&asked);
    if (status < 0)
        (void)fprintf(stderr, "model: %s\n", error_message());
    flags_free(&command, &asked);
    return status < 0;
}
