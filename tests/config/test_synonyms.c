// Names of other programs: their table is consistent, and each leads to the flag that does the same.
#include "parse_line.h"
#include "test.h"
#include "base/memory.h"
#include "config/config.h"
#include "config/flag_internal.h"
#include "config/flags.h"

static struct config config;

static int parse(const char *line) {
    return parse_line(&config, line);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_name(struct string_list *list, const char *name, size_t length) {
    char *copy = memory_printf("%.*s", (int)length, name);
    string_list_add(list, copy);
    free(copy);
}

// The flags in the text of a synonym's row are flags of train.
static void expect_flags(const char *text) {
    static const char beside[] = "--nproc ";  // of the command, not of the table
    for (const char *p = text ? strstr(text, "--") : NULL; p; p = strstr(p + 2, "--")) {
        size_t length = strcspn(p + 2, " ,;:=") + 2;
        struct flag_match match;
        bool is_foreign = length == 12 && strncmp(p, "--max-tokens", 12) == 0;  // named as fairseq's
        if (!is_foreign && !flag_name_listed(p, length, beside) &&
            !(flag_resolve(config_command(), p, length, &match) && match.flag))
            test_fail("%s: %.*s is not a flag", text, (int)length, p);
    }
}

// No name of another program is one of ours or Megatron's, none occurs twice, and each leads to an existing flag.
TEST(synonyms_are_sound) {
    struct flag_table table = config_flag_table(0);
    struct string_list names = {0};
    for (const struct flag_synonym *row = table.synonyms; row->names; row++) {
        EXPECT(row->target || row->how);
        expect_flags(row->target);
        expect_flags(row->how);
        const char *cursor = row->names, *name;
        size_t length;
        while ((name = flag_next_name(&cursor, &length))) {
            struct flag_match match;
            if (flag_resolve(config_command(), name, length, &match))
                test_fail("%.*s is known, and needs no synonym", (int)length, name);
            add_name(&names, name, length);
        }
    }
    qsort(names.items, (size_t)names.count, sizeof *names.items, compare_names);
    for (int64_t i = 1; i < names.count; i++)
        if (strcmp(names.items[i], names.items[i - 1]) == 0)
            test_fail("%s stands twice in the synonyms", names.items[i]);
    EXPECT(names.count > 300);
    string_list_free(&names);
}

// What users of other programs type, and the flag that does the same here. The left side is from the argument lists of
// Hugging Face's Trainer and run_clm.py, nanoGPT, llm.c, fairseq, NeMo, DeepSpeed, torchtitan, LitGPT and axolotl.
TEST(synonyms_by_meaning) {
    static const char *const cases[][2] = {
        {"--learning-rate 1", "use --lr"},
        {"--learning_rate=1", "unknown flag --learning_rate; use --lr"},
        {"--num-train-epochs 3", "use --epochs"},
        {"--max-epochs 3", "use --epochs"},
        {"--max_steps 3", "use --train-iters"},
        {"--max-iters 3", "use --train-iters"},
        {"--block-size 8", "use --seq-length"},
        {"--context-length 8", "use --seq-length"},
        {"--warmup-steps 8", "use --lr-warmup-iters"},
        {"--warmup-ratio 0.1", "use --lr-warmup-fraction"},
        {"--num-heads 8", "use --num-attention-heads"},
        {"--n-head 8", "use --num-attention-heads"},
        {"--num-kv-heads 8", "use --group-query-attention and --num-query-groups: a switch, and"},
        {"--rope-theta 1", "use --rotary-base"},
        {"--grad-clip 1", "use --clip-grad: 0 for no clipping"},
        {"--max-grad-norm 1", "use --clip-grad"},
        {"--dropout 0", "use --hidden-dropout and --attention-dropout"},
        {"--dtype bfloat16", "use --bf16 or --fp16"},
        {"--output-dir x", "use --save"},
        {"--out_dir x", "use --save"},
        {"--auto-resume", "use --load"},
        {"--save-best", "use --keep-best"},
        {"--resume-from-checkpoint x", "use --load"},
        {"--per-device-train-batch-size 1", "use --micro-batch-size"},
        {"--gradient-accumulation-steps 1", "use --global-batch-size: --micro-batch-size × data-parallel ranks"},
        {"--n-layer 1", "use --num-layers"},
        {"--n_embd 1", "use --hidden-size"},
        {"--eval-steps 1", "use --eval-interval"},
        {"--save-steps 1", "use --save-interval"},
        {"--logging-steps 1", "use --log-interval"},
        {"--min-lr-ratio 0.1", "use --min-lr: a learning rate, not a share"},
        {"--num-tokens 1", "use --tokens"},
        {"--dataset a.jsonl", "use --data-path: text (.jsonl, .txt, a folder), or the PREFIX of a dataset"},
        {"--data a", "use --data-path: text (.jsonl"},
        {"--train_file a", "use --data-path: text (.jsonl"},
        {"--optimizer.lr 1e-3", "unknown flag --optimizer.lr; use --lr"},
        {"--training.steps 10", "unknown flag --training.steps; use --train-iters"},
        {"--training.seq_len 10", "unknown flag --training.seq_len; use --seq-length"},
        {"--training.local_batch_size 10", "use --micro-batch-size"},
        {"--training.dataset c4", "unknown flag --training.dataset; use --data-path: text"},
        {"--parallelism.tensor_parallel_degree 2", "use --tensor-model-parallel-size"},
        {"--parallelism.data_parallel_shard_degree 2", "use --use-distributed-optimizer: the data-parallel size"},
        {"--lr_scheduler.warmup_steps=10", "unknown flag --lr_scheduler.warmup_steps; use --lr-warmup-iters"},
        {"--checkpoint.interval 500", "unknown flag --checkpoint.interval; use --save-interval"},
        {"--model.flavor 8B", "use --preset"},
        {"--use-lora", "unknown flag --use-lora; adapters (LoRA) are not offered: training changes all weights"},
        {"--lora-r 8", "adapters (LoRA) are not offered"},
        {"--early-stopping-patience 3", "early stopping is not offered: choose the length with --epochs"},
        {"--packing", "unknown flag --packing; leave it out: documents are packed"},
        {"--push-to-hub", "nothing is sent to a hub: `bevatron checkpoint convert` writes a folder"},
        {"--hub-model-id a/b", "nothing is sent to a hub"},
        {"--compile", "unknown flag --compile; leave it out"},
        {"--tensor-parallel-size 2", "use --tensor-model-parallel-size"},
        {"--use-deepspeed", "use --use-distributed-optimizer"},
        {"--gradient-checkpointing", "use --recompute-granularity"},
        {"--beta2 .9", "use --adam-beta2"},
        {"--text-column content", "--json-keys"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EXPECT_ERROR(parse(cases[i][0]), cases[i][1]);
        EXPECT_INT(error_exit_code(), EXIT_CODE_USAGE);
    }
    // Not by spelling: a name that only resembles one of ours gets no advice.
    EXPECT_ERROR(parse("--critic-learning-rate 1"), "lists all flags");
    EXPECT_ERROR(parse("--num-layres 1"), "did you mean --num-layers?");
    // A command without the flag names the command that has it.
    struct flag_table tables[] = {config_flag_table_for(0, CONFIG_GENERATE)};
    struct config other;
    struct flag_command generate = {.name = "generate", .tables = tables, .table_count = 1};
    char *argv[] = {"generate", "--learning-rate", "1", "--n-ctx", "8"};
    EXPECT_ERROR(flags_parse(&generate, &other, 5, argv),
                 "1. unknown flag --learning-rate; --lr is a flag of train, not of generate");
    EXPECT(strstr(error_message(), "2. unknown flag --n-ctx; use --seq-length") != NULL);
    flags_free(&generate, &other);
}

TEST_MAIN(TEST_CASE(synonyms_are_sound), TEST_CASE(synonyms_by_meaning))
