// Makes the seeds that are too large to commit. For fuzz_folder: the models in tests/golden/foreign, each as in its own
// folder and as a checkpoint of ours. For fuzz_reader: compressed files, one and two concatenated. For fuzz_tokenizer:
// tokenizers of all types. For fuzz_llmc and fuzz_shards: files of llm.c. Run from the repository's root by
// tools/run_fuzzers.
// usage: pack_seeds FOLDER    (writes FOLDER/TARGET/* and FOLDER/TARGET.dict)
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "config/config.h"
#include "formats/contents.h"
#include "formats/model_source.h"
#include "parts.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The second is -max_len in tools/run_fuzzers.
enum { MOST_BYTES = 1 << 20, MOST_SEED_BYTES = 160 << 10 };

// All iterations have the same number in seeds.
static const char *seed_name(const char *name, char *text, size_t size) {
    const char *slash = strchr(name, '/');
    if (strncmp(name, "iter_", 5) == 0 && slash) {
        (void)snprintf(text, size, "iter_0000001%s", slash);
        return text;
    }
    return name;
}

static void pack_file(const char *path, const char *name, struct buffer *out) {
    char text[256];
    name = seed_name(name, text, sizeof text);
    for (size_t i = 0; i < FUZZ_PART_NAMES; i++) {
        if (strcmp(fuzz_part_names[i], name) != 0 || strstr(name, "manifest.json"))
            continue;
        struct buffer content = {0};
        if (file_read_all(path, MOST_BYTES, &content) < 0)
            die("%s", error_message());
        if (strcmp(name, "latest_checkpointed_iteration.txt") == 0 && strcmp(buffer_string(&content), "release") != 0) {
            buffer_clear(&content);
            buffer_append_byte(&content, '1');
        }
        uint8_t head[FUZZ_PART_HEAD];
        fuzz_part_head(head, i, content.length);
        buffer_append(out, head, sizeof head);
        buffer_append(out, content.data, content.length);
        buffer_free(&content);
    }
}

// All files below the folder, by their names from there.
static void pack_folder(const char *root, const char *below, struct buffer *out) {
    char *path = *below ? file_join(root, below) : memory_string(root);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char *name = *below ? file_join(below, entry->d_name) : memory_string(entry->d_name);
        char *whole = file_join(root, name);
        if (file_is_folder(whole))
            pack_folder(root, name, out);
        else
            pack_file(whole, name, out);
        free(whole);
        free(name);
    }
    if (folder)
        closedir(folder);
    free(path);
}

static void write_seed(const char *to, const char *name, const char *ending, struct buffer *seed) {
    char *path = memory_printf("%s/%s%s", to, name, ending);
    if (seed->length > 0 && seed->length <= MOST_SEED_BYTES && file_write_all(path, seed->data, seed->length) < 0)
        die("%s", error_message());
    free(path);
    buffer_free(seed);
}

static void pack_as_ours(const char *path, const char *to, const char *name) {
    struct model_source source;
    struct buffer seed = {0};
    // The oldest checkpoints of Megatron do not give the number of heads.
    if (model_source_open(&source, &(struct model_source_options){.path = path, .step = -1, .attention_heads = 4}) < 0)
        die("%s", error_message());
    char *folder = memory_printf("%s/ours", to);
    if (model_write_ours(&(struct model_write){.source = &source, .folder = folder, .leaves_optimizer = true}) < 0)
        die("%s", error_message());
    pack_folder(folder, "", &seed);
    write_seed(to, name, ".ours", &seed);
    (void)file_remove_tree(folder);
    free(folder);
    model_source_close(&source);
}

static bool is_foreign(const char *path) {
    struct contents contents;
    return contents_look(&contents, path, -1) == 0 && contents_is_foreign(&contents);
}

