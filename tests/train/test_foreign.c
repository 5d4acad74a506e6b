// Models saved by other programs (tests/golden/make_foreign.py, make_families.py, make_distributed.py and
// make_llmc.py) are loaded as with --load and give those programs' logits; converted to our checkpoints they give them
// again; and written for Hugging Face they have the same tensors, bit by bit, under the same names.
#include "base/file.h"
#include "base/memory.h"
#include "formats/model_source.h"
#include "formats/weights.h"
#include "plan/setup.h"
#include "test.h"
#include "train/state.h"
#include <dirent.h>
#include <unistd.h>

static const char golden[] = "tests/golden/foreign";

// Models of Hugging Face that are written in another form: unquantized, or without layers for further tokens.
static const char *const changed[] = {"gpt_oss_mxfp4", "deepseek_v3_fp8", "minimax_m2_fp8", "mellum_mtp"};

enum { B = 2 };

struct opened_model {
    struct config config;
    struct device *device;
    struct world *world;
    struct step *step;
    struct safetensors expected;
    const char *name;
};

static void *row(const struct opened_model *o, const char *name, int64_t *columns) {
    const struct safetensors_tensor *found = safetensors_find(&o->expected, name);
    if (found && columns)
        *columns = found->shape[1];
    return found ? (void *)found->data : NULL;
}

static int next_input(void *context, struct batch *input) {
    const struct opened_model *o = context;
    static int64_t samples[B] = {0, 1};
    static float mask[64];
    *input = (struct batch){.B = B, .samples = samples, .loss_mask = mask};
    for (int i = 0; i < 64; i++)
        mask[i] = 1;
    input->tokens = row(o, "tokens", &input->T);
    input->labels = row(o, "labels", NULL);
    input->decoder_tokens = row(o, "decoder_tokens", &input->S);
    input->token_types = row(o, "types", NULL);
    return 0;
}

// Opens what `path` holds as evaluate does: configuration and weights come from there. `turns_gains`: the run stores
// the norms' gains in the other form than the folder.
static void open_model(struct opened_model *o, const char *name, const char *path, bool turns_gains) {
    *o = (struct opened_model){.name = name};
    char *expected = memory_printf("%s/%s.safetensors", golden, name);
    EXPECT_OK(safetensors_open(&o->expected, expected));
    free(expected);
    config_defaults(&o->config);
    struct flag_table table = config_flag_table(0);
    EXPECT_OK(flag_set(&table, &o->config, "--load", path, FLAG_FROM_COMMAND));
    EXPECT_OK(flag_set(&table, &o->config, "--micro-batch-size", "2", FLAG_FROM_COMMAND));
    EXPECT_OK(flag_set(&table, &o->config, "--seq-length", "9", FLAG_FROM_COMMAND));
    // The first release does not give the number of heads.
    if (strcmp(name, "megatron_v0") == 0)
        EXPECT_OK(flag_set(&table, &o->config, "--num-attention-heads", "6", FLAG_FROM_COMMAND));
    if (row(o, "decoder_tokens", NULL))
        EXPECT_OK(flag_set(&table, &o->config, "--decoder-seq-length", "5", FLAG_FROM_COMMAND));
    struct found_checkpoint found;
    EXPECT_OK(find_checkpoint_here(&found, &o->config, false));
    EXPECT_OK(state_load_config(&o->config, &found));
    o->config.model.apply_layernorm_1p = o->config.model.apply_layernorm_1p != turns_gains;
    EXPECT_OK(config_validate_for(&o->config, 1, CONFIG_EVALUATE));
    struct mesh mesh;
    EXPECT_OK(device_open(&o->device, &(struct device_options){.name = "cpu", .threads = 1}));
    EXPECT_OK(world_open(&o->world, &(struct world_options){.backend = "self"}, o->device));
    EXPECT_OK(mesh_place(&mesh, 0, 1, NULL));
    EXPECT_OK(mesh_connect(&mesh, o->world));
    EXPECT_OK(setup_step(&o->step, &(struct setup){&o->config, o->device, &mesh, STEP_EVALUATE}));
    EXPECT_OK(state_load_found(&(struct run_state){.step = o->step, .config = &o->config}, &found, false));
    found_checkpoint_free(&found);
}

