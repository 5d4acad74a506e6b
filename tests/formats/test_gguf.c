// GGUF: our files against tests/golden/gguf.txt, which llama.cpp's own package made; blocks against its quantizer; its
// writer's files, truncated, bit-flipped and hostile ones in the reader; tokenizers; and what llama.cpp cannot run.
#include "base/hash.h"
#include "base/memory.h"
#include "formats/gguf.h"
#include "formats/gguf_model.h"
#include "formats/model_source.h"
#include "formats/spoiled.h"
#include "store/temporary.h"
#include "test.h"
#include <ctype.h>

static const char golden_file[] = "tests/golden/gguf.gguf";

// ---- the reader ----

static const struct gguf_value *value_of(const struct gguf *file, const char *key, enum gguf_type type) {
    const struct gguf_value *value = gguf_find_value(file, key);
    if (!value)
        test_fail("there is no key %s", key);
    EXPECT_INT(value->type, type);
    return value;
}

static int64_t integer_of(const struct gguf *file, const char *key, enum gguf_type type, size_t bytes) {
    int64_t number = 0;
    memcpy(&number, value_of(file, key, type)->data, bytes);
    return number;
}

TEST(values) {
    struct gguf file;
    EXPECT_OK(gguf_open(&file, golden_file));
    EXPECT_INT(file.version, 3);
    EXPECT_INT(integer_of(&file, "a.u8", GGUF_U8, 1), 200);
    EXPECT_INT((int8_t)integer_of(&file, "a.i8", GGUF_I8, 1), -100);
    EXPECT_INT(integer_of(&file, "a.u16", GGUF_U16, 2), 60000);
    EXPECT_INT((int16_t)integer_of(&file, "a.i16", GGUF_I16, 2), -30000);
    EXPECT_INT(integer_of(&file, "a.u32", GGUF_U32, 4), 4000000000);
    EXPECT_INT((int32_t)integer_of(&file, "a.i32", GGUF_I32, 4), -2000000000);
    EXPECT_INT(integer_of(&file, "a.bool", GGUF_BOOL, 1), 1);
    EXPECT_INT(integer_of(&file, "a.i64", GGUF_I64, 8), -(INT64_C(1) << 62));
    uint64_t number = 0;
    EXPECT(gguf_get_number(&file, "a.u64", &number) && number == (UINT64_C(1) << 63) + 5);
    EXPECT(!gguf_get_number(&file, "a.i64", &number) && !gguf_get_number(&file, "a.none", &number));
    float single;
    double twice;
    memcpy(&single, value_of(&file, "a.f32", GGUF_F32)->data, sizeof single);
    memcpy(&twice, value_of(&file, "a.f64", GGUF_F64)->data, sizeof twice);
    EXPECT(single == 0.5f && twice == 0.1);
    const struct gguf_value *text = value_of(&file, "a.string", GGUF_STRING);
    EXPECT(text->count == 7 && memcmp(text->data, "gr\u00fc\u00dfe", 7) == 0);
    const struct gguf_value *strings = value_of(&file, "a.strings", GGUF_ARRAY);
    static const char *const wanted[] = {"one", "", "three"};
    EXPECT_INT(strings->count, 3);
    size_t cursor = 0;
    for (size_t i = 0; i < 3; i++) {
        uint64_t length;
        const char *at = gguf_next_string(strings, &cursor, &length);
        EXPECT(length == strlen(wanted[i]) && memcmp(at, wanted[i], length) == 0);
    }
    gguf_close(&file);
}

