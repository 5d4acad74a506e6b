// The optimizer of Megatron checkpoints (tests/golden/make_resume.py): every state is the one that megatron-core had,
// in our order; counters, loss scale and schedules too; and damage to the files does no harm.
#include "base/error.h"
#include "base/memory.h"
#include "formats/model_source.h"
#include "formats/weights.h"
#include "store/temporary.h"

static const char folder[] = "tests/golden/resume";
enum { MOST_ELEMENTS = 12 * 24 };  // of a parameter of these models

static int open_source(struct model_source *source, const char *path) {
    return model_source_open(source, &(struct model_source_options){.path = path, .step = -1});
}

static bool is_any(const char *name) {
    return !strchr(name, '/');
}

static size_t elements_of(const struct model_source *source, size_t i) {
    return source->tensors[i].bytes / dtype_bytes(source->tensors[i].dtype);
}

static void compare_states(struct model_source *source, const char *expected) {
    struct weights weights = {0};
    EXPECT_OK(weights_add_safetensors(&weights, expected));
    EXPECT_OK(weights_sort(&weights));
    EXPECT_INT(weights.count, source->count * (source->has_masters ? SOURCE_STATES : STATE_MASTER));
    for (size_t i = 0; i < source->count; i++)
        for (int state = 0; state < (source->has_masters ? SOURCE_STATES : STATE_MASTER); state++) {
            char *name = memory_printf("%s.%s", source_state_names[state], source->tensors[i].name);
            const struct weight *wanted = weights_find(&weights, name);
            free(name);
            EXPECT(wanted != NULL);
            if (!wanted)
                continue;
            size_t bytes = elements_of(source, i) * sizeof(float);
            EXPECT_INT(wanted->bytes, bytes);
            float *found = memory_alloc(bytes), *there = memory_alloc(bytes);
            EXPECT_OK(model_source_read_state(source, i, (enum source_state)state, found));
            EXPECT_OK(weight_read(wanted, there));
            EXPECT(memcmp(found, there, bytes) == 0);
            free(found);
            free(there);
        }
    weights_close(&weights);
}

static void check_run(const char *name, double loss_scale) {
    char *path = file_join(folder, name), *expected = memory_printf("%s.safetensors", path);
    struct model_source source;
    EXPECT_OK(open_source(&source, path));
    EXPECT_OK(model_source_open_optimizer(&source));
    EXPECT(source.has_optimizer);
    EXPECT(source.has_masters);
    EXPECT_INT(source.state.iteration, 5);
    EXPECT_INT(source.state.adam_step, 5);
    EXPECT_INT(source.state.consumed_train_samples, 20);
    EXPECT_INT(source.state.schedule_samples, 20);
    EXPECT_INT(source.state.seed, 1234);
    EXPECT(source.state.loss_scale == loss_scale);
    EXPECT_INT(source.config.run.lr_decay_steps, 80);
    EXPECT(source.config.run.lr_warmup_steps == 40);
    EXPECT(source.config.run.lr == 2e-3 && source.config.run.min_lr == 2e-4 && source.config.run.weight_decay == 0.1);
    EXPECT(source.config.run.adam_beta2 == 0.95 && source.config.run.clip_grad == 1);
    EXPECT_STRING(source.config.run.lr_decay_style, "cosine");
    compare_states(&source, expected);
    model_source_close(&source);
    free(path);
    free(expected);
}

TEST(torch_with_tensor_ranks) {
    check_run("torch_bf16_tp2", 1);
}

TEST(torch_with_a_loss_scale) {
    check_run("torch_fp16", 4096);
}

TEST(torch_with_a_distributed_optimizer) {
    check_run("torch_buffers", 1);
}

// Each rank has the optimizer of its own experts, and the first also that of the rest.
TEST(torch_with_experts_on_several_ranks) {
    check_run("torch_experts_ep2", 1);
    check_run("torch_experts_ep2_buffers", 1);
}

TEST(distributed_checkpoints) {
    check_run("dist_bf16_dp2", 1);
}

// States in the buckets of ranks: tensor-parallel ones, several buckets with a loss scale, pipeline stages.
TEST(buckets) {
    check_run("dist_buckets_tp2", 1);
    check_run("dist_buckets_dp2", 4096);
    check_run("dist_buckets_pp2", 1);
    check_run("dist_old_buckets_dp2", 1);  // as up to core 0.10
}

// States that were cut without regard to rows, as up to core 0.14.
TEST(flattened_states) {
    check_run("dist_flat_tp2", 1);
}