static void close_model(struct opened_model *o) {
    step_close(o->step);
    world_close(o->world);
    device_close(o->device);
    safetensors_close(&o->expected);
    config_free(&o->config);
}

static void check_logits(const char *name, const char *path, bool turns_gains) {
    struct opened_model o;
    open_model(&o, name, path, turns_gains);
    struct step_source source = {.next = next_input, .context = &o, .count = 1};
    EXPECT_OK(step_evaluate(o.step, &source));
    struct tensor logits = step_evaluated_logits(o.step);
    const struct safetensors_tensor *expected = safetensors_find(&o.expected, "logits");
    int64_t count = tensor_count(logits);
    EXPECT_INT((size_t)count * sizeof(float), expected->bytes);
    float *values = memory_alloc(expected->bytes);
    device_copy_out(o.device, values, logits);
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        float want;
        memcpy(&want, expected->data + (size_t)i * sizeof want, sizeof want);
        difference += pow((double)values[i] - (double)want, 2);
        norm += (double)want * (double)want;
    }
    free(values);
    double error = sqrt(difference / norm);
    printf("    %-20s logits off by %.2g\n", name, error);
    if (!(error < 1e-6))
        test_fail("logits of %s from %s are off by %.3g", name, path, error);
    close_model(&o);
}

static char *golden_path(const char *name) {
    return file_join(golden, name);
}

static struct model_source open_source(const char *path) {
    struct model_source source;
    EXPECT_OK(model_source_open(&source,
                                &(struct model_source_options){
                                    .path = path, .step = -1, .attention_heads = strstr(path, "megatron_v0") ? 6 : 0}));
    return source;
}

static void convert(const char *from, const char *to, bool to_huggingface) {
    struct model_source source = open_source(from);
    struct model_write write = {.source = &source, .folder = to, .shard_bytes = 20000, .leaves_optimizer = true};
    if (to_huggingface)
        EXPECT_OK(model_write_huggingface(&write));
    else
        EXPECT_OK(model_write_ours(&write));
    model_source_close(&source);
}

// Every tensor of `written` is in `original` with the same type, shape and bytes; the original may also have buffers
// and second copies.
static void check_same(const char *name, const char *original_path, const char *written_path) {
    struct weights original, written;
    EXPECT_OK(weights_open_folder(&original, original_path));
    EXPECT_OK(weights_open_folder(&written, written_path));
    for (size_t i = 0; i < written.count; i++) {
        const struct weight *w = &written.items[i], *o = weights_find(&original, w->name);
        const char *dot = strchr(w->name, '.');
        o = o ? o : weights_find(&original, dot + 1);  // gpt2 was saved without the prefix
        if (!o || o->dtype != w->dtype || o->bytes != w->bytes || memcmp(o->shape, w->shape, sizeof o->shape) != 0)
            test_fail("%s: %s came back otherwise", name, w->name);
        void *x = memory_alloc(o->bytes), *y = memory_alloc(w->bytes);
        EXPECT_OK(weight_read(o, x));
        EXPECT_OK(weight_read(w, y));
        if (memcmp(x, y, o->bytes) != 0)
            test_fail("%s: %s has other bytes", name, w->name);
        free(x);
        free(y);
    }
    EXPECT(original.count - written.count < 5);
    weights_close(&original);
    weights_close(&written);
}

// Written for Megatron and read again.
static void check_for_megatron(const char *name) {
    char folder[] = "/tmp/bevatron_test_XXXXXX";
    EXPECT(mkdtemp(folder) != NULL);
    char *path = golden_path(name), *to = file_join(folder, "written");
    struct model_source source = open_source(path);
    EXPECT_OK(model_write_megatron(&(struct model_write){.source = &source, .folder = to, .leaves_optimizer = true}));
    check_logits(name, to, false);
    model_source_close(&source);
    free(path);
    free(to);
    EXPECT_OK(file_remove_tree(folder));
}

