// The one place that takes a tokenizer from a configuration, so that training, generating and exporting open the same
// one.
#include "data/tokenizer/from_config.h"

#include <string.h>

struct tokenizer_options tokenizer_options_of(const struct config *config) {
    return (struct tokenizer_options){.type = config->tokenizer_type,
                                      .vocab_file = config->vocab_file,
                                      .merge_file = config->merge_file,
                                      .model_file = config->tokenizer_model,
                                      .vocab_size = config->vocab_size,
                                      .extra_ids = config->vocab_extra_ids,
                                      .as_today = config->no_legacy_tokenizer,
                                      .hf_without_specials = config->tokenizer_hf_no_include_special_tokens,
                                      .tiktoken_pattern = config->tiktoken_pattern,
                                      .tiktoken_specials = config->tiktoken_num_special_tokens,
                                      .null_eod_given = config->null_tokenizer_eod_id >= 0,
                                      .null_eod_id = config->null_tokenizer_eod_id,
                                      .needs_mask = strcmp(config->model, "bert") == 0,
                                      .eod_token = config->eod_token};
}