TEST(tensors) {
    struct gguf file;
    EXPECT_OK(gguf_open(&file, golden_file));
    EXPECT_INT(file.tensor_count, 3);
    const struct gguf_tensor *plain = gguf_find_tensor(&file, "plain"), *half = gguf_find_tensor(&file, "half");
    const struct gguf_tensor *blocks = gguf_find_tensor(&file, "blocks");
    EXPECT(plain && half && blocks && !gguf_find_tensor(&file, "plai"));
    EXPECT(plain->rank == 2 && plain->shape[0] == 2 && plain->shape[1] == 3 && plain->format == GGUF_FORMAT_F32);
    float values[64];
    gguf_decode(GGUF_FORMAT_F32, plain->data, 6, values);
    EXPECT(values[5] == 5 && values[1] == 1);
    gguf_decode(GGUF_FORMAT_F16, half->data, 5, values);
    EXPECT(half->format == GGUF_FORMAT_F16 && values[4] == 4);
    gguf_decode(GGUF_FORMAT_Q8_0, blocks->data, 64, values);
    EXPECT(blocks->format == GGUF_FORMAT_Q8_0 && blocks->bytes == 68);
    EXPECT_NEAR(values[31], 31, 1e-3);
    EXPECT_NEAR(values[40], -1, 1e-3);
    gguf_close(&file);
}

static int parse(const struct buffer *content) {
    // In an exact allocation, so that the sanitizer detects a read past the end.
    unsigned char *copy = malloc(content->length + (content->length == 0));
    memcpy(copy, buffer_string(content), content->length);
    struct gguf file;
    int result = gguf_parse(&file, copy, content->length, "file");
    if (result == 0)
        gguf_close(&file);
    free(copy);
    return result;
}

TEST(truncated) {
    struct buffer content = read_whole(golden_file);
    size_t whole = content.length;
    EXPECT_OK(parse(&content));
    // The padding after the last tensor is not needed.
    for (content.length = 0; content.length < whole - 28; content.length++)
        EXPECT_INT(parse(&content), -1);
    content.length = whole;
    buffer_append_byte(&content, 'x');
    EXPECT_ERROR(parse(&content), "longer than its table says");
    buffer_free(&content);
}

TEST(flipped) {
    struct buffer content = read_whole(golden_file);
    for (size_t bit = 0; bit < content.length * 8; bit++) {
        content.data[bit / 8] = (char)(content.data[bit / 8] ^ (1 << bit % 8));
        (void)parse(&content);
        content.data[bit / 8] = (char)(content.data[bit / 8] ^ (1 << bit % 8));
    }
    buffer_free(&content);
}

static void append(struct buffer *out, uint64_t value, size_t bytes) {
    buffer_append(out, &value, bytes);
}

static void append_string(struct buffer *out, const char *text) {
    append(out, strlen(text), 8);
    buffer_append_string(out, text);
}

// The part before keys and tensors.
static struct buffer start(uint64_t tensors, uint64_t values) {
    struct buffer out = {0};
    buffer_append(&out, "GGUF", 4);
    append(&out, 3, 4);
    append(&out, tensors, 8);
    append(&out, values, 8);
    return out;
}

static void append_tensor(struct buffer *out, const char *name, uint64_t columns, uint64_t offset) {
    append_string(out, name);
    append(out, 1, 4);
    append(out, columns, 8);
    append(out, GGUF_FORMAT_F32, 4);
    append(out, offset, 8);
}

static void expect_refused(struct buffer *content, const char *message) {
    EXPECT_ERROR(parse(content), message);
    buffer_free(content);
}

TEST(hostile) {
    struct buffer file = start(0, 0);
    EXPECT_OK(parse(&file));
    file.data[4] = 1;
    expect_refused(&file, "versions 2 and 3");
    file = start(0, 0);
    memcpy(file.data + 4, "\0\0\0\3", 4);
    expect_refused(&file, "big-endian");
    file = start(0, 0);
    file.data[0] = 'g';
    expect_refused(&file, "does not start with GGUF");
    file = start(UINT64_MAX, UINT64_MAX);
    expect_refused(&file, "the file ends inside its header");
    file = start(0, 1);
    append_string(&file, "key");
    append(&file, 13, 4);
    expect_refused(&file, "a type that GGUF does not define");
    file = start(0, 1);
    append_string(&file, "key");
    append(&file, GGUF_ARRAY, 4);
    append(&file, GGUF_F64, 4);
    append(&file, UINT64_MAX / 4, 8);
    expect_refused(&file, "an array is longer than the file");
    file = start(0, 1);
    append_string(&file, "key");
    append(&file, GGUF_ARRAY, 4);
    append(&file, GGUF_ARRAY, 4);
    append(&file, 0, 8);
    expect_refused(&file, "an array holds arrays");
    file = start(0, 2);
    for (int i = 0; i < 2; i++) {
        append_string(&file, "key");
        append(&file, GGUF_U8, 4);
        append(&file, 1, 1);
    }
    expect_refused(&file, "the key \"key\" occurs twice");
}

