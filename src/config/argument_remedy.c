// Remedies for words of the command line that are not flags: names of Megatron's scripts, and a schedule that the shell
// has split.
#include "config/config.h"
#include "config/presets.h"
#include "base/file.h"

#include <string.h>

// TOKENS:SIZE, e.g. 2.4B:320.
static bool is_batch_step(const char *argument) {
    size_t tokens = strspn(argument, "0123456789._");
    size_t unit = tokens + strspn(argument + tokens, "KMBTkmbt");
    const char *size = argument + unit + 1;
    return tokens > 0 && argument[unit] == ':' && *size && size[strspn(size, "0123456789_")] == '\0';
}

// gpt3 for gpt3-175b.
static bool begins_preset(const char *argument) {
    for (size_t i = 0; preset_at(i); i++)
        if (strncmp(preset_at(i)->name, argument, strlen(argument)) == 0)
            return true;
    return false;
}

const char *config_argument_remedy(const char *argument) {
    static const struct {
        const char *script;
        const char *remedy;
    } scripts[] = {
        {"pretrain_bert.py", "give --model bert instead of the script"},
        {"pretrain_t5.py", "give --model t5 instead of the script"},
        {"pretrain_ict.py", "give --model ict instead of the script"},
        {"pretrain_gpt.py", "leave the script out: --model gpt is the default"},
        {"pretrain_gpt2.py", "leave the script out: --model gpt is the default"},
        {".sh", "give the flags of train, which a script repeats, or run the script itself with bash"},
        {".json",
         "a file of flags is --config FILE, DeepSpeed's --deepspeed --deepspeed-config FILE, text or a dataset "
         "--data-path PATH"},
        {".py", "leave the script out and choose the family with --model (`bevatron help train`)"},
    };
    size_t length = strlen(argument);
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        size_t end = strlen(scripts[i].script);
        if (length >= end && strcmp(argument + length - end, scripts[i].script) == 0)
            return scripts[i].remedy;
    }
    if (is_batch_step(argument))
        return "quote the value of --step-batch-size-schedule: \"0:16 2.4B:320\"; in a script, \"${ARGS[@]}\"";
    // Word processors and web pages make one dash of two hyphens.
    if (strncmp(argument, "—", 3) == 0 || strncmp(argument, "–", 3) == 0)
        return "it begins with a typographic dash; flags begin with two hyphens, --";
    if (begins_preset(argument))
        return "a published size is --preset NAME (`bevatron help presets`)";
    if (file_exists(argument))
        return "text or a dataset is --data-path PATH, a file of flags --config FILE, a checkpoint --load FOLDER";
    return NULL;
}
