// Distributed checkpoints (torch_dist) written by megatron-core (tests/golden/make_distributed.py): tensors of several
// ranks are joined; missing, truncated or changed files and paths out of the folder are reported; damage does no harm.
// tests/train/test_foreign.c shows that their models compute megatron-core's logits.
#include "base/memory.h"
#include "formats/torch_file.h"
#include "formats/model_source.h"
#include "store/temporary.h"

static const char golden[] = "tests/golden/foreign/megatron_dist_llama/iter_0000100";
static const char *const files[] = {".metadata",    "metadata.json", "common.pt",   "__0_0.distcp",
                                    "__0_1.distcp", "__1_0.distcp",  "__1_1.distcp"};
enum { FILE_COUNT = sizeof files / sizeof files[0], METADATA = 0, COMMON = 2, FIRST_DATA = 3 };

// A copy of the checkpoint that a test may damage.
struct copy {
    struct temporary temporary;
    const char *folder;
    struct buffer bytes[FILE_COUNT];
};

static void write_file(const struct copy *copy, int file) {
    char *path = file_join(copy->folder, files[file]);
    write_whole(path, copy->bytes[file].data, copy->bytes[file].length);
    free(path);
}

static void make_copy(struct copy *copy) {
    *copy = (struct copy){.temporary = temporary_create_fast()};
    copy->folder = copy->temporary.path;
    for (int i = 0; i < FILE_COUNT; i++) {
        char *path = file_join(golden, files[i]);
        copy->bytes[i] = read_whole(path);
        free(path);
        write_file(copy, i);
    }
}

static void end_copy(struct copy *copy) {
    for (int i = 0; i < FILE_COUNT; i++)
        buffer_free(&copy->bytes[i]);
    temporary_remove(&copy->temporary);
}

// Opens the model and reads all of it.
static int read_model(const char *folder) {
    struct model_source source;
    if (model_source_open(&source, &(struct model_source_options){.path = folder, .step = -1}) < 0)
        return -1;
    int result = 0;
    for (size_t i = 0; i < source.count && result == 0; i++) {
        void *memory = memory_alloc(source.tensors[i].bytes + 1);
        result = model_source_read(&source, i, memory);
        free(memory);
    }
    model_source_close(&source);
    return result;
}

static bool is_wanted(const char *name) {
    return strstr(name, "linear_fc1.weight") || strstr(name, "word_embeddings");
}

TEST(pieces) {
    struct distributed checkpoint;
    EXPECT_OK(distributed_open(&checkpoint, golden, is_wanted));
    EXPECT_INT(checkpoint.count, 2);
    for (size_t i = 0; i < checkpoint.count; i++) {
        const struct distributed_tensor *tensor = &checkpoint.tensors[i];
        bool is_stack = strstr(tensor->name, "layers") != NULL;
        EXPECT_INT(tensor->rank, is_stack ? 3 : 2);
        EXPECT_INT(tensor->piece_count, is_stack ? 12 : 2);  // three layers of two halves on two ranks
        EXPECT_STRING(tensor->dtype->name, "float32");
        size_t layer = (size_t)(tensor->shape[tensor->rank - 2] * tensor->shape[tensor->rank - 1]) * sizeof(float);
        size_t layers = is_stack ? (size_t)tensor->shape[0] : 1;
        unsigned char *whole = memory_alloc(layer * layers), *part = memory_alloc(layer);
        EXPECT_OK(distributed_read(&checkpoint, tensor, DISTRIBUTED_ALL, whole));
        for (size_t k = 0; is_stack && k < layers; k++) {
            EXPECT_OK(distributed_read(&checkpoint, tensor, (int64_t)k, part));
            EXPECT(memcmp(part, whole + k * layer, layer) == 0);
        }
        free(whole);
        free(part);
    }
    distributed_close(&checkpoint);
}

TEST(what_is_missing) {
    struct copy copy;
    make_copy(&copy);
    EXPECT_OK(read_model(copy.folder));
    char *path = file_join(copy.folder, files[COMMON]);
    EXPECT_INT(unlink(path), 0);
    EXPECT_ERROR(read_model(copy.folder), "common.pt, which holds the arguments of a Megatron-LM run, is missing");
    free(path);
    write_file(&copy, COMMON);
    path = file_join(copy.folder, files[FIRST_DATA]);
    EXPECT_INT(unlink(path), 0);
    EXPECT_ERROR(read_model(copy.folder), "__0_0.distcp");
    free(path);
    copy.bytes[FIRST_DATA].length -= 100;
    write_file(&copy, FIRST_DATA);
    EXPECT_ERROR(read_model(copy.folder), "the file is truncated");
    end_copy(&copy);
}