TEST(hostile_tensors) {
    struct buffer file = start(1, 0);
    append_tensor(&file, "a", UINT64_MAX, 0);
    expect_refused(&file, "beyond 63 bits");
    file = start(1, 0);
    append_tensor(&file, "a", UINT64_C(1) << 62, 0);
    expect_refused(&file, "more bytes than 64 bits can count");
    file = start(1, 0);
    append_tensor(&file, "a", 1 << 20, 0);
    expect_refused(&file, "longer than the file");
    file = start(1, 0);
    append_tensor(&file, "a", 2, 32);
    expect_refused(&file, "does not start where the previous one ends");
    file = start(1, 0);
    append_tensor(&file, "0123456789012345678901234567890123456789012345678901234567890123", 2, 0);
    expect_refused(&file, "more than 63 bytes");
    file = start(2, 0);
    append_tensor(&file, "a", 2, 0);
    append_tensor(&file, "a", 2, 32);
    while (file.length % 32 != 0)
        buffer_append_byte(&file, 0);
    append(&file, 0, 8);
    append(&file, 0, 8);
    append(&file, 0, 8);
    append(&file, 0, 8);
    append(&file, 0, 8);
    expect_refused(&file, "the tensor \"a\" occurs twice");
    file = start(0, 1);
    append_string(&file, "general.alignment");
    append(&file, GGUF_U32, 4);
    append(&file, 24, 4);
    expect_refused(&file, "not a power of two");
}

// ---- elements ----

static size_t read_hex(const char *text, unsigned char *bytes) {
    size_t count = 0;
    for (unsigned byte; isxdigit((unsigned char)text[2 * count]) && sscanf(text + 2 * count, "%2x", &byte) == 1;
         count++)
        bytes[count] = (unsigned char)byte;
    return count;
}

TEST(blocks) {
    struct buffer content = read_whole("tests/golden/gguf_q8.txt");
    int count = 0;
    char *rest = content.data;
    for (char *line = strsep(&rest, "\n"); line && *line; line = strsep(&rest, "\n"), count++) {
        unsigned char wanted[64], found[34];
        float values[32];
        EXPECT_INT(read_hex(line, (unsigned char *)values), sizeof values);
        EXPECT_INT(read_hex(strchr(line, ' ') + 1, wanted), sizeof found);
        EXPECT(gguf_encode(GGUF_FORMAT_Q8_0, values, 32, found));
        EXPECT(memcmp(found, wanted, sizeof found) == 0);
    }
    EXPECT(count > 10);
    buffer_free(&content);
    float values[32] = {0};
    unsigned char bytes[128];
    values[3] = INFINITY;
    EXPECT(!gguf_encode(GGUF_FORMAT_Q8_0, values, 32, bytes));
    values[3] = NAN;
    EXPECT(!gguf_encode(GGUF_FORMAT_Q8_0, values, 32, bytes));
    values[3] = 1e7f;
    EXPECT(!gguf_encode(GGUF_FORMAT_Q8_0, values, 32, bytes) && !gguf_encode(GGUF_FORMAT_F16, values, 32, bytes));
    EXPECT(gguf_encode(GGUF_FORMAT_BF16, values, 32, bytes));
    values[3] = 65519;
    EXPECT(gguf_encode(GGUF_FORMAT_F16, values, 32, bytes));
    values[3] = 65520;
    EXPECT(!gguf_encode(GGUF_FORMAT_F16, values, 32, bytes));
}

// ---- models ----

