// Common rank files: how they split text, and their special tokens.
#include "data/tokenizer/tiktoken.h"
#include "base/memory.h"
#include <inttypes.h>
#include <string.h>

static const struct tiktoken_special gpt2_specials[] = {{"<|endoftext|>", 50256}};
static const struct tiktoken_special whisper_specials[] = {{"<|endoftext|>", 50257}};
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
    {"r50k_base", 50256, "gpt2", 50257, "<|endoftext|>", SPECIALS(gpt2_specials), NULL, 0, 0, 0},
    {"Whisper, English", 50256, "gpt2", 51864, "<|endoftext|>", SPECIALS(gpt2_specials), NULL, 50257, 0, 99},
    {"Whisper", 50257, "gpt2", 51865, "<|endoftext|>", SPECIALS(whisper_specials), NULL, 50258, 0, 99},
    {"Whisper, large-v3", 50257, "gpt2", 51866, "<|endoftext|>", SPECIALS(whisper_specials), NULL, 50258, 0, 100},
    {"p50k_base", 50280, "gpt2", 50281, "<|endoftext|>", SPECIALS(gpt2_specials), NULL, 0, 0, 0},
    {"cl100k_base", 100256, "cl100k", 100277, "<|endoftext|>", SPECIALS(cl100k_specials), NULL, 0, 0, 0},
    {"o200k_base", 199998, "o200k", 200019, "<|endoftext|>", SPECIALS(o200k_specials), NULL, 0, 0, 0},
    {"Llama-3", 128000, "llama3", 128256, "<|end_of_text|>", SPECIALS(llama3_specials), "<|reserved_special_token_%d|>",
     128010, 5, 0},
    {"Qwen", 151643, "qwen", 151851, "<|endoftext|>", SPECIALS(qwen_specials), "<|extra_%d|>", 151646, 0, 0},
};

const struct tiktoken_known *tiktoken_find_known(int64_t rank_count, int64_t vocab_size) {
    const struct tiktoken_known *found = NULL;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].rank_count == rank_count && (!found || known[i].vocab_size == vocab_size))
            found = &known[i];
    return found;
}

// ---- Whisper ----

// Its languages in order.
static const char languages[] = "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu "
                                "ta no th ur hr bg lt la mi ml cy "
                                "sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr pa si km sn yo "
                                "so af oc ka be tg sd gu am yi lo "
                                "uz fo ht ps tk nn mt sa lb my bo tl mg as tt haw ln ha ba jw su yue";
static const char *const tasks[] = {"translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps"};
enum { TASKS = sizeof tasks / sizeof tasks[0], TIMES = 1501 };

int32_t tiktoken_whisper_count(const struct tiktoken_known *whisper) {
    return whisper->languages ? 1 + whisper->languages + TASKS + TIMES : 0;
}

char *tiktoken_whisper_name(const struct tiktoken_known *whisper, int32_t number) {
    if (number == 0)
        return memory_string("<|startoftranscript|>");
    const char *at = languages;
    for (int i = 1; i < number && i <= whisper->languages && at; i++)
        at = strchr(at + 1, ' ');
    if (number <= whisper->languages) {
        at += *at == ' ';
        return memory_printf("<|%.*s|>", (int)strcspn(at, " "), at);
    }
    number -= 1 + whisper->languages;
    if (number < TASKS)
        return memory_printf("<|%s|>", tasks[number]);
    int32_t hundredths = 2 * (number - TASKS);
    return memory_printf("<|%" PRId32 ".%02" PRId32 "|>", hundredths / 100, hundredths % 100);
}