// What is written for Megatron reads back with the same states and counters. That megatron-core loads it is shown by
// tests/peers/megatron_resume_peers.py.
static void check_written(const char *name) {
    struct temporary temporary = temporary_create_fast();
    char *path = file_join(folder, name), *to = file_join(temporary.path, "written"),
         *expected = memory_printf("%s.safetensors", path);
    struct model_source source, written;
    EXPECT_OK(open_source(&source, path));
    EXPECT_OK(model_write_megatron(&(struct model_write){.source = &source, .folder = to}));
    EXPECT_OK(open_source(&written, to));
    EXPECT_OK(model_source_open_optimizer(&written));
    EXPECT(written.has_optimizer && written.has_masters);
    EXPECT_INT(written.state.iteration, 5);
    EXPECT_INT(written.state.adam_step, 5);
    EXPECT_INT(written.state.consumed_train_samples, 20);
    EXPECT_INT(written.state.schedule_samples, 20);
    EXPECT(written.state.loss_scale == source.state.loss_scale);
    EXPECT_INT(written.config.run.lr_decay_steps, 80);
    EXPECT(written.config.run.lr_warmup_steps == 40 && written.config.run.adam_beta2 == 0.95);
    compare_states(&written, expected);
    model_source_close(&written);
    EXPECT_ERROR(model_write_megatron(&(struct model_write){.source = &source, .folder = to}), "not an empty folder");
    model_source_close(&source);
    free(path);
    free(to);
    free(expected);
    temporary_remove(&temporary);
}

TEST(written_for_megatron) {
    check_written("torch_fp16");
    check_written("dist_bf16_dp2");
}

// Tensors that are larger than a piece may be are cut into several by rows: here a row of 32 bytes or two.
TEST(written_in_pieces) {
    struct temporary temporary = temporary_create_fast();
    char *to = file_join(temporary.path, "written");
    struct model_source source, written;
    EXPECT_OK(open_source(&source, "tests/golden/resume/dist_bf16_dp2"));
    EXPECT_OK(model_write_megatron(&(struct model_write){.source = &source, .folder = to, .shard_bytes = 65}));
    EXPECT_OK(open_source(&written, to));
    EXPECT_OK(model_source_open_optimizer(&written));
    compare_states(&written, "tests/golden/resume/dist_bf16_dp2.safetensors");
    model_source_close(&written);
    model_source_close(&source);
    struct distributed checkpoint;
    char *iteration = file_join(to, "iter_0000005");
    EXPECT_OK(distributed_open(&checkpoint, iteration, is_any));
    for (size_t i = 0; i < checkpoint.count; i++)
        if (strcmp(checkpoint.tensors[i].name, "optimizer.state.exp_avg.embedding.word_embeddings.weight") == 0)
            EXPECT_INT(checkpoint.tensors[i].piece_count, 6);  // 12 rows of 32 bytes
    distributed_close(&checkpoint);
    free(iteration);
    free(to);
    temporary_remove(&temporary);
}

// Every 61st byte changed, and every 997th length, of the file that has it all.
TEST(damage) {
    struct temporary temporary = temporary_create_fast();
    struct buffer bytes = read_whole("tests/golden/resume/torch_fp16/iter_0000005/mp_rank_00/model_optim_rng.pt");
    char *rank = file_join(temporary.path, "mp_rank_00");
    EXPECT_OK(file_make_folders(rank));
    char *path = file_join(rank, "model_optim_rng.pt");
    int opened = 0;
    for (size_t at = 0; at < bytes.length; at += 61) {
        bool is_cut = at % 997 < 61;
        unsigned char *byte = (unsigned char *)bytes.data + at, kept = *byte;
        *byte ^= is_cut ? 0 : 0x55;
        write_whole(path, bytes.data, is_cut ? at : bytes.length);
        *byte = kept;
        struct model_source source;
        if (open_source(&source, temporary.path) < 0)
            continue;
        float memory[MOST_ELEMENTS];
        bool is_usable = model_source_open_optimizer(&source) == 0 && source.has_optimizer && source.has_masters;
        for (size_t i = 0; is_usable && i < source.count; i++) {
            EXPECT(elements_of(&source, i) <= MOST_ELEMENTS);
            opened += model_source_read_state(&source, i, STATE_MASTER, memory) == 0;
        }
        model_source_close(&source);
    }
    EXPECT(opened > 0);
    free(path);
    free(rank);
    buffer_free(&bytes);
    temporary_remove(&temporary);
}

