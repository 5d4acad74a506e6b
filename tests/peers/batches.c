// Writes the micro-batches that `train` would get with the same flags: first those of --train-iters iterations, then
// those of --eval-iters, so that peers train on the same data as bevatron. For each batch: six int32 (B, T, columns of
// the labels, and 1 or 0 for token types, lengths and a decoder), then tokens, labels, the loss mask as floats, and, if
// the last three say so, types, lengths, decoder tokens. One micro-batch makes an iteration.
#include "base/error.h"
#include "train/datasets.h"
#include <stdio.h>

struct batch_dump {
    struct flag_given given;
    char *output;
    struct config config;
};

static const struct flag own_flags[] = {
    {.name = "Output", .type = FLAG_GROUP},
    {.name = "--output", .type = FLAG_STRING, .offset = offsetof(struct batch_dump, output), .help = "file to write"},
};

static int put(FILE *file, const void *data, int64_t count) {
    if (data && fwrite(data, sizeof(int32_t), (size_t)count, file) != (size_t)count)
        return error_set("cannot write the batches; is the disk full?");
    return 0;
}

static int put_batch(FILE *file, const struct batch *b) {
    int64_t columns = b->decoder_tokens ? b->S : b->T, cells = b->B * b->T, label_cells = b->B * columns;
    int32_t head[] = {(int32_t)b->B,          (int32_t)b->T,      (int32_t)columns,
                      b->token_types != NULL, b->lengths != NULL, b->decoder_tokens != NULL};
    TRY(put(file, head, 6));
    TRY(put(file, b->tokens, cells));
    TRY(put(file, b->labels, label_cells));
    TRY(put(file, b->loss_mask, label_cells));
    TRY(put(file, b->token_types, cells));
    TRY(put(file, b->lengths, b->B));
    return put(file, b->decoder_tokens, label_cells);
}

static int put_split(FILE *file, const struct batch_dump *dump, const struct datasets *datasets,
                     const struct mesh *mesh, enum split split) {
    struct loader *loader;
    int64_t count = split == SPLIT_TRAIN ? dump->config.run.train_iters : dump->config.run.eval_iters;
    TRY(datasets_loader(&loader, datasets, split, &dump->config, mesh, 0));
    int status = 0;
    for (int64_t i = 0; i < count && status == 0; i++) {
        const struct batch *batch;
        status = loader_next(loader, &batch);
        if (status == 0)
            status = put_batch(file, batch);
    }
    loader_close(loader);
    return status;
}

static int run_dump(struct batch_dump *dump) {
    struct config *config = &dump->config;
    struct tokenizer *tokenizer;
    struct datasets datasets = {0};
    struct device *device;
    struct world *world;
    struct mesh mesh;
    TRY(config_apply_preset(config));
    TRY(config_validate(config, 1));
    TRY(datasets_open_tokenizer(&tokenizer, config));
    TRY(device_open(&device, &(struct device_options){.name = "cpu", .threads = 1}));
    TRY(world_open(&world, &(struct world_options){.backend = "self"}, device));
    TRY(mesh_place(&mesh, 0, 1, NULL));
    TRY(mesh_connect(&mesh, world));
    TRY(datasets_open(&datasets, &(struct datasets_options){.config = config, .mesh = &mesh, .tokenizer = tokenizer}));
    FILE *file = dump->output ? fopen(dump->output, "wb") : NULL;
    int status = file ? 0 : error_set("cannot write %s; give --output FILE", dump->output ? dump->output : "nothing");
    if (status == 0)
        status = put_split(file, dump, &datasets, &mesh, SPLIT_TRAIN);
    if (status == 0)
        status = put_split(file, dump, &datasets, &mesh, SPLIT_VALID);
    if (file && fclose(file) != 0 && status == 0)
        status = error_set("cannot write %s; is the disk full?", dump->output);
    datasets_close(&datasets);
    tokenizer_free(tokenizer);
    world_close(world);
    device_close(device);
    return status;
}

int main(int argc, char **argv) {
    const struct flag_table tables[] = {
        {.rows = {own_flags, sizeof own_flags / sizeof own_flags[0], NULL},
         .given = offsetof(struct batch_dump, given)},
        config_flag_table(offsetof(struct batch_dump, config)),
    };
    const struct flag_command command = {
        .name = "batches", .summary = "Writes what train learns from.", .tables = tables, .table_count = 2};
    struct batch_dump dump;
    int status = flags_parse(&command, &dump, argc, argv);
    if (status == 0)
        status = run_dump(&dump);
    if (status < 0)
        (void)fprintf(stderr, "batches: %s\n", error_message());
    flags_free(&command, &dump);
    return status < 0;
}