// A model of tests/golden/foreign, without a tokenizer.
static void open_foreign(struct model_source *source, const char *name) {
    char *path = memory_printf("tests/golden/foreign/%s", name);
    EXPECT_OK(model_source_open(source, &(struct model_source_options){.path = path, .step = -1}));
    free(path);
    free(source->config.data.tokenizer_type);
    source->config.data.tokenizer_type = memory_string("NullTokenizer");
    // Their T5 has the only distance that llama.cpp supports; weights and names are the same.
    source->config.model.relative_attention_max_distance = 128;
}

struct written {
    struct temporary folder;
    char path[128];
    struct gguf file;
};

static struct written write_model(const char *name, const char *dtype) {
    struct written written = {.folder = temporary_create_fast()};
    struct model_source source;
    open_foreign(&source, name);
    snprintf(written.path, sizeof written.path, "%s/model.gguf", written.folder.path);
    struct model_write write = {.source = &source, .folder = written.path, .has_dtype = true, .dtype = DTYPE_F32};
    write.dtype = strcmp(dtype, "bf16") == 0 ? DTYPE_BF16 : DTYPE_F32;
    write.is_q8 = strcmp(dtype, "q8_0") == 0;
    EXPECT_OK(model_write_gguf(&write));
    EXPECT_OK(gguf_open(&written.file, written.path));
    model_source_close(&source);
    return written;
}

static void remove_written(struct written *written) {
    gguf_close(&written->file);
    temporary_remove(&written->folder);
}

static void expect_tensor(const struct gguf *file, char *line) {
    char name[64], type[16], shape[64], digest[32], found[64];
    EXPECT_INT(sscanf(line, "%63s %15s %63s %31s", name, type, shape, digest), 4);
    const struct gguf_tensor *tensor = gguf_find_tensor(file, name);
    if (!tensor)
        test_fail("%s: there is no tensor %s", file->path, name);
    snprintf(found, sizeof found,
             tensor->rank == 3   ? "%" PRId64 "x%" PRId64 "x%" PRId64
             : tensor->rank == 2 ? "%" PRId64 "x%" PRId64
                                 : "%" PRId64,
             tensor->shape[0], tensor->shape[1], tensor->shape[2]);
    EXPECT_STRING(found, shape);
    EXPECT_STRING(gguf_block_of(tensor->format).name, type);
    unsigned char bytes[32];
    char hex[65];
    struct sha256 hash;
    sha256_init(&hash);
    sha256_update(&hash, tensor->data, tensor->bytes);
    sha256_final(&hash, bytes);
    sha256_hex(bytes, hex);
    hex[16] = '\0';
    if (strcmp(hex, digest) != 0)
        test_fail("%s: %s has other elements", file->path, name);
}

static void expect_key(const struct gguf *file, const char *line) {
    char key[96], text[64];
    EXPECT_INT(sscanf(line, "%95s %63s", key, text), 2);
    const struct gguf_value *value = gguf_find_value(file, key);
    if (!value)
        test_fail("%s: there is no key %s", file->path, key);
    if (value->type == GGUF_STRING) {
        EXPECT(value->count == strlen(text) && memcmp(value->data, text, value->count) == 0);
        return;
    }
    float real = 0;
    uint32_t number = 0;
    memcpy(&real, value->data, sizeof real);
    memcpy(&number, value->data, sizeof number);
    double found = value->type == GGUF_F32 ? (double)real : (double)number, wanted = strtod(text, NULL);
    if (fabs(found - wanted) > 1e-6 * fabs(wanted))
        test_fail("%s: %s is %g, expected %g", file->path, key, found, wanted);
}

static void expect_factors(const struct gguf *file, char *line) {
    const struct gguf_tensor *tensor = gguf_find_tensor(file, "rope_freqs.weight");
    EXPECT(tensor && tensor->rank == 1 && tensor->format == GGUF_FORMAT_F32);
    char *at = strchr(line, ' ');
    for (int64_t i = 0; i < tensor->shape[0]; i++) {
        float factor;
        memcpy(&factor, tensor->data + (size_t)i * sizeof factor, sizeof factor);
        EXPECT_NEAR(factor, strtod(at, &at), 1e-6);
    }
    EXPECT(*at == '\0');
}