static void check_round_trip(const char *name, bool is_huggingface) {
    char folder[] = "/tmp/bevatron_test_XXXXXX";
    EXPECT(mkdtemp(folder) != NULL);
    char *original = golden_path(name), *ours = file_join(folder, "ours"), *theirs = file_join(folder, "theirs"),
         *again = file_join(folder, "again");
    convert(original, ours, false);
    check_logits(name, ours, false);
    check_logits(name, ours, true);
    if (is_huggingface || strstr(name, "_tp2_pp2") || strstr(name, "dist_gpt") || strstr(name, "llama") ||
        strstr(name, "bert")) {
        convert(ours, theirs, true);
        check_logits(name, theirs, false);
        convert(theirs, again, false);
        check_logits(name, again, false);
    }
    // These two are written with the matrices of their family.
    bool is_repacked = strcmp(name, "llama_fused") == 0 || strcmp(name, "phi3_part") == 0;
    if (is_huggingface && !is_repacked)
        check_same(name, original, theirs);
    free(original);
    free(ours);
    free(theirs);
    free(again);
    EXPECT_OK(file_remove_tree(folder));
}

static int has_logits(const struct dirent *entry) {
    const char *end = strstr(entry->d_name, ".safetensors");
    return end && strcmp(end, ".safetensors") == 0;
}

// Calls `check` for every model NAME with logits in NAME.safetensors.
static void for_all(void (*check)(const char *name)) {
    struct dirent **entries;
    int count = scandir(golden, &entries, has_logits, alphasort);
    EXPECT(count > 100);
    for (int i = 0; i < count; i++) {
        *strstr(entries[i]->d_name, ".safetensors") = '\0';
        check(entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
}

static void check_as_loaded(const char *name) {
    char *path = golden_path(name);
    check_logits(name, path, false);
    check_logits(name, path, true);
    free(path);
}

TEST(logits) {
    for_all(check_as_loaded);
}

TEST(for_megatron) {
    check_for_megatron("megatron_experts_packed");
    check_for_megatron("mixtral");
}

static void check_there_and_back(const char *name) {
    char *path = golden_path(name);
    bool is_huggingface = file_is_in(path, "config.json");
    for (size_t i = 0; i < sizeof changed / sizeof changed[0]; i++)
        is_huggingface = is_huggingface && strcmp(name, changed[i]) != 0;
    free(path);
    check_round_trip(name, is_huggingface);
}

TEST(round_trips) {
    for_all(check_there_and_back);
}

// The state of the run is converted too, except for vocabulary files that are not on this machine.
TEST(megatron_state) {
    char *path = golden_path("megatron_v2_tp2_pp2");
    struct model_source source = open_source(path);
    EXPECT_INT(source.state.iteration, 100);
    EXPECT_INT(source.state.consumed_train_samples, 3200);
    EXPECT_INT(source.config.model.padded_vocab_size, 40);
    EXPECT_INT(source.config.data.vocab_size, 40);
    EXPECT(!source.config.data.vocab_file && !source.config.data.tokenizer_type);
    EXPECT(source.config.model.hidden_dropout == 0.1);
    model_source_close(&source);
    free(path);
}

// Dropout rates: T5's single number also applies to attention.
TEST(dropouts) {
    char *path = golden_path("t5");
    struct model_source source = open_source(path);
    EXPECT(source.config.model.hidden_dropout == 0.1 && source.config.model.attention_dropout == 0.1);
    model_source_close(&source);
    free(path);
}

TEST_MAIN(TEST_CASE(logits), TEST_CASE(for_megatron), TEST_CASE(round_trips), TEST_CASE(megatron_state),
          TEST_CASE(dropouts))