// Replaces every occurrence of one text by another of the same length.
static void replace(struct buffer *bytes, const char *from, const char *to) {
    size_t length = strlen(from), count = 0;
    EXPECT_INT(length, strlen(to));
    for (size_t i = 0; i + length <= bytes->length; i++)
        if (memcmp(bytes->data + i, from, length) == 0) {
            memcpy(bytes->data + i, to, length);
            count++;
        }
    EXPECT(count > 0);
}

TEST(places_outside) {
    struct copy copy;
    make_copy(&copy);
    replace(&copy.bytes[METADATA], "__1_0.distcp", "../../passwd");
    write_file(&copy, METADATA);
    EXPECT_ERROR(read_model(copy.folder), "not a file of the folder");
    replace(&copy.bytes[METADATA], "../../passwd", "__1_1.distcp");  // pieces of other tensors
    write_file(&copy, METADATA);
    EXPECT(read_model(copy.folder) < 0);
    end_copy(&copy);
}

TEST(names_that_would_call) {
    struct copy copy;
    make_copy(&copy);
    replace(&copy.bytes[METADATA], "torch.distributed.checkpoint.planner", "subprocess.distributed.chec.planners");
    write_file(&copy, METADATA);
    EXPECT_ERROR(read_model(copy.folder), "nothing was executed");
    end_copy(&copy);
}

// The checksums of the inner archives detect changes in tensors; elsewhere, damage is an error or harmless.
TEST(damage) {
    struct copy copy;
    make_copy(&copy);
    for (int file = 0; file < FILE_COUNT; file++) {
        size_t step = file == METADATA ? 61 : 977;
        int refused = 0;
        for (size_t i = 0; i < copy.bytes[file].length; i += step) {
            copy.bytes[file].data[i] ^= (char)(1 << i % 8);
            write_file(&copy, file);
            refused += read_model(copy.folder) < 0;
            copy.bytes[file].data[i] ^= (char)(1 << i % 8);
        }
        write_file(&copy, file);
        EXPECT(refused > 0 || file == METADATA + 1);
    }
    for (size_t length = 0; length < copy.bytes[METADATA].length; length += 331) {
        struct buffer whole = copy.bytes[METADATA];
        copy.bytes[METADATA].length = length;
        write_file(&copy, METADATA);
        EXPECT(read_model(copy.folder) < 0);
        copy.bytes[METADATA] = whole;
    }
    end_copy(&copy);
}

// ---- a handmade .metadata ----

// Pickles: plain dicts stand for objects, which are read in the same way.
static void put_text(struct buffer *out, const char *text) {
    uint32_t length = (uint32_t)strlen(text);
    buffer_append_byte(out, 'X');
    buffer_append(out, &length, sizeof length);
    buffer_append(out, text, length);
}

static void put_number(struct buffer *out, int64_t number) {
    buffer_append_byte(out, '\x8a');
    buffer_append_byte(out, sizeof number);
    buffer_append(out, &number, sizeof number);
}

static void put_pair(struct buffer *out, const char *member, int64_t first, int64_t second) {
    put_text(out, member);
    buffer_append(out, "](", 2);
    put_number(out, first);
    put_number(out, second);
    buffer_append_byte(out, 'e');
}

// A matrix of one piece, which is one of the golden's.
struct byte_span {
    char file[32];
    int64_t begin, bytes;
};

struct matrix {
    const char *name;
    int64_t rows, columns;
    int times;    // how many times it is listed; its piece has one place
    int members;  // in addition to the piece's name and offset
};

static void put_tensor(struct buffer *out, const struct matrix *matrix) {
    put_text(out, matrix->name);
    buffer_append(out, "}(", 2);
    put_pair(out, "size", matrix->rows, matrix->columns);
    put_text(out, "chunks");
    buffer_append(out, "](}(", 4);
    put_pair(out, "offsets", 0, 0);
    put_pair(out, "sizes", matrix->rows, matrix->columns);
    buffer_append(out, "ueu", 3);
}

static void put_place(struct buffer *out, const struct matrix *matrix, const struct byte_span *span) {
    buffer_append(out, "}(", 2);
    put_text(out, "fqn");
    put_text(out, matrix->name);
    put_pair(out, "offset", 0, 0);
    for (int i = 0; i < matrix->members; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "member%d", i);
        put_text(out, name);
        put_number(out, i);
    }
    buffer_append(out, "u}(", 3);
    put_text(out, "relative_path");
    put_text(out, span->file);
    put_text(out, "offset");
    put_number(out, span->begin);
    put_text(out, "length");
    put_number(out, span->bytes);
    buffer_append_byte(out, 'u');
}