// Lines of the same model and type are adjacent.
TEST(models) {
    struct buffer content = read_whole("tests/golden/gguf.txt");
    struct written written = {.path = ""};
    char present[64] = "";
    size_t expected = 0;
    char *rest = content.data;
    for (char *line = strsep(&rest, "\n"); line && *line; line = strsep(&rest, "\n")) {
        char model[32], kind[16], wanted[64];
        EXPECT_INT(sscanf(line, "%31s %15s", model, kind), 2);
        bool is_type = strcmp(kind, "key") != 0 && strcmp(kind, "factors") != 0;
        snprintf(wanted, sizeof wanted, "%s %s", model, is_type ? kind : "fp32");
        if (strcmp(wanted, present) != 0) {
            if (*present) {
                EXPECT_INT(written.file.tensor_count, expected);
                remove_written(&written);
            }
            snprintf(present, sizeof present, "%s", wanted);
            written = write_model(model, is_type ? kind : "fp32");
            expected = gguf_find_tensor(&written.file, "rope_freqs.weight") ? 1 : 0;
        }
        char *body = line + strlen(model) + strlen(kind) + 2;
        expected += is_type ? 1 : 0;
        if (is_type)
            expect_tensor(&written.file, body);
        else if (strcmp(kind, "key") == 0)
            expect_key(&written.file, body);
        else
            expect_factors(&written.file, body);
    }
    EXPECT_INT(written.file.tensor_count, expected);
    remove_written(&written);
    buffer_free(&content);
}

// A model that llama.cpp would compute differently is refused, and nothing is left behind.
TEST(refused) {
    static const struct {
        const char *model, *flag, *value, *message;
    } rows[] = {
        {"opt", NULL, NULL, "the family opt cannot be written as GGUF"},
        {"gpt_neox", NULL, NULL, "the family gpt_neox cannot be written as GGUF"},
        {"granite", NULL, NULL, "the family granite cannot be written as GGUF"},
        {"megatron_bert", NULL, NULL, "the family megatron-bert cannot be written as GGUF"},
        {"gpt2", "--activation", "relu", "has no activation relu"},
        {"t5_v1_1", "--activation", "silu", "has no activation silu gated"},
        {"t5", "--relative-attention-max-distance", "20", "--relative-attention-max-distance other than 128"},
        {"t5", "--decoder-num-layers", "4", "has no decoder that is deeper than its encoder"},
        {"qwen2", "--use-rope-scaling", "true", "has no --rope-scaling-type llama3"},
        {"qwen3", "--add-attention-bias", "true", "has no bias in the attention output"},
        {"qwen3_moe", NULL, NULL, "llama.cpp's qwen3moe has no layers without experts (--moe-layer-freq)"},
        {"qwen3_moe_all", "--moe-router-pre-softmax", "true", "has no weights of experts that do not add up to 1"},
        {"olmoe", NULL, NULL, "llama.cpp's olmoe has no --num-query-groups"},
        {"olmoe_heads", "--moe-router-pre-softmax", "false", "has no weights of experts that add up to 1"},
        {"gpt_oss", NULL, NULL, "llama.cpp's gpt-oss has no --activation-func-clamp-value other than 7"},
        {"gpt_oss_seven", "--window-attn-skip-freq", "3", "has no windows in other layers than the first of every two"},
        {"qwen2_moe", NULL, NULL, "llama.cpp's qwen2moe has no layers without experts (--moe-layer-freq)"},
        {"phi3_long", NULL, NULL, "llama.cpp's phi3 has no choice of LongRoPE's factors by the length of a text"},
        {"deepseek_v3", "--num-layers", "27", "has no --q-lora-rank in a model of 26, 27 or"},
        {"deepseek_v3", "--rotary-scaling-factor", "4", "has no YaRN whose --mscale is not --mscale-all-dim"},
        {"deepseek_v2", NULL, NULL, "has no groups of experts that are judged otherwise than by their two best"},
        {"glm", NULL, NULL, "the family glm cannot be written as GGUF"},
    };
    struct temporary folder = temporary_create_fast();
    char *path = file_join(folder.path, "model.gguf");
    struct flag_table table = config_flag_table(0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct model_source source;
        open_foreign(&source, rows[i].model);
        if (rows[i].flag)
            EXPECT_OK(flag_set(&table, &source.config, rows[i].flag, rows[i].value, FLAG_FROM_COMMAND));
        EXPECT_ERROR(model_write_gguf(&(struct model_write){.source = &source, .folder = path}), rows[i].message);
        model_source_close(&source);
        EXPECT(!file_exists(path));
    }
    write_whole(path, "mine", 4);
    struct model_source source;
    open_foreign(&source, "gpt2");
    EXPECT_ERROR(model_write_gguf(&(struct model_write){.source = &source, .folder = path}), "exists; give another");
    EXPECT_ERROR(
        model_write_gguf(&(struct model_write){.source = &source, .folder = "/nowhere/else", .vocab_size = 1000}),
        "fewer than --vocab-size 1000");
    model_source_close(&source);
    free(path);
    temporary_remove(&folder);
}

