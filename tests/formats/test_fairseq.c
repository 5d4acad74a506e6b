// RoBERTa of fairseq (tests/golden/make_fairseq_models.py): what the file says, what is refused, and damage.
// tests/train/test_foreign.c shows that they compute the logits of transformers.
#include "base/error.h"
#include "base/memory.h"
#include "formats/model_source.h"
#include "store/temporary.h"

static const char golden[] = "tests/golden/foreign/fairseq_roberta_old.pt";

static int open_model(struct model_source *source, const char *path) {
    return model_source_open(source, &(struct model_source_options){.path = path, .step = -1});
}

TEST(configuration) {
    struct model_source source;
    EXPECT_OK(open_model(&source, golden));
    EXPECT_STRING(source.kind, "fairseq");
    EXPECT_INT(source.config.model.num_layers, 2);
    EXPECT_INT(source.config.model.num_attention_heads, 3);
    EXPECT_INT(source.config.model.padded_vocab_size, 43);
    EXPECT_INT(source.config.model.max_position_embeddings, 11);
    EXPECT(source.config.model.hidden_dropout == 0.1 && !source.config.model.untie_embeddings_and_output_weights);
    EXPECT(!source.config.data.tokenizer_type && strstr(buffer_string(&source.notes), "FairseqTokenizer"));
    model_source_close(&source);
}

// The files of a tokenizer beside it are taken, all or none.
TEST(tokenizer) {
    static const char *const names[] = {"dict.txt", "encoder.json", "vocab.bpe"};
    struct temporary temporary = temporary_create_fast();
    struct buffer bytes = read_whole(golden);
    char *path = file_join(temporary.path, "model.pt");
    write_whole(path, bytes.data, bytes.length);
    for (int i = 0; i < 3; i++) {
        struct model_source source;
        char *file = file_join(temporary.path, names[i]);
        EXPECT_OK(open_model(&source, temporary.path));
        EXPECT(!source.config.data.tokenizer_type && source.files.count == 0);
        model_source_close(&source);
        write_whole(file, "a 1\n", 4);
        free(file);
    }
    struct model_source source;
    EXPECT_OK(open_model(&source, temporary.path));
    EXPECT_STRING(source.config.data.tokenizer_type, "FairseqTokenizer");
    EXPECT_INT(source.files.count, 3);
    model_source_close(&source);
    free(path);
    buffer_free(&bytes);
    temporary_remove(&temporary);
}

// Replaces text in the file by text of the same length; the file has no checksums.
static int open_with(const char *from, const char *to) {
    struct temporary temporary = temporary_create_fast();
    struct buffer bytes = read_whole(golden);
    char *path = file_join(temporary.path, "model.pt"), *found = bytes.data;
    size_t length = strlen(from);
    while ((found = memmem(found, bytes.length - (size_t)(found - bytes.data), from, length)) != NULL) {
        memcpy(found, to, length);
        found += length;
    }
    write_whole(path, bytes.data, bytes.length);
    struct model_source source;
    int result = open_model(&source, path);
    if (result == 0)
        model_source_close(&source);
    struct error_note *note = result < 0 ? error_take() : NULL;
    free(path);
    buffer_free(&bytes);
    temporary_remove(&temporary);
    if (note)
        error_give(note);
    return result;
}

TEST(refused) {
    EXPECT_OK(open_with("gelu", "relu"));
    EXPECT_ERROR(open_with("gelu", "tanh"), "\"activation_fn\" is tanh, which is not supported");
    EXPECT_ERROR(open_with("roberta_base", "transformer1"), "--arch is transformer1; only RoBERTa of fairseq");
    EXPECT_ERROR(open_with("layers.1.fc2.bias", "layers.1.fc3.bias"),
                 "tensors are missing: sentence_encoder.layers.1.fc2.bias");
    EXPECT_ERROR(open_with("sentence_encoder.emb_layer_norm", "sentence_encoder.emb_layer_morm"),
                 "sentence_encoder.layernorm_embedding.weight");
    struct model_source source;
    EXPECT_ERROR(open_model(&source, "tests/fuzz/seeds/roberta/double.pt"), "tensors are neither fp32, bf16 nor fp16");
    EXPECT_ERROR(open_with("sentence_encoder", "sentence_decoder"), "is not a readable model");
}

// Every 61st byte changed, and every 997th length.
TEST(damage) {
    struct temporary temporary = temporary_create_fast();
    struct buffer bytes = read_whole("tests/golden/foreign/fairseq_roberta/model.pt");
    char *path = file_join(temporary.path, "model.pt");
    int opened = 0;
    for (size_t at = 0; at < bytes.length; at += 61) {
        bool is_cut = at % 997 < 61;
        unsigned char *byte = (unsigned char *)bytes.data + at, kept = *byte;
        *byte ^= is_cut ? 0 : 0x55;
        write_whole(path, bytes.data, is_cut ? at : bytes.length);
        *byte = kept;
        struct model_source source;
        if (open_model(&source, path) < 0) {
            EXPECT(*error_message() != '\0');
            continue;
        }
        for (size_t i = 0; i < source.count; i++) {
            unsigned char *memory = memory_alloc(source.tensors[i].bytes + 1);
            opened += model_source_read(&source, i, memory) == 0;
            free(memory);
        }
        model_source_close(&source);
    }
    EXPECT(opened > 0);
    free(path);
    buffer_free(&bytes);
    temporary_remove(&temporary);
}

TEST_MAIN(TEST_CASE(configuration), TEST_CASE(tokenizer), TEST_CASE(refused), TEST_CASE(damage))
