// ICT: two towers whose embeddings of a micro-batch are compared over all data-parallel ranks. What it cannot be
// combined with is refused here, with the reason.
#include "config/validate.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void validate_tops(const struct config *config, struct complaints *complaints) {
    const struct string_list *tops = &config->retriever_report_topk_accuracies;
    if (tops->count > CONFIG_MOST_TOPS)
        complain(complaints, "--retriever-report-topk-accuracies takes at most %d numbers, not %" PRId64,
                 CONFIG_MOST_TOPS, tops->count);
    for (int64_t i = 0; i < tops->count; i++) {
        size_t digits = strspn(tops->items[i], "0123456789");
        if (digits == 0 || digits > 9 || tops->items[i][digits] || config_top(config, i) == 0)
            complain(complaints, "--retriever-report-topk-accuracies takes numbers from 1 to 999999999, not \"%s\"",
                     tops->items[i]);
    }
}

// A title belongs to the document of the same number, so there must be one dataset.
static void validate_titles(const struct config *config, struct complaints *complaints) {
    if (!config->titles_data_path)
        return;
    if (config->train_data_path.count > 0 || config->per_split_data_args_path ||
        config->train_weighted_split_paths.count > 0 || config->train_weighted_split_paths_path)
        complain(complaints, "--titles-data-path has the titles of one dataset; give a single --data-path with it");
}

void validate_ict(const struct config *config, struct complaints *complaints) {
    if (config_form(config) != CONFIG_ICT)
        return;
    validate_tops(config, complaints);
    validate_titles(config, complaints);
    if (config->pipeline_model_parallel_size > 1)
        complain(complaints, "--model ict compares the embeddings of both towers in one pass, which pipeline stages "
                             "cannot share; leave out --pipeline-model-parallel-size");
    if (config->context_parallel_size > 1)
        complain(complaints, "--model ict embeds a text by its first token, which only one context-parallel rank would "
                             "have; leave out --context-parallel-size");
    if (config->fp8_format)
        complain(complaints, "--model ict is not verified in fp8; leave out --fp8-format");
    if (config->untie_embeddings_and_output_weights || config->add_output_bias || config->scale_tied_output)
        complain(complaints, "--model ict has no output layer; leave out --untie-embeddings-and-output-weights, "
                             "--add-output-bias and --scale-tied-output");
    if (config->seq_length < 5)
        complain(complaints, "--seq-length %" PRId64 " leaves no room for a title and a sentence; give 5 or more",
                 config->seq_length);
}
