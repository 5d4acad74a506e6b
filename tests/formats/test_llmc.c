// Handmade checkpoints of llm.c: the header is checked against the length of the file, and opening a model of very many
// layers takes no longer than reading its bytes. tests/train/test_foreign.c shows that the golden ones compute the
// logits of transformers.
#include "base/memory.h"
#include "formats/model_source.h"
#include "store/temporary.h"

enum { HEADER_NUMBERS = 256, POSITIONS = 4, VOCABULARY = 5, PADDED = 6, WIDTH = 2 };

// Number of elements of a model of WIDTH.
static size_t element_count(size_t layers) {
    return (PADDED + POSITIONS + 2) * WIDTH + layers * (12 * WIDTH * WIDTH + 13 * WIDTH);
}

// The elements are 0, 1, 2, …, in the order of the file.
static char *write_model(struct temporary *temporary, int32_t layers, size_t elements) {
    const int32_t header[HEADER_NUMBERS] = {20240326, 3, POSITIONS, VOCABULARY, layers, 1, WIDTH, PADDED};
    struct buffer bytes = {0};
    buffer_append(&bytes, header, sizeof header);
    for (size_t i = 0; i < elements; i++) {
        float element = (float)i;
        buffer_append(&bytes, &element, sizeof element);
    }
    char *path = file_join(temporary->path, "model.bin");
    write_whole(path, bytes.data, bytes.length);
    buffer_free(&bytes);
    return path;
}

static int open_model(struct model_source *source, const char *path) {
    return model_source_open(source, &(struct model_source_options){.path = path, .step = -1});
}

TEST(many_layers) {
    enum { LAYERS = 3000 };
    struct temporary temporary = temporary_create_fast();
    char *path = write_model(&temporary, LAYERS, element_count(LAYERS));
    struct model_source source;
    EXPECT_OK(open_model(&source, path));
    EXPECT_INT(source.count, 4 + 12 * LAYERS);
    size_t bytes = 0;
    for (size_t i = 0; i < source.count; i++)
        bytes += source.tensors[i].bytes;
    EXPECT_INT(bytes, element_count(LAYERS) * sizeof(float));
    for (size_t i = 0; i < source.count; i++) {
        if (strcmp(source.tensors[i].name, "decoder.layers.2999.mlp.linear_fc2.bias") != 0)
            continue;
        float bias[WIDTH];  // after it come only the last norm's gain and bias
        EXPECT_INT(source.tensors[i].bytes, sizeof bias);
        EXPECT_OK(model_source_read(&source, i, bias));
        EXPECT(bias[0] == (float)(element_count(LAYERS) - 3 * WIDTH));
    }
    model_source_close(&source);
    free(path);
    temporary_remove(&temporary);
}

TEST(lengths) {
    struct temporary temporary = temporary_create_fast();
    struct model_source source;
    static const int32_t layers[] = {3, 2, 2, INT32_MAX, 0, -1};
    static const int more[] = {0, 1, -1, 0, 0, 0};
    for (int i = 0; i < 6; i++) {
        char *path = write_model(&temporary, layers[i], (size_t)((int)element_count(2) + more[i]));
        EXPECT_ERROR(open_model(&source, path), "truncated or damaged");
        free(path);
    }
    temporary_remove(&temporary);
}

TEST_MAIN(TEST_CASE(many_layers), TEST_CASE(lengths))
