// The rank files that people use: how they split text, and their special tokens.
#include "data/tokenizer/tiktoken.h"

static const struct tiktoken_special gpt2_specials[] = {{"<|endoftext|>", 50256}};
static const struct tiktoken_special cl100k_specials[] = {
    {"<|endoftext|>", 100257},  {"<|fim_prefix|>", 100258},  {"<|fim_middle|>", 100259},
    {"<|fim_suffix|>", 100260}, {"<|endofprompt|>", 100276},
};
static const struct tiktoken_special o200k_specials[] = {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}};
static const struct tiktoken_special llama3_specials[] = {
    {"<|begin_of_text|>", 128000},
    {"<|end_of_text|>", 128001},
    {"<|reserved_special_token_0|>", 128002},
    {"<|reserved_special_token_1|>", 128003},
    {"<|reserved_special_token_2|>", 128004},
    {"<|reserved_special_token_3|>", 128005},
    {"<|start_header_id|>", 128006},
    {"<|end_header_id|>", 128007},
    {"<|reserved_special_token_4|>", 128008},
    {"<|eot_id|>", 128009},
};
static const struct tiktoken_special qwen_specials[] = {
    {"<|endoftext|>", 151643}, {"<|im_start|>", 151644}, {"<|im_end|>", 151645}};

#define SPECIALS(list) list, sizeof list / sizeof list[0]
static const struct tiktoken_known known[] = {
    {"r50k_base", 50256, "gpt2", 50257, "<|endoftext|>", SPECIALS(gpt2_specials), NULL, 0, 0},
    {"p50k_base", 50280, "gpt2", 50281, "<|endoftext|>", SPECIALS(gpt2_specials), NULL, 0, 0},
    {"cl100k_base", 100256, "cl100k", 100277, "<|endoftext|>", SPECIALS(cl100k_specials), NULL, 0, 0},
    {"o200k_base", 199998, "o200k", 200019, "<|endoftext|>", SPECIALS(o200k_specials), NULL, 0, 0},
    {"Llama-3", 128000, "llama3", 128256, "<|end_of_text|>", SPECIALS(llama3_specials), "<|reserved_special_token_%d|>",
     128010, 5},
    {"Qwen", 151643, "qwen", 151851, "<|endoftext|>", SPECIALS(qwen_specials), "<|extra_%d|>", 151646, 0},
};

const struct tiktoken_known *tiktoken_find_known(int64_t rank_count) {
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].rank_count == rank_count)
            return &known[i];
    return NULL;
}
