// The table of a run's flags, and the subset for commands that do not train. See flags.h.
#include "config/flags.h"
#include "config/config.h"

static const struct flag_table config_table = {.rows = {.next = &flags_model},
                                               .given = offsetof(struct config, given),
                                               .aliases = flags_aliases,
                                               .names = flags_groups,
                                               .names_count = FLAGS_GROUP_COUNT,
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