static bool is_any(const char *name) {
    return *name != '\0';
}

static struct byte_span find_piece(void) {
    struct distributed checkpoint;
    struct byte_span span = {.bytes = 0};
    EXPECT_OK(distributed_open(&checkpoint, golden, is_wanted));
    const struct distributed_piece *piece = &checkpoint.tensors[0].pieces[0];
    (void)snprintf(span.file, sizeof span.file, "%s", checkpoint.files[0].name);  // mapped for the first piece
    span.begin = piece->data - (const unsigned char *)checkpoint.files[0].map.data;
    span.bytes = (int64_t)piece->bytes;
    distributed_close(&checkpoint);
    return span;
}

static int open_matrix(const struct copy *copy, const struct matrix *matrix) {
    struct byte_span span = find_piece();
    struct buffer text = {0};
    buffer_append(&text, "\x80\2}(", 4);
    put_text(&text, "state_dict_metadata");
    buffer_append(&text, "}(", 2);
    for (int i = 0; i < matrix->times; i++)
        put_tensor(&text, matrix);
    buffer_append_byte(&text, 'u');
    put_text(&text, "storage_data");
    buffer_append(&text, "}(", 2);
    put_place(&text, matrix, &span);
    buffer_append(&text, "uu.", 3);
    char *path = file_join(copy->folder, files[METADATA]);
    write_whole(path, text.data, text.length);
    free(path);
    buffer_free(&text);
    struct distributed checkpoint;
    int result = distributed_open(&checkpoint, copy->folder, is_any);
    if (result == 0)
        distributed_close(&checkpoint);
    return result;
}

// A small file must not cause much memory or time, whatever it claims and how many times.
TEST(what_is_said_is_there) {
    struct copy copy;
    make_copy(&copy);
    char name[1002];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    EXPECT_OK(open_matrix(&copy, &(struct matrix){"weight", 8, 16, .times = 1}));
    EXPECT_ERROR(open_matrix(&copy, &(struct matrix){"weight", 1 << 30, 1 << 20, .times = 1}),
                 "more than the files have");
    EXPECT_ERROR(open_matrix(&copy, &(struct matrix){"weight", INT64_MAX, 16, .times = 1}),
                 "more bytes than 64 bits can count");
    EXPECT_ERROR(open_matrix(&copy, &(struct matrix){"weight", 100000, 0, .times = 1}), "has no elements");
    EXPECT_ERROR(open_matrix(&copy, &(struct matrix){"weight", 8, 16, .times = 2}), "more than storage_data lists");
    EXPECT_ERROR(open_matrix(&copy, &(struct matrix){name, 8, 16, .times = 1}), "a name of up to 1000 bytes");
    EXPECT_ERROR(open_matrix(&copy, &(struct matrix){"weight", 8, 16, .times = 1, .members = 40}), "without a name");
    end_copy(&copy);
}

// Every bit of metadata.json flipped, and every length: what is read is what a release writes. White space may change,
// and members may be missing that core 0.19 leaves out.
TEST(damaged_metadata_json) {
    struct copy copy;
    make_copy(&copy);
    char *path = file_join(copy.folder, "metadata.json");
    struct buffer bytes = read_whole(path);
    int accepted = 0;
    for (size_t at = 0; at < bytes.length; at++)
        for (int bit = 0; bit <= 8; bit++) {
            char kept = bytes.data[at];
            bytes.data[at] = (char)(bit < 8 ? kept ^ (1 << bit) : kept);
            write_whole(path, bytes.data, bit < 8 ? bytes.length : at);
            struct model_source source;
            bool is_blank = kept == ' ' && strchr("\t\n\r", bytes.data[at]);
            if (model_source_open(&source, &(struct model_source_options){.path = copy.folder, .step = -1}) == 0) {
                EXPECT(bit < 8 && is_blank);
                accepted++;
                model_source_close(&source);
            }
            bytes.data[at] = kept;
        }
    EXPECT_INT(accepted, 0);  // no single bit makes one white space of another
    static const char version[] = "{\"sharded_backend\": \"torch_dist\", \"sharded_backend_version\": 2}",
                      other[] = "{\"sharded_backend\": \"torch_dist\", \"else\": 1}";
    write_whole(path, version, strlen(version));
    EXPECT_ERROR(read_model(copy.folder), "\"sharded_backend_version\" is 2; only 1 is supported");
    write_whole(path, other, strlen(other));
    EXPECT_ERROR(read_model(copy.folder), "unknown member \"else\"");
    buffer_free(&bytes);
    free(path);
    end_copy(&copy);
}

