// Chooses the validation set. See datasets.h.
#include "train/datasets.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/index/index.h"
#include "data/sample/blend.h"
#include "train/data_paths.h"
#include "train/state.h"
#include <inttypes.h>
#include <stdlib.h>

enum { LEAST_WINDOWS = 10 };

// From the default on, more and more is for validation. The last has none.
static const char *const shares[] = {"969, 30, 1", "949, 50, 1", "900, 100, 0", "100, 0, 0"};
enum { SHARES = sizeof shares / sizeof shares[0], NONE = SHARES - 1 };

// Tokens of one dataset's validation part; counts no further than `most`.
static int count_tokens(const struct config *config, const char *prefix, const char *split, double most,
                        double *tokens) {
    struct index_reader *reader;
    TRY(index_open(&reader, prefix));
    bool is_gpt = corpus_kind_of(config) == CORPUS_GPT;
    int64_t begin = 0, end = is_gpt ? reader->sequence_count : reader->document_count;
    struct split_bounds bounds;
    int status = split ? split_parse(&bounds, split) : 0;
    if (status == 0 && split)
        split_range(&bounds, SPLIT_VALID, end, &begin, &end);
    if (!is_gpt) {
        begin = index_document_begin(reader, begin);
        end = index_document_begin(reader, end);
    }
    *tokens = 0;
    for (int64_t i = begin; status == 0 && i < end && *tokens < most; i++)
        *tokens += (double)index_length(reader, i);
    index_close(reader);
    return status;
}

// Windows of the validation set, no more than `most`; 0 if one of its datasets has nothing for it, since a run then
// goes without. `split` replaces the run's shares unless it is NULL.
static int count_windows(const struct config *config, const struct text_data *texts, const char *split, int64_t most,
                         int64_t *windows) {
    struct data_paths paths;
    struct blend_list list = {0};
    const double T = (double)config->run.seq_length;
    double sum = 0, tokens = 1;
    int status = data_paths_find(&paths, config, SPLIT_VALID);
    text_data_replace(texts, &paths.items);
    // Parts of several datasets were chosen with care.
    bool is_open = status == 0 && paths.items.count > 0 && paths.parts.count == 0;
    if (is_open)
        status = blend_list_parse(&list, paths.items.items, paths.items.count, paths.flag);
    for (int64_t i = 0; status == 0 && tokens > 0 && i < list.count; i++) {
        const char *shares_of = paths.split && split ? split : paths.split;
        status = count_tokens(config, list.prefixes[i], shares_of, ((double)most + 1) * T, &tokens);
        sum = tokens > 0 ? sum + tokens : 0;
    }
    *windows = !is_open || sum / T >= (double)most ? most : (int64_t)(sum / T);
    blend_list_free(&list);
    data_paths_free(&paths);
    return status;
}

// The shares of a run that resumes, to be freed; NULL if there are none.
static int find_saved(const struct config *config, char **split) {
    OWNED struct json *object = NULL;
    *split = NULL;
    int status = state_read_resumed(&object, config);
    const struct json *member = status == 0 && object ? json_member(object, "split") : NULL;
    if (member && member->type == JSON_STRING)
        *split = memory_string(member->string);
    return status;
}

// Rank 0's choice: the first of the shares that leaves enough for validation.
static int choose_shares(const struct config *config, const struct text_data *texts, int64_t *choice) {
    int64_t windows = 0;
    for (*choice = 0; *choice < NONE; ++*choice) {
        TRY(count_windows(config, texts, shares[*choice], LEAST_WINDOWS, &windows));
        if (windows >= LEAST_WINDOWS)
            return 0;
    }
    return 0;
}

static int settle_shares(struct config *config, const struct text_data *texts, const struct mesh *mesh) {
    char *saved;
    int64_t choice = 0;
    TRY(comm_agree(mesh->all, find_saved(config, &saved), "shares of the checkpoint"));
    if (saved) {
        int status = config_choose(config, "--split", saved);
        free(saved);
        return status;
    }
    int status = mesh->rank == 0 ? choose_shares(config, texts, &choice) : 0;
    TRY(comm_agree(mesh->all, status, "the validation set"));
    comm_broadcast_i64(mesh->all, &choice, 1, 0, "shares of rank 0");
    if (choice == NONE)
        log_warn("there is no validation: a tenth of the documents has fewer than %d windows of %" PRId64
                 " tokens; give more text, or shares of your own with --split",
                 LEAST_WINDOWS, config->run.seq_length);
    else if (choice > 0)
        log_info("chosen for this run: --split %s, so that validation has %d windows of %" PRId64 " tokens or more",
                 shares[choice], LEAST_WINDOWS, config->run.seq_length);
    return choice > 0 ? config_choose(config, "--split", shares[choice]) : 0;
}

// An evaluation should not read a window twice.
static int settle_iterations(struct config *config, const struct text_data *texts, const struct mesh *mesh) {
    const int64_t batch = config_eval_batch_size(config);
    int64_t windows = 0, most = config->run.eval_iters * batch;
    int status = mesh->rank == 0 ? count_windows(config, texts, NULL, most, &windows) : 0;
    TRY(comm_agree(mesh->all, status, "windows of the validation set"));
    comm_broadcast_i64(mesh->all, &windows, 1, 0, "windows of rank 0's validation set");
    if (windows == 0 || windows >= most)
        return 0;
    int64_t enough = windows >= batch ? windows / batch : 1;
    if (flag_source(&config->given, "--eval-iters") == FLAG_FROM_PRESET) {
        OWNED char *value = memory_printf("%" PRId64, enough);
        log_info("chosen for this run: --eval-iters %s, with which an evaluation reads the validation set once", value);
        status = config_choose(config, "--eval-iters", value);
        most = enough * batch;
    }
    if (status == 0 && windows < most)
        log_warn("the validation set repeats: it has %" PRId64 " windows of %" PRId64
                 " tokens, and an evaluation reads %" PRId64 "; %s%" PRId64 " reads it once",
                 windows, config->run.seq_length, most,
                 enough < config->run.eval_iters ? "--eval-iters " : "a batch of ",
                 enough < config->run.eval_iters ? enough : windows);
    return status;
}

int validation_set_settle(struct config *config, const struct text_data *texts, const struct mesh *mesh) {
    bool is_text = texts->names.count > 0, is_open = flag_source(&config->given, "--split") == FLAG_FROM_DEFAULT;
    bool has_evaluation = !config->data.mock_data && !config->run.skip_train && config->run.eval_iters > 0;
    if (has_evaluation && is_text && is_open && config->data.split)
        TRY(settle_shares(config, texts, mesh));
    if (!config->data.mock_data && config->data.split && flag_source(&config->given, "--split") == FLAG_FROM_DEFAULT)
        log_info("note: --split is not given; %s of the documents are for training, validation and test",
                 config->data.split);
    return has_evaluation ? settle_iterations(config, texts, mesh) : 0;
}
