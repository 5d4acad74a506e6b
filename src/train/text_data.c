// Text given as data. See text_data.h.
#include "train/text_data.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/pool.h"
#include "data/extract/inputs.h"
#include "data/index/index.h"
#include "data/sample/blend.h"
#include "data/text_cache.h"
#include "net/url.h"
#include "data/tokenizer/tokenizer.h"
#include "train/data_paths.h"
#include "train/state.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// ---- names ----

static int64_t find_name(const struct string_list *list, const char *name) {
    int64_t i = 0;
    while (i < list->count && strcmp(list->items[i], name) != 0)
        i++;
    return i;
}

static int add_group(struct string_list *names, const struct config *config, enum split which, int64_t group) {
    OWNED_BY(data_paths_free) struct data_paths paths = {0};
    OWNED_BY(blend_list_free) struct blend_list list = {0};
    int status = data_paths_find_group(&paths, config, which, group);
    if (status == 0 && paths.items.count > 0)
        status = blend_list_parse(&list, paths.items.items, paths.items.count, paths.flag);
    for (int64_t i = 0; status == 0 && i < list.count; i++) {
        const char *name = list.prefixes[i];
        if (!text_source_exists(name)) {
            // Datasets are read from disk.
            status = url_is_remote(name) ? content_check_name(name) : index_files_find(name);
            if (status == 0 && url_is_remote(name))
                status = content_check_prefix(name);
        } else if (find_name(names, name) == names->count)
            string_list_add(names, name);
    }
    return status;
}

static int add_split(struct string_list *names, const struct config *config, enum split which) {
    int64_t groups;
    int status = data_paths_count_groups(&groups, config, which);
    for (int64_t i = 0; status == 0 && i < groups; i++)
        status = add_group(names, config, which, i);
    return status;
}

int text_data_find(struct string_list *names, const struct config *config) {
    for (int which = 0; which < SPLIT_COUNT && !config->data.mock_data; which++)
        TRY(add_split(names, config, (enum split)which));
    return 0;
}

static int find_names(struct string_list *names, const struct config *config) {
    TRY(text_data_find(names, config));
    if (names->count == 0 && flag_is_given(&config->given, "--json-keys"))
        log_info("note: --json-keys has no effect: the data is tokenized already");
    if (names->count == 0 && config_trains_tokenizer(config))
        return error_set_code(EXIT_CODE_USAGE,
                              "--tokenizer-type auto learns from text, but the data is tokenized already; "
                              "give the tokenizer of the dataset, or text as --data-path");
    return 0;
}

void text_data_replace(const struct text_data *data, struct string_list *items) {
    for (int64_t i = 0; data && i < items->count; i++) {
        int64_t at = find_name(&data->names, items->items[i]);
        if (at == data->names.count)
            continue;
        free(items->items[i]);
        items->items[i] = memory_string(data->prefixes.items[at]);
    }
}

void text_data_close(struct text_data *data) {
    string_list_free(&data->names);
    string_list_free(&data->prefixes);
}

// ---- the tokenizer ----

// By its full name: checkpoints remember it, and may be read from any folder.
static int set_trained(struct config *config, const char *folder) {
    OWNED char *full = realpath(folder, NULL), *vocab = file_join(full ? full : folder, "vocab.json"),
               *merges = file_join(full ? full : folder, "merges.txt");
    TRY(config_choose(config, "--tokenizer-type", "GPT2BPETokenizer"));
    TRY(config_choose(config, "--vocab-file", vocab));
    return config_choose(config, "--merge-file", merges);
}

