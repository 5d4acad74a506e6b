// layer: data
// The arrays of a sample index from hostile bytes, with correct checksums: a complete cache may still be forged or
// belong to other data. A cache that opens gives samples within the data or refuses to. The first byte selects the kind
// of dataset, the others fill its arrays one after another.
#include "fuzz.h"

#include "base/log.h"
#include "base/memory.h"
#include "data/sample/gpt.h"
#include "data/sample/index_cache.h"
#include "data/sample/sentence.h"
#include "sample_words.h"
#include <dirent.h>

enum { SEQ_LENGTH = 8, SAMPLES = 12 };

// The program's own output for a dataset: the name of its cache and its arrays.
struct honest {
    struct index_cache cache;
    struct index_cache_array arrays[GPT_ARRAY_COUNT];
    struct npy opened[GPT_ARRAY_COUNT];
    int count;
};

static struct gpt_options gpt;
static struct sentence_options sentences;
static struct honest honest_gpt, honest_sentences;

static void write_dataset(const char *prefix) {
    static const int lengths[] = {5, 9, 3, 12, 7, 4, 10, 6};
    struct index_writer *writer;
    CHECK(index_writer_open(&writer, prefix, INDEX_U16) == 0);
    int32_t tokens[16];
    for (int i = 0; i < 8; i++) {
        for (int k = 0; k < lengths[i]; k++)
            tokens[k] = 10 + (i * 31 + k * 7) % 900;
        CHECK(index_writer_add(writer, tokens, lengths[i]) == 0);
        if (i % 2)
            CHECK(index_writer_end_document(writer) == 0);
    }
    CHECK(index_writer_commit(writer) == 0);
}

// The description is beside the arrays, and its hash is their name.
static void find_honest(struct honest *honest, const char *folder, const char *const *names, int count) {
    DIR *entries = opendir(folder);
    CHECK(entries);
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        char *end = strstr(entry->d_name, "-description.txt");
        if (!end || strlen(entry->d_name) < 33)
            continue;
        char *path = file_join(folder, entry->d_name),
             *name = memory_printf("%.*s", (int)(end - entry->d_name - 33), entry->d_name + 33);
        struct buffer text = {0};
        CHECK(file_read_all(path, 1 << 16, &text) == 0);
        index_cache_name(&honest->cache, folder, name, &text);
        free(name);
        free(path);
    }
    closedir(entries);
    honest->count = count;
    for (int i = 0; i < count; i++) {
        char *path = memory_printf("%s-%s", honest->cache.stem, names[i]);
        CHECK(npy_open(&honest->opened[i], path) == 0);
        honest->arrays[i] = (struct index_cache_array){.name = names[i], .shape = honest->opened[i].shape};
        free(path);
    }
}

static void prepare(void) {
    static const char *const gpt_names[] = {"document_index.npy", "sample_index.npy", "shuffle_index.npy"};
    static const char *const sentence_names[] = {"sample_index.npy"};
    char *prefix = file_join(fuzz_folder(), "data");
    write_dataset(prefix);
    gpt = (struct gpt_options){.prefix = prefix,
                               .seq_length = SEQ_LENGTH,
                               .sample_count = SAMPLES,
                               .seed = 1234,
                               .cache_folder = file_join(fuzz_folder(), "gpt"),
                               .vocab_size = SAMPLE_WORDS};
    sentences = (struct sentence_options){.kind = SENTENCE_BERT,
                                          .prefix = prefix,
                                          .seq_length = 2 * SEQ_LENGTH,
                                          .sample_count = SAMPLES,
                                          .seed = 1234,
                                          .mask_prob = 0.15,
                                          .has_binary_head = true,
                                          .cache_folder = file_join(fuzz_folder(), "sentences"),
                                          .vocabulary = sample_words()};
    CHECK(gpt_dataset_build(&gpt) == 0 && sentence_dataset_build(&sentences) == 0);
    find_honest(&honest_gpt, gpt.cache_folder, gpt_names, GPT_ARRAY_COUNT);
    find_honest(&honest_sentences, sentences.cache_folder, sentence_names, 1);
}

// The honest arrays, overwritten from the front by the input; the number of rows of sentences is free.
static void forge(const struct honest *honest, const uint8_t *data, size_t size) {
    struct index_cache_array arrays[GPT_ARRAY_COUNT];
    unsigned char *memory[GPT_ARRAY_COUNT] = {0};
    for (int i = 0; i < honest->count; i++) {
        arrays[i] = honest->arrays[i];
        size_t bytes = (size_t)(arrays[i].shape.rows * arrays[i].shape.columns) * npy_item_bytes(arrays[i].shape.dtype);
        size_t used = bytes < size ? bytes : size;
        memory[i] = memory_alloc(bytes + 1);
        memcpy(memory[i], honest->opened[i].data, bytes);
        if (used > 0)
            memcpy(memory[i], data, used);
        arrays[i].data = memory[i];
        data += used;
        size -= used;
    }
    CHECK(index_cache_write(&honest->cache, arrays, honest->count) == 0);
    for (int i = 0; i < honest->count; i++)
        free(memory[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    log_set_level(LOG_ERROR);
    if (size == 0)
        return 0;
    if (!gpt.prefix)
        prepare();
    if (data[0] % 2) {
        struct gpt_dataset *dataset;
        int32_t tokens[SEQ_LENGTH + 1];
        forge(&honest_gpt, data + 1, size - 1);
        if (gpt_dataset_open(&dataset, &gpt) == 0) {
            for (int64_t i = 0; i < dataset->shape.samples; i++)
                (void)gpt_dataset_sample(dataset, i, tokens);
            gpt_dataset_close(dataset);
        }
        return 0;
    }
    struct sentence_dataset *dataset;
    forge(&honest_sentences, data + 1, size - 1);
    if (sentence_dataset_open(&dataset, &sentences) == 0) {
        struct sample_source source = sentence_dataset_source(dataset);
        sample_words_draw(&source);
        sentence_dataset_close(dataset);
    }
    return 0;
}
