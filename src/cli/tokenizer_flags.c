// Megatron's flags for tokenizers, and opening one from them.
#include "cli/tokenizer_flags.h"
#include "config/flag_rows.h"

#define FLAG_STRUCT struct tokenizer_flags

static const struct flag rows[] = {
    GROUP("Tokenizer"),
    TEXT("--tokenizer-type", type, "GPT2BPETokenizer", "NAME",
         "GPT2BPETokenizer; BertWordPieceLowerCase, BertWordPieceCase (vocab.txt); SentencePieceTokenizer, "
         "GPTSentencePieceTokenizer, Llama2Tokenizer (.model); HuggingFaceTokenizer (tokenizer.json or its folder); "
         "TikTokenizer (rank file, tekken.json); FairseqTokenizer (dict.txt); NullTokenizer for text that is already "
         "ids"),
    TEXT("--vocab-file", vocab_file, NULL, "FILE", "vocabulary (vocab.json)"),
    TEXT("--merge-file", merge_file, NULL, "FILE", "merges (merges.txt)"),
    TEXT("--tokenizer-model", model_file, NULL, "FILE", "tokenizer file, for types that need only one"),
    INT("--vocab-size", vocab_size, NULL, 1, INT32_MAX - 1,
        "NullTokenizer: number of ids; TikTokenizer: number of ranks in the file, to detect a truncated copy"),
    INT("--null-tokenizer-eod-id", null_eod_id, NULL, 0, INT32_MAX - 1,
        "NullTokenizer: end-of-document id below --vocab-size; default: one more id", ADVANCED),
    INT("--vocab-extra-ids", extra_ids, NULL, 0, 1 << 20, "number of tokens <extra_id_0>… to add, for T5", ADVANCED),
    SWITCH("--no-legacy-tokenizer", as_today, "ids as in Megatron core 0.15 and later; default: as in earlier releases",
           ADVANCED),
    SWITCH("--tokenizer-hf-no-include-special-tokens", hf_without_specials,
           "HuggingFaceTokenizer: add no special tokens around a text", ADVANCED),
    TEXT("--tiktoken-pattern", tiktoken_pattern, NULL, "NAME",
         "TikTokenizer's split: v1 or v2 as in Megatron; gpt2, cl100k, o200k, llama3, qwen; or a regular expression",
         ADVANCED),
    INT("--tiktoken-num-special-tokens", tiktoken_specials, "1000", 3, 1 << 20,
        "TikTokenizer: special ids before the ranks, in Megatron's JSON form", ADVANCED),
    TEXT("--eod-token", eod_token, NULL, "TEXT",
         "end-of-document token, as spelled in the vocabulary; default: the tokenizer's own"),
};

static const struct flag_alias aliases[] = {
    {"--vocab", "--vocab-file", NULL, NULL},
    {"--merges-file", "--merge-file", NULL, NULL},
    {0},
};

struct flag_table tokenizer_flag_table(size_t base) {
    return (struct flag_table){
        FLAG_TABLE(rows),
        .base = base,
        .aliases = aliases,
    };
}

struct tokenizer_options tokenizer_options_from_flags(const struct tokenizer_flags *flags) {
    return (struct tokenizer_options){
        .type = flags->type,
        .vocab_file = flags->vocab_file,
        .merge_file = flags->merge_file,
        .model_file = flags->model_file,
        .vocab_size = flags->vocab_size,
        .null_eod_given = flag_is_given(&flags->given, "--null-tokenizer-eod-id"),
        .null_eod_id = flags->null_eod_id,
        .extra_ids = flags->extra_ids,
        .as_today = flags->as_today,
        .hf_without_specials = flags->hf_without_specials,
        .tiktoken_pattern = flags->tiktoken_pattern,
        .tiktoken_specials = flags->tiktoken_specials,
        .eod_token = flags->eod_token,
    };
}

int tokenizer_open_from_flags(struct tokenizer **tokenizer, const struct tokenizer_flags *flags) {
    struct tokenizer_options options = tokenizer_options_from_flags(flags);
    return tokenizer_open(tokenizer, &options);
}

void tokenizer_drop(struct tokenizer **tokenizer) {
    tokenizer_free(*tokenizer);
}