// A run that starts from a checkpoint has that one's tokenizer, whatever the text has become since.
static int take_saved(struct config *config, bool *is_taken) {
    static const char *const flags[] = {"--tokenizer-type", "--vocab-size"};
    static const char *const taken[] = {"--tokenizer-type", "--vocab-file", "--merge-file", "--tokenizer-model"};
    struct config saved;
    struct found_checkpoint found;
    TRY(find_checkpoint_here(&found, config, true));
    if (!found.path)
        return 0;
    config_copy(&saved, config);
    struct flag_table table = config_flag_table(0);
    int status = 0;
    for (size_t i = 0; status == 0 && i < sizeof flags / sizeof flags[0]; i++)
        status = flag_set(&table, &saved, flags[i], i == 0 ? "auto" : "1", FLAG_FROM_DEFAULT);
    if (status == 0)
        status = state_load_config(&saved, &found);
    const char *values[] = {saved.data.tokenizer_type, saved.data.vocab_file, saved.data.merge_file,
                            saved.data.tokenizer_model};
    *is_taken =
        status == 0 && !config_trains_tokenizer(&saved) && (saved.data.vocab_file || saved.data.tokenizer_model);
    for (size_t i = 0; status == 0 && *is_taken && i < sizeof taken / sizeof taken[0]; i++)
        if (values[i])
            status = config_choose(config, taken[i], values[i]);
    if (status == 0 && *is_taken && flag_is_given(&config->given, "--vocab-size") &&
        saved.data.vocab_size != config->data.vocab_size)
        log_info("note: the tokenizer is the checkpoint's, of %" PRId64 " tokens; --vocab-size %" PRId64
                 " has no effect",
                 saved.data.vocab_size, config->data.vocab_size);
    config_free(&saved);
    found_checkpoint_free(&found);
    return status;
}

static int find_tokenizer(struct config *config, const struct text_cache *cache, struct text_sources sources) {
    bool is_taken = false;
    if (!config_trains_tokenizer(config))
        return 0;
    TRY(take_saved(config, &is_taken));
    if (is_taken)
        return 0;
    OWNED char *folder = NULL;
    TRY(text_cache_tokenizer(&folder, cache, sources, config->data.vocab_size));
    return set_trained(config, folder);
}

// ---- datasets ----

static int make_datasets(struct text_data *data, const struct config *config, const struct text_cache *cache,
                         struct text_sources sources, const struct tokenizer *tokenizer) {
    struct tokenizer_options options = tokenizer_options_of(config);
    struct buffer identity = {0};
    bool is_gpt = corpus_kind_of(config) == CORPUS_GPT;
    tokenizer_describe(&identity, &options);
    const struct text_dataset dataset = {.tokenizer = tokenizer,
                                         .identity = buffer_string(&identity),
                                         .append_eod = is_gpt && tokenizer_eod(tokenizer) >= 0,
                                         .split_sentences = !is_gpt};
    int status = 0;
    for (int64_t i = 0; status == 0 && i < sources.count; i++) {
        char *prefix;
        status = text_cache_dataset(&prefix, cache, &sources.items[i], &dataset);
        if (status == 0)
            string_list_add(&data->prefixes, prefix);
        free(prefix);
    }
    buffer_free(&identity);
    return status;
}

static int make_from(struct text_data *data, struct config *config, const struct text_cache *cache,
                     struct text_sources sources) {
    struct tokenizer *tokenizer;
    TRY(find_tokenizer(config, cache, sources));
    struct tokenizer_options options = tokenizer_options_of(config);
    TRY(tokenizer_open(&tokenizer, &options));
    int status = make_datasets(data, config, cache, sources, tokenizer);
    tokenizer_free(tokenizer);
    return status;
}

int text_data_refuse(const char *name) {
    return error_set_code(EXIT_CODE_USAGE,
                          "%s is text, but no tokenizer is given; add --tokenizer-type auto --vocab-size 32000 to "
                          "train one on it, or give --vocab-file and --merge-file, or --tokenizer-type and "
                          "--tokenizer-model",
                          name);
}

static int check_use(const struct config *config, const char *name) {
    if (!config->data.tokenizer_type)
        return text_data_refuse(name);
    if (corpus_kind_of(config) == CORPUS_ROBERTA)
        return error_set_code(EXIT_CODE_USAGE,
                              "%s is text, and --sample-break-mode reads datasets of lines; make one with `bevatron "
                              "dataset import --text %s --output-prefix PREFIX` and give --data-path PREFIX",
                              name, name);
    return 0;
}

