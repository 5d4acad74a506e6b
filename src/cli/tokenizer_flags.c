// Megatron's flags for tokenizers, and the way from them to an open one.
#include "cli/tokenizer_flags.h"

#define OFFSET(member) offsetof(struct tokenizer_flags, member)

static const struct flag rows[] = {
    {.name = "Tokenizer", .type = FLAG_GROUP},
    {.name = "--tokenizer-type",
     .type = FLAG_STRING,
     .offset = OFFSET(type),
     .initial = "GPT2BPETokenizer",
     .value_name = "NAME",
     .help =
         "GPT2BPETokenizer; BertWordPieceLowerCase, BertWordPieceCase (vocab.txt); SentencePieceTokenizer, "
         "GPTSentencePieceTokenizer, Llama2Tokenizer (.model); HuggingFaceTokenizer (tokenizer.json or its folder); "
         "TikTokenizer (rank file, tekken.json); FairseqTokenizer (dict.txt); NullTokenizer for text that is ids "
         "already"},
    {.name = "--vocab-file",
     .type = FLAG_STRING,
     .offset = OFFSET(vocab_file),
     .value_name = "FILE",
     .help = "vocabulary (vocab.json)"},
    {.name = "--merge-file",
     .type = FLAG_STRING,
     .offset = OFFSET(merge_file),
     .value_name = "FILE",
     .help = "merges (merges.txt)"},
    {.name = "--tokenizer-model",
     .type = FLAG_STRING,
     .offset = OFFSET(model_file),
     .value_name = "FILE",
     .help = "the tokenizer, for types that come in one file"},
    {.name = "--vocab-size",
     .type = FLAG_INT,
     .offset = OFFSET(vocab_size),
     .minimum = 1,
     .maximum = INT32_MAX - 1,
     .help = "ids of a NullTokenizer; ranks of a file of your own for TikTokenizer, so that a cut copy is noticed"},
    {.name = "--null-tokenizer-eod-id",
     .type = FLAG_INT,
     .offset = OFFSET(null_eod_id),
     .minimum = 0,
     .maximum = INT32_MAX - 1,
     .help = "the id below --vocab-size that ends documents, instead of one more",
     .advanced = true},
    {.name = "--vocab-extra-ids",
     .type = FLAG_INT,
     .offset = OFFSET(extra_ids),
     .minimum = 0,
     .maximum = 1 << 20,
     .help = "adds tokens <extra_id_0>…, for T5",
     .advanced = true},
    {.name = "--no-legacy-tokenizer",
     .type = FLAG_BOOL,
     .offset = OFFSET(as_today),
     .help = "ids as Megatron core 0.15 and later give; without it as those before",
     .advanced = true},
    {.name = "--tokenizer-hf-no-include-special-tokens",
     .type = FLAG_BOOL,
     .offset = OFFSET(hf_without_specials),
     .help = "HuggingFaceTokenizer puts nothing around a text",
     .advanced = true},
    {.name = "--tiktoken-pattern",
     .type = FLAG_STRING,
     .offset = OFFSET(tiktoken_pattern),
     .value_name = "NAME",
     .help = "how TikTokenizer splits text: v1 or v2 as in Megatron; gpt2, cl100k, o200k, llama3, qwen; or a regular "
             "expression",
     .advanced = true},
    {.name = "--tiktoken-num-special-tokens",
     .type = FLAG_INT,
     .offset = OFFSET(tiktoken_specials),
     .initial = "1000",
     .minimum = 3,
     .maximum = 1 << 20,
     .help = "ids before the ranks, in Megatron's JSON form",
     .advanced = true},
    {.name = "--eod-token",
     .type = FLAG_STRING,
     .offset = OFFSET(eod_token),
     .value_name = "TEXT",
     .help = "the token that ends a document, as the vocabulary writes it; default: the tokenizer's own"},
};

static const struct flag_alias aliases[] = {
    {"--vocab", "--vocab-file", NULL, NULL},
    {"--merges-file", "--merge-file", NULL, NULL},
    {0},
};

struct flag_table tokenizer_flag_table(size_t base) {
    return (struct flag_table){
        .flags = rows,
        .count = sizeof rows / sizeof rows[0],
        .base = base,
        .given = OFFSET(given),
        .aliases = aliases,
    };
}

int tokenizer_open_from_flags(struct tokenizer **tokenizer, const struct tokenizer_flags *flags) {
    struct tokenizer_options options = {
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
    return tokenizer_open(tokenizer, &options);
}