static void pack_models(const char *to) {
    static const char golden[] = "tests/golden/foreign";
    DIR *models = opendir(golden);
    if (!models)
        die("%s is not here: run from the repository's root", golden);
    for (struct dirent *entry; (entry = readdir(models)) != NULL;) {
        char *path = file_join(golden, entry->d_name);
        // One folder holds only arguments.
        if (entry->d_name[0] != '.' && file_is_folder(path) && is_foreign(path)) {
            struct buffer seed = {0};
            pack_folder(path, "", &seed);
            write_seed(to, entry->d_name, "", &seed);
            // One claims more experts than may be, and is refused.
            if (strcmp(entry->d_name, "megatron_experts_claimed") != 0)
                pack_as_ours(path, to, entry->d_name);
        }
        free(path);
    }
    closedir(models);
}

// All four formats allow concatenated files.
static void pack_compressed(const char *to) {
    static const char *const small[] = {"bzip2", "gzip", "xz", "zstd"}, *const large[] = {"bz2", "gz", "xz", "zst"};
    for (int i = 0; i < 4; i++) {
        char *names[] = {memory_printf("tests/fuzz/seeds/lines/%s", small[i]),
                         memory_printf("tests/golden/compress/lines.%s", large[i])};
        for (int k = 0; k < 2; k++) {
            struct buffer one = {0}, two = {0};
            if (file_read_all(names[k], MOST_BYTES, &one) < 0)
                die("%s", error_message());
            buffer_append(&two, one.data, one.length);
            buffer_append(&two, one.data, one.length);
            write_seed(to, small[i], k ? ".large" : ".small", &one);
            write_seed(to, small[i], k ? ".large2" : ".small2", &two);
            free(names[k]);
        }
    }
}

