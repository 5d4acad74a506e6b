// A step of several ranks for tests that run under mpirun: a world over MPI, a model from flags, random tokens.
#ifndef TESTS_STEP_RANKS_STEP_H
#define TESTS_STEP_RANKS_STEP_H

#include "base/memory.h"
#include "base/rng.h"
#include "config/config.h"
#include "plan/setup.h"
#include "test.h"
#include "words.h"

enum { RANKS_MOST_PARTS = 8 };

struct ranks {
    struct device *device;
    struct world *world;
    struct world_place place;
    struct mesh meshes[RANKS_MOST_PARTS + 1];    // by number of ranks that share layers, connected once
    struct mesh contexts[RANKS_MOST_PARTS + 1];  // by how many ranks share sequences
    struct mesh pipeline;                        // of all ranks
    struct mesh experts;                         // which all ranks share out
    struct mesh keys;                            // one head of which all ranks share
    struct mesh near;                            // two neighbours of those that share sequences exchange heads
};

struct rank_step {
    struct config config;
    struct step *step;
    int64_t N;
    int32_t *tokens, *labels;
    float *mask;
    int64_t *samples, next;
};

static inline int ranks_open(struct ranks *ranks) {
    struct world_options options = {.backend = "mpi", .deadline_seconds = 300};
    TRY(world_start("mpi", &ranks->place));
    TRY(device_open(&ranks->device, &(struct device_options){.name = "cpu", .threads = 1}));
    return world_open(&ranks->world, &options, ranks->device);
}

static inline void ranks_close(struct ranks *ranks) {
    world_close(ranks->world);
    device_close(ranks->device);
}

static inline void rank_step_parse(struct config *config, const char *flags, int ranks) {
    char *line = memory_printf("train --mock-data --lr 1e-3 --train-iters 10 --tokenizer-type NullTokenizer %s", flags);
    struct string_list words = {0};
    split_words(&words, line);
    EXPECT_OK(config_parse(config, (int)words.count, words.items));
    EXPECT_OK(config_validate_for(config, ranks, CONFIG_TRAIN));
    EXPECT_OK(config_pad_vocab(config, config->data.vocab_size));
    string_list_free(&words);
    free(line);
}

static inline void rank_step_open(struct rank_step *r, struct ranks *ranks, const char *flags) {
    *r = (struct rank_step){0};
    rank_step_parse(&r->config, flags, ranks->place.size);
    int parts = (int)r->config.machine.tensor_model_parallel_size,
        stages = (int)r->config.machine.pipeline_model_parallel_size;
    int owners = (int)r->config.machine.expert_model_parallel_size,
        sharers = (int)r->config.machine.context_parallel_size;
    struct mesh *mesh = stages > 1                          ? &ranks->pipeline
                        : owners > 1                        ? &ranks->experts
                        : config_kv_ranks(&r->config) > 1   ? &ranks->keys
                        : config_near_ranks(&r->config) > 1 ? &ranks->near
                        : sharers > 1                       ? &ranks->contexts[sharers]
                                                            : &ranks->meshes[parts];
    if (mesh->size == 0) {
        EXPECT_OK(mesh_place_config(mesh, ranks->place.rank, ranks->place.size, &r->config));
        EXPECT_OK(mesh_connect(mesh, ranks->world));
    }
    EXPECT_OK(setup_step(&r->step, &(struct setup){&r->config, ranks->device, mesh, STEP_TRAIN}));
    step_initialize(r->step);
    int64_t B = r->config.run.micro_batch_size, V = r->config.model.padded_vocab_size;
    r->N = B * r->config.run.seq_length;
    r->tokens = memory_alloc(sizeof *r->tokens * (size_t)r->N);
    r->labels = memory_alloc(sizeof *r->labels * (size_t)r->N);
    r->mask = memory_alloc(sizeof *r->mask * (size_t)r->N);
    r->samples = memory_alloc(sizeof *r->samples * (size_t)B);
    for (int64_t n = 0; n < r->N; n++) {
        struct philox random = philox4x32(1, (uint32_t)n, (uint32_t)mesh_index(mesh, mesh->place, MESH_SAMPLES), 0, 0);
        r->tokens[n] = (int32_t)(random.word[0] % (uint32_t)V);
        r->labels[n] = (int32_t)(random.word[1] % (uint32_t)V);
        r->mask[n] = 1;
    }
}

static inline void rank_step_close(struct rank_step *r) {
    step_close(r->step);
    free(r->tokens);
    free(r->labels);
    free(r->mask);
    free(r->samples);
    config_free(&r->config);
}

static inline int rank_step_next(void *context, struct batch *input) {
    struct rank_step *r = context;
    for (int64_t b = 0; b < r->config.run.micro_batch_size; b++)
        r->samples[b] = r->next++;
    *input = (struct batch){.B = r->config.run.micro_batch_size,
                            .T = r->config.run.seq_length,
                            .tokens = r->tokens,
                            .labels = r->labels,
                            .loss_mask = r->mask,
                            .samples = r->samples};
    return 0;
}

// Also fills the fields of the model's family: lengths, labels of pairs, a decoder's tokens.
static inline int rank_step_next_of_family(void *context, struct batch *input) {
    static int32_t lengths[2] = {13, 16}, pairs[2] = {1, 0};
    const struct rank_step *r = context;
    TRY(rank_step_next(context, input));
    enum config_form form = r->config.model.form;
    if (form != CONFIG_GPT)
        input->lengths = lengths;
    if (form == CONFIG_BERT)
        input->pair_labels = pairs;
    if (form == CONFIG_T5) {
        input->S = r->config.run.decoder_seq_length;
        input->decoder_tokens = r->labels;
    }
    return 0;
}

static inline struct step_result rank_step_train(struct rank_step *r, int64_t micro_batches) {
    struct step_source source = {.next = rank_step_next, .context = r, .count = micro_batches};
    EXPECT_OK(step_train(r->step, &source, 1e-3, 0.01));
    return step_result(r->step);
}

// The main of a program of several ranks: their world is open while the cases run.
static inline int ranks_test_main(struct ranks *ranks, const struct test_case *cases, size_t count) {
    if (ranks_open(ranks) < 0) {
        printf("%s\n", error_message());
        return 1;
    }
    int status = test_main(cases, count);
    ranks_close(ranks);
    return status;
}

// A number that distinguishes tensors by all their bytes.
static inline uint64_t sum_bytes(const struct step *step, struct tensor t) {
    unsigned char *bytes = memory_alloc(tensor_bytes(t));
    uint64_t sum = 0;
    device_copy_out(step_device(step), bytes, t);
    for (size_t i = 0; i < tensor_bytes(t); i++)
        sum = sum * 31 + bytes[i];
    free(bytes);
    return sum;
}

static inline uint64_t sum_weights(const struct step *step) {
    return sum_bytes(step, step_values(step));
}

#endif