// Opens data->names, and makes a dataset of each.
static int resolve(struct text_data *data, const struct text_data_options *options) {
    struct config *config = options->config;
    const struct string_list *names = &data->names;
    struct text_cache cache = {.key = config->data.json_keys, .threads = pool_available_processors()};
    TRY(check_use(config, names->items[0]));
    OWNED char *beside = text_source_default_root(names->items[0]);
    if (config->data.data_cache_path || beside)
        string_list_add(&cache.roots, config->data.data_cache_path ? config->data.data_cache_path : beside);
    if (!config->data.data_cache_path && options->user_cache)
        string_list_add(&cache.roots, options->user_cache);
    OWNED struct text_source *sources = memory_alloc((size_t)names->count * sizeof *sources);
    int status = 0;
    string_list_free(&data->prefixes);
    for (int64_t i = 0; status == 0 && i < names->count; i++)
        status = text_source_open(&sources[i], names->items[i], &cache);
    if (status == 0)
        status = make_from(data, config, &cache, (struct text_sources){sources, names->count});
    for (int64_t i = 0; i < names->count; i++)
        text_source_close(&sources[i]);
    string_list_free(&cache.roots);
    return status;
}

// ---- all ranks ----

// Rank 0's results, a line each: the tokenizer's files, then names and prefixes.
static char *write_found(const struct text_data *data, const struct config *config) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    const char *files[] = {config->data.tokenizer_type, config->data.vocab_file, config->data.merge_file,
                           config->data.tokenizer_model};
    for (size_t i = 0; data->names.count > 0 && i < sizeof files / sizeof files[0]; i++)
        buffer_printf(&text, "%s\n", files[i] ? files[i] : "");
    for (int64_t i = 0; i < data->names.count; i++)
        buffer_printf(&text, "%s\n%s\n", data->names.items[i], data->prefixes.items[i]);
    return memory_string(buffer_string(&text));
}

// The rank that found an entry has verified its manifest.
static bool has_dataset(const char *prefix) {
    OWNED char *folder = file_parent(prefix), *manifest = file_join(folder, "manifest.json");
    return file_exists(manifest);
}

// Takes over what rank 0 has found; *is_here if its files are seen from here, too.
static int read_found(struct text_data *data, struct config *config, char *text, bool *is_here) {
    static const char *const flags[] = {"--tokenizer-type", "--vocab-file", "--merge-file", "--tokenizer-model"};
    enum { FLAGS = sizeof flags / sizeof flags[0] };
    char *lines[FLAGS] = {0}, *rest = text;
    for (size_t i = 0; i < FLAGS; i++)
        lines[i] = strsep(&rest, "\n");
    bool is_trained = config_trains_tokenizer(config);
    *is_here = !is_trained || (lines[1] && file_exists(lines[1])) || (lines[3] && file_exists(lines[3]));
    string_list_free(&data->names);
    for (const char *name = strsep(&rest, "\n"); name && *name; name = strsep(&rest, "\n")) {
        const char *prefix = strsep(&rest, "\n");
        string_list_add(&data->names, name);
        string_list_add(&data->prefixes, prefix);
        *is_here = *is_here && has_dataset(prefix);
    }
    for (size_t i = 0; is_trained && *is_here && i < FLAGS; i++)
        if (lines[i] && *lines[i])
            TRY(config_choose(config, flags[i], lines[i]));
    return 0;
}

static int open_together(struct text_data *data, const struct text_data_options *options) {
    const struct mesh *mesh = options->mesh;
    bool is_first = mesh->rank == 0, is_here = true;
    int status = is_first ? find_names(&data->names, options->config) : 0;
    if (status == 0 && data->names.count > 0)
        status = resolve(data, options);
    TRY(comm_agree(mesh->all, status, "text tokenized"));
    OWNED char *found = is_first ? write_found(data, options->config) : NULL;
    comm_broadcast_text(mesh->all, &found, 0, "tokenized text");
    if (!is_first && *found)
        status = read_found(data, options->config, found, &is_here);
    // First one rank of each machine that has its own copy of the text, then the others there, which find what it made.
    for (int turn = 0; turn < 2; turn++) {
        bool is_mine = !is_here && (options->local_rank == 0) == (turn == 0);
        if (status == 0 && is_mine)
            status = resolve(data, options);
        TRY(comm_agree(mesh->all, status, "text tokenized on every machine"));
    }
    return 0;
}

int text_data_open(struct text_data *data, const struct text_data_options *options) {
    *data = (struct text_data){0};
    if (options->config->data.mock_data)
        return 0;
    inputs_leave_out(&options->config->data.data_path, options->mesh->rank == 0);
    int status = open_together(data, options);
    if (status < 0)
        text_data_close(data);
    return status;
}