// A value that does not fit is named, and nothing of the file is left.
TEST(overflow) {
    struct spoiled spoiled = copy_model("qwen2");
    char *file = file_join(spoiled.path, "model.safetensors"), *path = file_join(spoiled.folder.path, "model.gguf");
    struct safetensors weights;
    EXPECT_OK(safetensors_open(&weights, file));
    const struct safetensors_tensor *tensor = safetensors_find(&weights, "model.layers.1.mlp.down_proj.weight");
    EXPECT(tensor && tensor->dtype == DTYPE_F32);
    size_t place = (size_t)(tensor->data - weights.map.data);
    safetensors_close(&weights);
    struct buffer content = read_whole(file);
    const float large = 1e6f;
    memcpy(content.data + place, &large, sizeof large);
    write_whole(file, content.data, content.length);
    struct model_source source;
    EXPECT_OK(model_source_open(&source, &(struct model_source_options){.path = spoiled.path, .step = -1}));
    source.config.data.tokenizer_type = memory_string("NullTokenizer");
    struct model_write write = {.source = &source, .folder = path, .has_dtype = true, .dtype = DTYPE_F16};
    EXPECT_ERROR(model_write_gguf(&write),
                 "decoder.layers.1.mlp.linear_fc2.weight has values that F16 cannot represent");
    EXPECT(!file_exists(path));
    write.dtype = DTYPE_BF16;
    EXPECT_OK(model_write_gguf(&write));
    model_source_close(&source);
    buffer_free(&content);
    free(file);
    free(path);
    temporary_remove(&spoiled.folder);
}

// After writing, the file is read back and compared with the source, tensor by tensor.
TEST(read_back) {
    static const char *const models[] = {"llama", "gpt2", "t5", "roberta", "nemotron_biases", "olmoe_heads"};
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        struct written written = write_model(models[m], "fp32");
        struct buffer content = read_whole(written.path);
        struct model_source source;
        open_foreign(&source, models[m]);
        struct model_write write = {.source = &source, .has_dtype = true, .dtype = DTYPE_F32};
        struct gguf_check check = {
            .asked = &write, .path = written.path, .rows = source.config.model.padded_vocab_size};
        const char *table = written.file.tensors[0].name - 8;  // after the length of the name
        struct gguf_pairs pairs = {.count = written.file.value_count};
        buffer_append(&pairs.bytes, content.data + GGUF_HEADER_BYTES,
                      (size_t)(table - (const char *)written.file.map.data) - GGUF_HEADER_BYTES);
        const struct gguf_value *name = value_of(&written.file, "general.architecture", GGUF_STRING);
        char *family = memory_printf("%.*s", (int)name->count, (const char *)name->data);
        check.architecture = gguf_architecture_of(family);
        check.pairs = &pairs;
        EXPECT_OK(gguf_check(&check));
        for (size_t i = 0; i < written.file.tensor_count; i++) {
            const struct gguf_tensor *tensor = &written.file.tensors[i];
            size_t place = (size_t)(tensor->data - written.file.map.data) + tensor->bytes / 2 / 4 * 4 + 2;
            content.data[place] = (char)(content.data[place] ^ 16);
            write_whole(written.path, content.data, content.length);
            EXPECT_ERROR(gguf_check(&check), "tensors have other elements");
            content.data[place] = (char)(content.data[place] ^ 16);
        }
        free(family);
        buffer_free(&pairs.bytes);
        buffer_free(&content);
        model_source_close(&source);
        remove_written(&written);
    }
}

