// Inputs of a run: its tokenizer and its datasets. See preflight.h.
#include "base/error.h"
#include "cli/preflight.h"
#include "data/index/index.h"
#include "data/sample/blend_index.h"
#include "data/text_cache.h"
#include "net/http.h"
#include "net/url.h"
#include "train/data_paths.h"
#include "train/datasets.h"

#include <inttypes.h>
#include <string.h>

void preflight_tokenizer(struct preflight *flight) {
    struct config *config = &flight->options->config;
    struct tokenizer *tokenizer = NULL;
    bool has_tokenizer = config->data.tokenizer_type || config->data.vocab_file || config->data.tokenizer_model;
    if (!has_tokenizer && (!flight->has_model || config->data.vocab_size == 0))
        return;
    if (datasets_open_tokenizer(&tokenizer, config) < 0)
        preflight_say_error(flight, "tokenizer");
    else if (tokenizer) {
        flight->vocab_size = tokenizer_vocab_size(tokenizer);
        preflight_say(flight, VERDICT_OK, "tokenizer", "%s, %" PRId64 " ids", config->data.tokenizer_type,
                      flight->vocab_size);
    }
    tokenizer_free(tokenizer);
}

// The bound that train checks tokens against: ids from padding alone are invalid.
static int64_t vocab_size_of(const struct preflight *flight) {
    const struct config *config = &flight->options->config;
    return flight->vocab_size > 0        ? flight->vocab_size
           : config->data.vocab_size > 0 ? config->data.vocab_size
                                         : config->model.padded_vocab_size;
}

// Checks that one dataset is whole, and with --deep every token within the vocabulary.
static void look_into(struct preflight *flight, const char *prefix) {
    const struct preflight_options *options = flight->options;
    if (text_source_exists(prefix)) {
        struct text_source source;
        if (text_source_list(&source, prefix) < 0)
            preflight_say_error(flight, "data");
        else
            preflight_say(flight, VERDICT_OK, "data", "%s: text, which train tokenizes first; files: %" PRId64, prefix,
                          source.files.count);
        text_source_close(&source);
        return;
    }
    struct index_reader *reader = NULL;
    int status = index_open(&reader, prefix);
    if (status == 0)
        status = index_verify(reader);
    if (status == 0 && options->deep)
        status = index_verify_tokens(reader, vocab_size_of(flight));
    if (status < 0)
        preflight_say_error(flight, "data");
    else
        preflight_say(flight, VERDICT_OK, "data", "%s: %" PRId64 " documents, %" PRId64 " tokens%s", prefix,
                      reader->document_count, reader->token_count, options->deep ? ", all read" : "");
    index_close(reader);
}

static void look_into_group(struct preflight *flight, enum split which, int64_t group) {
    struct data_paths paths = {0};
    struct blend_list list = {0};
    if (data_paths_find_group(&paths, &flight->options->config, which, group) < 0 ||
        (paths.items.count > 0 && blend_list_parse(&list, paths.items.items, paths.items.count, paths.flag) < 0))
        preflight_say_error(flight, "data");
    for (int64_t i = 0; i < list.count; i++)
        look_into(flight, list.prefixes[i]);
    blend_list_free(&list);
    data_paths_free(&paths);
}

static void look_into_split(struct preflight *flight, enum split which) {
    int64_t groups;
    if (data_paths_count_groups(&groups, &flight->options->config, which) < 0)
        preflight_say_error(flight, "data");
    else
        for (int64_t i = 0; i < groups; i++)
            look_into_group(flight, which, i);
}

static bool uses_addresses(const struct config *config) {
    bool uses = config->run.save_to || (config->run.load && url_is_remote(config->run.load)) ||
                (config->run.pretrained_checkpoint && url_is_remote(config->run.pretrained_checkpoint));
    for (int which = SPLIT_TRAIN; which < SPLIT_COUNT; which++) {
        struct data_paths paths = {0};
        if (data_paths_find(&paths, config, (enum split)which) < 0)
            error_clear();
        for (int64_t i = 0; i < paths.items.count; i++)
            uses = uses || url_is_remote(paths.items.items[i]);
        data_paths_free(&paths);
    }
    return uses;
}

void preflight_addresses(struct preflight *flight) {
    struct buffer text = {0};
    if (!uses_addresses(&flight->options->config))
        return;
    if (!http_library()) {
        (void)http_load();
        preflight_say_error(flight, "libraries");
        return;
    }
    bool is_found = library_describe(http_library(), &text);
    preflight_say(flight, is_found ? VERDICT_OK : VERDICT_BAD, "libraries", "%s %s", http_library()->name,
                  buffer_string(&text));
    buffer_free(&text);
}

void preflight_data(struct preflight *flight) {
    const struct config *config = &flight->options->config;
    if (config->data.mock_data)
        return;
    // One --data-path serves all splits.
    bool is_shared = config->data.data_path.count > 0 || config->data.data_args_path;
    for (int which = SPLIT_TRAIN; which < (is_shared ? SPLIT_VALID : SPLIT_COUNT); which++)
        look_into_split(flight, (enum split)which);
}
