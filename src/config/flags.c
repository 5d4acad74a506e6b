// The table of a run's flags, and the subset for commands that do not train. See flags.h.
#include "config/flags.h"
#include "base/file.h"
#include "config/config.h"
#include "config/flag_internal.h"
#include <string.h>

// Messages about flags without a row: the lists of flags_megatron.c and flags_megatron.c, each with its message.
static const struct flag_names flags_groups[] = {
    {flags_always_so, "is how bevatron always works; the flag is not needed", false},
    {flags_forks_always_so, "is how bevatron always works; the flag is not needed", false},
    {flags_forks_only_speed, "tunes the speed or memory of Megatron's own code and changes no numbers; ignored", false},
    {flags_forks_no_meaning, "has no meaning in bevatron; ignored", false},
    {flags_finetuning,
     "is for finetuning on questions and answers, which bevatron does not do; leave it out to pretrain", true},
    {flags_pai_dataset,
     "does not name data here; use --data-path: text (.jsonl, .txt, a folder), or the PREFIX of a dataset that "
     "`bevatron preprocess` wrote",
     true},
    {flags_deepspeed_checkpoint,
     "reads a checkpoint of DeepSpeed, which bevatron cannot; convert it to Hugging Face's or Megatron's format and "
     "give --load",
     true},
    {flags_deepspeed_experts,
     "is for DeepSpeed's experts, which gate tokens in another way; use --moe-router-topk, --moe-aux-loss-coeff and "
     "--moe-expert-capacity-factor",
     true},
    {flags_forks_other_models,
     "describes a model or a loss that bevatron does not have; without it the run would be another", true},
    {flags_distillation, "is for distillation, which bevatron does not do; leave it out to train without a teacher",
     true},
    {flags_only_speed, "tunes the speed or memory of Megatron's own code and changes no numbers; ignored", false},
    {flags_no_meaning, "has no meaning in bevatron; ignored", false},
    {flags_finer, "reduces a precision that bevatron keeps; ignored", false},
    {flags_other_models, "describes a model that bevatron cannot train; without the flag it would be another model",
     true},
    {flags_torchrun,
     "is a torchrun flag; use --nproc N on one machine, mpirun or srun on several (torchrun --no-python also works, on "
     "GPUs)",
     true},
    {flags_refused, "is a Megatron flag that bevatron does not implement; it would change the run, so leave it out",
     true},
};

static const struct flag_table config_table = {.rows = {.next = &flags_model},
                                               .given = offsetof(struct config, given),
                                               .aliases = flags_aliases,
                                               .names = flags_groups,
                                               .names_count = sizeof flags_groups / sizeof flags_groups[0],
                                               .synonyms = flags_synonyms,
                                               .derived = "world_size data_parallel_size params_dtype schedule",
                                               .beside = "--nproc --dry-run --plot "};

static const struct flag_command train_command = {
    .name = "train",
    .summary = "Trains a language model on a dataset of token ids.",
    .tables = &config_table,
    .table_count = 1,
    .argument_remedy = config_argument_remedy,
    .epilogue = "Example:\n"
                "  bevatron train --preset gpt2-124m --data-path my_text_document --vocab-file vocab.json \\\n"
                "      --merge-file merges.txt --seq-length 1024 --micro-batch-size 4 --global-batch-size 64 \\\n"
                "      --train-iters 10000 --lr 6e-4 --lr-warmup-iters 200 --save out --save-interval 1000"};

struct flag_table config_flag_table(size_t base) {
    struct flag_table table = config_table;
    table.base = base;
    return table;
}

const struct flag_command *config_command(void) {
    return &train_command;
}

struct flag_table config_flag_table_for(size_t base, enum config_use use) {
    struct flag_table table = config_flag_table(base);
    if (use != CONFIG_EVALUATE && use != CONFIG_GENERATE)
        return table;
    table.offered = USE_MODEL | USE_TOKENIZER | USE_ANYWHERE | (use == CONFIG_EVALUATE ? USE_EVALUATE : 0);
    table.refusal =
        use == CONFIG_EVALUATE ? "is a flag of train, not of evaluate" : "is a flag of train, not of generate";
    table.essential = USE_ESSENTIAL;
    return table;
}

// ---- what an argument that is not a flag probably meant ----

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

// ---- the reference page, docs/flags.md ----

static void append_aliases(const struct flag_table *table, struct buffer *out) {
    buffer_append_string(out, "\n## Other names\n\nNames from older releases of Megatron-LM, and short forms.\n\n"
                              "| name | stands for |\n|---|---|\n");
    for (const struct flag_alias *alias = table->aliases; alias->name; alias++) {
        bool continues = alias > table->aliases && strcmp(alias->name, alias[-1].name) == 0;
        if (continues)
            out->length -= strlen(" |\n");
        else
            buffer_printf(out, "| `%s` | ", alias->name);
        buffer_printf(out, "%s`%s%s%s` |\n", continues ? " " : "", alias->target, alias->value ? " " : "",
                      alias->value ? alias->value : "");
    }
}

enum { LINE_WIDTH = 160, NAMES_SHOWN = 3 };

static void append_names(const struct flag_names *names, struct buffer *out) {
    buffer_printf(out, "\n**Each of these %s:**\n\n", names->message);
    const char *cursor = names->names, *name;
    size_t length, line = out->length;
    int count = 0;
    for (bool first = true; (name = flag_next_name(&cursor, &length)); first = false) {
        length = strcspn(name, "= ");
        if (++count > NAMES_SHOWN)
            continue;
        bool is_full = out->length - line + length > LINE_WIDTH;
        buffer_append_string(out, first ? "" : is_full ? ",\n" : ", ");
        line = is_full ? out->length : line;
        buffer_printf(out, "`%.*s`", (int)length, name);
    }
    if (count > NAMES_SHOWN)
        buffer_printf(out, " and %d more", count - NAMES_SHOWN);
    buffer_append_string(out, "\n");
}

void config_markdown(struct buffer *out) {
    buffer_append_string(
        out, "# Flags of a run\n\n"
             "Generated by `bevatron help flags --markdown`; do not edit.\n\n"
             "`--flag value` and `--flag=value` are the same. A switch takes no value; `--flag=false` clears it.\n"
             "`--config FILE` reads flags from a file: YAML with one `flag: value` per line, or a JSON object.\n"
             "The command line overrides the file. If a flag is given twice, the last one counts.\n");
    flags_markdown(config_command(), out);
    struct flag_table table = config_flag_table(0);
    append_aliases(&table, out);
    buffer_append_string(out, "\n## Megatron-LM flags that bevatron does not have\n\n"
                              "`bevatron train --dry-run` with your flags says of each what becomes of it. "
                              "Long lists are cut here.\n");
    for (size_t i = 0; i < table.names_count; i++)
        append_names(&table.names[i], out);
}