// So are the keys that describe the model, and the tokens.
TEST(keys_read_back) {
    static const char *const keys[] = {"llama.block_count",
                                       "llama.embedding_length",
                                       "llama.context_length",
                                       "llama.feed_forward_length",
                                       "llama.attention.head_count",
                                       "llama.attention.head_count_kv",
                                       "llama.attention.layer_norm_rms_epsilon",
                                       "llama.rope.freq_base",
                                       "llama.rope.dimension_count",
                                       "llama.vocab_size",
                                       "general.architecture",
                                       "tokenizer.ggml.model",
                                       "tokenizer.ggml.pre",
                                       "tokenizer.ggml.tokens",
                                       "tokenizer.ggml.token_type",
                                       "tokenizer.ggml.merges",
                                       "tokenizer.ggml.eos_token_id",
                                       "tokenizer.ggml.add_bos_token"};
    struct temporary folder = temporary_create_fast();
    char *path = file_join(folder.path, "model.gguf");
    struct model_source source;
    open_foreign(&source, "llama");
    free(source.config.data.tokenizer_type);
    source.config.data.tokenizer_type = memory_string("HuggingFaceTokenizer");
    checkpoint_file_list_add(&source.files, "tokenizer-model", "tests/golden/hf/gpt2.json");
    int64_t rows = 410;
    struct gguf_vocabulary vocabulary;
    struct gguf_pairs pairs = {0};
    EXPECT_OK(gguf_vocabulary_make(&vocabulary, &source, rows));
    struct model_write write = {.source = &source, .has_dtype = true, .dtype = DTYPE_F32};
    struct gguf_check check = {.asked = &write, .path = path, .rows = rows, .pairs = &pairs};
    check.architecture = gguf_architecture_of("llama");
    gguf_config_write(check.architecture, &source.config, rows, &pairs);
    gguf_vocabulary_write(&vocabulary, &pairs);
    struct gguf_writer writer;
    EXPECT_OK(gguf_create(&writer, path, &pairs, NULL, 0));
    EXPECT_OK(gguf_commit(&writer));
    struct buffer content = read_whole(path);
    struct gguf file;
    EXPECT_OK(gguf_open(&file, path));
    EXPECT_OK(gguf_check_pairs(&check, &file));
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const struct gguf_value *value = gguf_find_value(&file, keys[i]);
        if (!value)
            test_fail("no key %s", keys[i]);
        // The first byte of a number or a text; for an array of strings, the first byte of the first text.
        bool has_length = value->type == GGUF_ARRAY && value->element == GGUF_STRING;
        size_t place = (size_t)(value->data - file.map.data) + (has_length ? 8 : 0);
        struct gguf spoiled;
        content.data[place] = (char)(content.data[place] ^ 1);
        write_whole(path, content.data, content.length);
        EXPECT_OK(gguf_open(&spoiled, path));
        EXPECT_ERROR(gguf_check_pairs(&check, &spoiled), keys[i]);
        gguf_close(&spoiled);
        content.data[place] = (char)(content.data[place] ^ 1);
    }
    gguf_close(&file);
    buffer_free(&content);
    buffer_free(&pairs.bytes);
    gguf_vocabulary_free(&vocabulary);
    model_source_close(&source);
    free(path);
    temporary_remove(&folder);
}

TEST_MAIN(TEST_CASE(values), TEST_CASE(tensors), TEST_CASE(truncated), TEST_CASE(flipped), TEST_CASE(hostile),
          TEST_CASE(hostile_tensors), TEST_CASE(blocks), TEST_CASE(models), TEST_CASE(refused), TEST_CASE(overflow),
          TEST_CASE(read_back), TEST_CASE(keys_read_back))