// Inputs of fuzz_tokenizer: its type's number, a choice of options, the length of the first file, and the files.
static void pack_tokenizers(const char *to) {
    static const struct {
        const char *name;
        uint8_t type, choice;
        const char *first, *second;
    } rows[] = {
        {"gpt2", 0, 1, "bpe/vocab.json", "bpe/merges.txt"},
        {"bert", 1, 1, "wordpiece/vocab.txt", NULL},
        {"bert_case", 2, 0, "wordpiece/vocab.txt", NULL},
        {"t5", 3, 4, "spm/unigram.model", NULL},
        {"spm_bpe", 4, 1, "spm/bpe.model", NULL},
        {"llama2", 5, 1, "spm/suffix.model", NULL},
        {"char", 3, 0, "spm/char.model", NULL},
        {"tiktoken", 6, 8, "tiktoken/small.tiktoken", NULL},
        {"megatron", 6, 24, "tiktoken/megatron.json", NULL},
        {"tekken", 6, 4, "tiktoken/tekken_own.json", NULL},
        {"hf_bert", 7, 1, "hf/bert.json", NULL},
        {"hf_llama3", 7, 33, "hf/llama3.json", NULL},
        {"hf_t5", 7, 1, "hf/t5.json", NULL},
        {"hf_added", 7, 1, "hf/added.json", NULL},
        {"hf_clip", 7, 1, "hf/clip.json", NULL},
        {"hf_falcon", 7, 1, "hf/falcon.json", NULL},
        {"hf_llama2", 7, 1, "hf/llama2.json", NULL},
        {"hf_neox", 7, 1, "hf/neox.json", NULL},
        {"hf_words", 7, 1, "hf/words.json", NULL},
        {"fairseq", 8, 1, "fairseq/words.txt", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buffer seed = {0}, files[2] = {{0}, {0}};
        for (int k = 0; k < 2; k++) {
            const char *name = k ? rows[i].second : rows[i].first;
            char *path = name ? memory_printf("tests/golden/%s", name) : NULL;
            if (path && file_read_all(path, MOST_BYTES, &files[k]) < 0)
                die("%s", error_message());
            free(path);
        }
        const uint8_t head[] = {rows[i].type, rows[i].choice, (uint8_t)files[0].length,
                                (uint8_t)(files[0].length >> 8)};
        buffer_append(&seed, head, sizeof head);
        for (int k = 0; k < 2; k++) {
            buffer_append(&seed, buffer_string(&files[k]), files[k].length);
            buffer_free(&files[k]);
        }
        write_seed(to, rows[i].name, "", &seed);
    }
}

// fuzz_samples takes the same input as fuzz_index.
static void pack_samples(const char *to) {
    static const char *const names[] = {"example", "sentences", "wide"};
    for (int i = 0; i < 3; i++) {
        struct buffer seed = {0};
        char *path = memory_printf("tests/fuzz/seeds/index/%s", names[i]);
        if (file_read_all(path, MOST_BYTES, &seed) < 0)
            die("%s", error_message());
        write_seed(to, names[i], "", &seed);
        free(path);
    }
}

// The single files of llm.c. fuzz_shards takes a choice of options, the length of the first shard, and two shards.
static void pack_llmc(const char *to) {
    static const char *const names[] = {"llmc_fp32.bin", "llmc_bf16.bin"};
    for (int i = 0; i < 2; i++) {
        struct buffer seed = {0};
        char *path = memory_printf("tests/golden/foreign/%s", names[i]);
        if (file_read_all(path, MOST_BYTES, &seed) < 0)
            die("%s", error_message());
        write_seed(to, names[i], "", &seed);
        free(path);
    }
}

static void pack_shards(const char *to) {
    static const char *const pairs[][2] = {{"1", "2"}, {"2", "1"}, {"wide", "wide"}, {"1", "wide"}};
    for (uint8_t i = 0; i < 4; i++) {
        struct buffer seed = {0};
        for (int k = 0; k < 2; k++) {
            struct buffer shard = {0};
            char *path = memory_printf("tests/golden/import/llmc_%s.bin", pairs[i][k]);
            if (file_read_all(path, MOST_BYTES, &shard) < 0)
                die("%s", error_message());
            const uint8_t head[] = {i, (uint8_t)shard.length, (uint8_t)(shard.length >> 8)};
            if (k == 0)
                buffer_append(&seed, head, sizeof head);
            buffer_append(&seed, shard.data, shard.length);
            buffer_free(&shard);
            free(path);
        }
        char name[] = {(char)('0' + i), '\0'};
        write_seed(to, name, "", &seed);
    }
}

// The names of all flags, for the targets that read them.
static void write_dictionaries(const char *to) {
    const struct flag_command *command = config_command();
    struct buffer text = {0};
    for (size_t t = 0; t < command->table_count; t++) {
        const struct flag_table *table = &command->tables[t];
        const struct flag *flag;
        for (size_t i = 0; (flag = flag_at(&table->rows, i)); i++)
            if (flag->type != FLAG_GROUP)
                buffer_printf(&text, "\"%s\"\n", flag->name);
        for (const struct flag_alias *alias = table->aliases; alias && alias->name; alias++)
            buffer_printf(&text, "\"%s\"\n", alias->name);
    }
    for (int i = 0; i < 2; i++) {
        char *path = file_join(to, i ? "config.dict" : "flags.dict");
        if (file_write_all(path, text.data, text.length) < 0)
            die("%s", error_message());
        free(path);
    }
    buffer_free(&text);
}

static char *new_folder(const char *in, const char *name) {
    char *path = file_join(in, name);
    if (file_make_folders(path) < 0)
        die("%s", error_message());
    return path;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*pack)(const char *to);
    } targets[] = {{"folder", pack_models},   {"reader", pack_compressed}, {"tokenizer", pack_tokenizers},
                   {"samples", pack_samples}, {"llmc", pack_llmc},         {"shards", pack_shards}};
    if (argc != 2)
        die("usage: pack_seeds FOLDER");
    log_set_level(LOG_WARN);
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        char *folder = new_folder(argv[1], targets[i].name);
        targets[i].pack(folder);
        free(folder);
    }
    write_dictionaries(argv[1]);
    return 0;
}