// Changes to .metadata, every 97th byte, of a checkpoint with buckets and of one with flattened states: whatever can
// still be read does no harm, and a state whose place changed is refused or has the right copy.
static void damage_metadata(const char *name) {
    static const char *const names[] = {"common.pt",    "metadata.json", "__0_0.distcp", "__0_1.distcp",
                                        "__1_0.distcp", "__1_1.distcp",  ".metadata"};
    struct temporary temporary = temporary_create_fast();
    struct buffer bytes = {0};
    char *path = NULL;
    for (int i = 0; i < 7; i++) {
        char *from = memory_printf("%s/%s/iter_0000005/%s", folder, name, names[i]);
        free(path);
        buffer_free(&bytes);
        path = file_join(temporary.path, names[i]);
        bytes = read_whole(from);
        write_whole(path, bytes.data, bytes.length);
        free(from);
    }
    float memory[2 * MOST_ELEMENTS];
    int refused = 0;
    for (size_t at = 0; at < bytes.length; at += 97) {
        unsigned char *byte = (unsigned char *)bytes.data + at, kept = *byte;
        *byte ^= 0x11;
        write_whole(path, bytes.data, bytes.length);
        *byte = kept;
        struct model_source source;
        if (open_source(&source, temporary.path) < 0) {
            refused++;
            continue;
        }
        bool is_usable = model_source_open_optimizer(&source) == 0 && source.has_optimizer && source.has_masters;
        refused += !is_usable;
        for (size_t i = 0; is_usable && i < source.count; i++) {
            EXPECT(elements_of(&source, i) <= sizeof memory / sizeof memory[0]);
            (void)model_source_read_state(&source, i, STATE_MASTER, memory);
        }
        model_source_close(&source);
    }
    EXPECT(refused > 0);
    free(path);
    buffer_free(&bytes);
    temporary_remove(&temporary);
}

TEST(damaged_places) {
    damage_metadata("dist_buckets_dp2");
    damage_metadata("dist_flat_tp2");
}

// The copies of two parameters of one shape were exchanged in this file.
TEST(other_parameters) {
    struct model_source source;
    EXPECT_OK(open_source(&source, "tests/golden/resume/exchanged"));
    EXPECT_OK(model_source_open_optimizer(&source));
    int refused = 0;
    float memory[MOST_ELEMENTS];
    for (size_t i = 0; i < source.count; i++) {
        if (model_source_read_state(&source, i, STATE_MASTER, memory) == 0)
            continue;
        EXPECT(strstr(error_message(), "does not round to it") != NULL);
        refused++;
    }
    EXPECT_INT(refused, 2);
    model_source_close(&source);
}

// Where only the experts of a rank are, what all ranks have is missed; and a file of another rank has not its experts.
TEST(exchanged_ranks) {
    static const char *const names[] = {"model_optim_rng.pt", "distrib_optim.pt"};
    static const char *const messages[] = {"does not have the buffers of every optimizer",
                                           "are not those of the model"};
    for (int k = 0; k < 2; k++) {
        struct temporary temporary = temporary_create_fast();
        for (int i = 0; i < 4; i++) {
            int rank = i / 2, other = i % 2 == 0 ? rank : k == 0 ? 1 : 0;
            char *from = memory_printf("%s/torch_experts_ep2_buffers/iter_0000005/mp_rank_00_%03d/%s", folder, other,
                                       names[i % 2]);
            char *to = memory_printf("%s/mp_rank_00_%03d", temporary.path, rank), *path = file_join(to, names[i % 2]);
            struct buffer bytes = read_whole(from);
            EXPECT_OK(file_make_folders(to));
            write_whole(path, bytes.data, bytes.length);
            buffer_free(&bytes);
            free(from);
            free(to);
            free(path);
        }
        struct model_source source;
        EXPECT_OK(open_source(&source, temporary.path));
        EXPECT_ERROR(model_source_open_optimizer(&source), messages[k]);
        model_source_close(&source);
        temporary_remove(&temporary);
    }
}

// Another optimizer than Adam is refused by name.
TEST(refused) {
    struct model_source source;
    EXPECT_OK(open_source(&source, "tests/golden/resume/sgd"));
    EXPECT_ERROR(model_source_open_optimizer(&source), "lacks the moments of Adam");
    EXPECT(strstr(error_message(), "--weights-only") != NULL);
    model_source_close(&source);
}

TEST_MAIN(TEST_CASE(torch_with_tensor_ranks), TEST_CASE(torch_with_a_loss_scale),
          TEST_CASE(torch_with_a_distributed_optimizer), TEST_CASE(torch_with_experts_on_several_ranks),
          TEST_CASE(distributed_checkpoints), TEST_CASE(buckets), TEST_CASE(flattened_states),
          TEST_CASE(written_for_megatron), TEST_CASE(written_in_pieces), TEST_CASE(damage), TEST_CASE(damaged_places),
          TEST_CASE(other_parameters), TEST_CASE(exchanged_ranks), TEST_CASE(refused))