// Core 0.19 has no common.pt: its content is an object among the pieces.
TEST(common_state) {
    static const char folder[] = "tests/golden/foreign/megatron_dist_core19/iter_0000100";
    static const char *const parts[] = {"metadata.json", "__0_0.distcp", ".metadata"};
    struct temporary temporary = temporary_create_fast();
    for (int i = 0; i < 3; i++) {
        char *from = file_join(folder, parts[i]), *to = file_join(temporary.path, parts[i]);
        struct buffer bytes = read_whole(from);
        write_whole(to, bytes.data, bytes.length);
        if (i == 2) {
            EXPECT_OK(read_model(temporary.path));
            replace(&bytes, "common_state/shard_0_1", "common_state/shard_0_2");
            write_whole(to, bytes.data, bytes.length);
            EXPECT_ERROR(read_model(temporary.path), "is missing, and so is \"common_state\"");
            replace(&bytes, "common_state/shard_0_2", "common_state/shard_0_1");
            replace(&bytes, "__0_0.distcp", "__0_9.distcp");
            write_whole(to, bytes.data, bytes.length);
            EXPECT_ERROR(read_model(temporary.path), "__0_9.distcp");
        }
        buffer_free(&bytes);
        free(from);
        free(to);
    }
    temporary_remove(&temporary);
}

// Opens a copy with other arguments.
static int open_with(struct copy *copy, const char *name, struct model_source *source) {
    char *path = memory_printf("tests/golden/foreign/megatron_args/%s.pt", name);
    buffer_free(&copy->bytes[COMMON]);
    copy->bytes[COMMON] = read_whole(path);
    free(path);
    write_file(copy, COMMON);
    return model_source_open(source, &(struct model_source_options){.path = copy->folder, .step = -1});
}

// The same tensors with other arguments are another model: supported arguments are used, and unsupported ones are
// refused with the flag's name.
TEST(arguments) {
    struct copy copy;
    struct model_source source;
    make_copy(&copy);
    EXPECT_OK(open_with(&copy, "scaled", &source));
    EXPECT(source.config.model.use_rope_scaling && source.config.model.rope_scaling_factor == 32);
    EXPECT(source.config.model.position_embedding_type == POSITIONS_ROPE);
    EXPECT_INT(source.config.model.sliding_window, 0);
    model_source_close(&source);
    EXPECT_OK(open_with(&copy, "none", &source));
    EXPECT(source.config.model.position_embedding_type == POSITIONS_NONE);
    EXPECT(!source.config.model.use_rope_scaling);
    model_source_close(&source);
    EXPECT_OK(open_with(&copy, "window", &source));
    EXPECT_INT(source.config.model.sliding_window, 128);  // 127 before a token, and the token itself
    EXPECT(!source.config.model.apply_layernorm_1p);
    model_source_close(&source);
    EXPECT_OK(open_with(&copy, "windows", &source));
    EXPECT_STRING(source.config.model.window_attn_skip_freq, "[1,0,1]");
    EXPECT_INT(config_layer_window(&source.config.model, 2), 128);
    model_source_close(&source);
    EXPECT_OK(open_with(&copy, "centered", &source));
    EXPECT(source.config.model.apply_layernorm_1p && !source.config.data.tokenizer_type);
    model_source_close(&source);
    EXPECT_OK(open_with(&copy, "null", &source));
    EXPECT_STRING(source.config.data.tokenizer_type, "NullTokenizer");
    EXPECT_INT(source.config.data.vocab_size, 37);
    model_source_close(&source);
    EXPECT_ERROR(open_with(&copy, "mrope", &source), "--position-embedding-type mrope, which is not supported");
    EXPECT_ERROR(open_with(&copy, "softmax", &source), "--softmax-type, which is not supported");
    EXPECT_ERROR(open_with(&copy, "experts", &source), "mlp.experts.linear_fc1.weight#0 of rank 0");
    EXPECT_ERROR(open_with(&copy, "both", &source), "\"window_size\"");
    end_copy(&copy);
}

TEST_MAIN(TEST_CASE(pieces), TEST_CASE(what_is_missing), TEST_CASE(places_outside), TEST_CASE(names_that_would_call),
          TEST_CASE(damage), TEST_CASE(what_is_said_is_there), TEST_CASE(arguments), TEST_CASE(damaged_metadata_json),
          TEST_CASE(common_state))
