// Settings of other programs as the command line that migrate.c reads: nanoGPT's config/*.py, torchtitan's TOML, the
// YAML of NeMo and Megatron-Bridge, and llm.c's flags. A table for each; a key that is in none is the flag of that name
// or a synonym of one. Files are read line by line, and nothing of them runs. See migrate.h.
#include "base/error.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/words.h"
#include "config/config.h"
#include "config/flag_internal.h"
#include "config/flags.h"
#include "config/migrate.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// Rows "KEY[=INITIAL][:VALUE] FLAGS;". INITIAL is what the program takes if the key is not given. % is the value, %=KEY
// that of another key, and %*KEY and %/KEY are computed with it. Rows with :VALUE are for this value; others are
// refused. A row without flags has no meaning here, nor has a KEY that ends in a dot, a section.
static const char nanogpt[] =
    "n_layer=12 --num-layers %; n_head=12 --num-attention-heads %; n_embd=768 --hidden-size %; "
    "block_size=1024 --seq-length %; batch_size=12 --micro-batch-size %; "
    "gradient_accumulation_steps=40 --global-batch-size %*batch_size; learning_rate=6e-4 --lr %; "
    "min_lr=6e-5 --min-lr %; weight_decay=0.1 --weight-decay %; beta1=0.9 --adam-beta1 %; beta2=0.95 --adam-beta2 %; "
    "grad_clip=1.0 --clip-grad %; max_iters=600000 --train-iters %; warmup_iters=2000 --lr-warmup-iters %; "
    "lr_decay_iters=600000 --lr-decay-iters %; decay_lr=true:true --lr-decay-style cosine; "
    "decay_lr:false --lr-decay-style constant; dropout=0 --hidden-dropout % --attention-dropout %; bias:true; "
    "bias=false:false --disable-bias-linear --no-norm-bias; eval_interval=2000 --eval-interval %; "
    "eval_iters=200 --eval-iters %; log_interval=1 --log-interval %; dtype=bfloat16:bfloat16 --bf16; "
    "dtype:float16 --fp16; dtype:float32; init_from:scratch; init_from:resume --resume; out_dir --save %; "
    "dataset=openwebtext --data-path % --vocab-size 50257; wandb_run_name --wandb-exp-name %; wandb_log; device; "
    "always_save_checkpoint; eval_only:false; eval_only:true --skip-train; compile; backend; ";

static const char torchtitan[] =
    "model.name; model.flavor --preset NAME-%; model.hf_assets_path --tokenizer-type HuggingFaceTokenizer "
    "--tokenizer-model %; model.tokenizer_path --tokenizer-type HuggingFaceTokenizer --tokenizer-model %; "
    "optimizer.name:AdamW --optimizer adam; optimizer.lr=8e-4 --lr %; optimizer.eps=1e-8 --adam-eps %; "
    "optimizer.beta1=0.9 --adam-beta1 %; optimizer.beta2=0.95 --adam-beta2 %; "
    "optimizer.weight_decay=0.1 --weight-decay %; training.global_batch_size:-1; "
    "optimizer.implementation; lr_scheduler.warmup_steps=200 --lr-warmup-iters %; lr_scheduler.decay_ratio:1; "
    "lr_scheduler.decay_type=linear:linear --lr-decay-style linear; "
    "lr_scheduler.decay_type:cosine --lr-decay-style cosine; lr_scheduler.min_lr_factor=0 --min-lr %*optimizer.lr; "
    "training.local_batch_size=8 --micro-batch-size %; training.seq_len=2048 --seq-length %; "
    "training.max_norm=1.0 --clip-grad %; training.dataset --data-path %; training.compile; "
    "training.mixed_precision_param=bfloat16:bfloat16 --bf16; training.mixed_precision_param:float32; "
    "parallelism.expert_parallel_degree --expert-model-parallel-size %; parallelism.data_parallel_replicate_degree; "
    "parallelism.data_parallel_shard_degree --use-distributed-optimizer; parallelism.fsdp_reshard_after_forward; "
    "activation_checkpoint.mode:none; activation_checkpoint.mode:full --recompute-granularity full; "
    "activation_checkpoint.mode:selective --recompute-granularity selective; checkpoint.enable:true --save "
    "%=checkpoint.folder; "
    "checkpoint.folder=checkpoint; checkpoint.interval --save-interval %; metrics.log_freq=10 --log-interval %; "
    "activation_checkpoint.; checkpoint.; "
    "metrics.; job.; profiling.; comm.; memory_estimation.; compile.; ";

static const char nemo[] =
    "trainer.max_steps --train-iters %; trainer.precision:bf16 --bf16; trainer.precision:bf16-mixed --bf16; "
    "trainer.precision:16 --fp16; trainer.precision:32; trainer.gradient_clip_val --clip-grad %; "
    "trainer.val_check_interval --eval-interval %; trainer.limit_val_batches --eval-iters %; "
    "trainer.log_every_n_steps --log-interval %; model.encoder_seq_length --seq-length %; "
    "model.optim.sched.warmup_steps --lr-warmup-iters %; model.optim.sched.constant_steps:0; "
    "model.optim.sched.name:CosineAnnealing --lr-decay-style cosine; model.optim.name:fused_adam; "
    "model.optim.name:distributed_fused_adam --use-distributed-optimizer; model.data.data_prefix --data-path %; "
    "model.data.splits_string --split %; model.activation:gelu; model.activation:swiglu --swiglu; "
    "model.activation:fast-swiglu --swiglu; model.normalization:layernorm; model.normalization:LayerNorm; "
    "model.normalization:rmsnorm --normalization RMSNorm; model.normalization:RMSNorm --normalization RMSNorm; "
    "model.bias:true; model.bias:false --disable-bias-linear; model.share_embeddings_and_output_weights:true; "
    "model.share_embeddings_and_output_weights:false --untie-embeddings-and-output-weights; "
    "dataset.sequence_length --seq-length %; dataset.data_path --data-path %; trainer.; exp_manager.; run.; name; "
    "model.mcore_gpt; _target_; ";

// -b and -t are of one rank, and -d counts tokens.
static const char llmc[] =
    "i --train-data-path %; j --valid-data-path %; e=d12:d12 --preset gpt2-124m; e:d24 --preset gpt2-355m; "
    "e:d36 --preset gpt2-774m; e:d48 --preset gpt2-1558m; b=4 --micro-batch-size %; t=1024 --seq-length %; "
    "d --global-batch-size %/t; l=3e-4 --lr % --lr-decay-style cosine --adam-beta2 0.95 --hidden-dropout 0 "
    "--attention-dropout 0 --bf16; q=1.0 --min-lr %*l; u=0 --lr-warmup-iters %; c=0 --weight-decay %; "
    "x --train-iters %; n --save-interval %; o --save %; v=20 --eval-interval %; m=20 --eval-iters %; r:0; "
    "r:1 --recompute-granularity selective --recompute-modules mlp_act; z:0; z:1 --use-distributed-optimizer; "
    "s; g; h; f; a; y; pi; pg; pm; ";

struct row {
    char *key, *initial, *when, *flags;
};

// The next row of a table; its texts are in `text`. False at the end.
static bool next_row(const char **at, char **text, struct row *row) {
    size_t length = strcspn(*at, ";");
    free(*text);
    *text = **at ? memory_printf("%.*s", (int)length, *at) : NULL;
    if (!*text)
        return false;
    *at += length + 1 + strspn(*at + length + 1, " ");
    char *space = strchr(*text, ' '), *when, *initial;
    *row = (struct row){.key = *text, .flags = space ? space + 1 : *text + length};
    if (space)
        *space = '\0';
    if ((when = strchr(*text, ':')))
        *when++ = '\0';
    if ((initial = strchr(*text, '=')))
        *initial++ = '\0';
    row->when = when;
    row->initial = initial;
    return true;
}

static const char *given(const struct string_list *pairs, const char *key) {
    for (int64_t i = pairs->count - 2; i >= 0; i -= 2)
        if (strcmp(pairs->items[i], key) == 0)
            return pairs->items[i + 1];
    return NULL;
}

static const char *initial_of(const char *table, const char *key, char **text) {
    struct row row;
    while (next_row(&table, text, &row))
        if (row.initial && strcmp(row.key, key) == 0)
            return row.initial;
    return NULL;
}

// One flag or value of a row, with the value in the place of %; a list is several words.
static void put_word(const char *table, const struct string_list *pairs, const char *word, const char *value,
                     struct string_list *words) {
    const char *percent = strchr(word, '%');
    char *text = NULL, *made = NULL;
    double a, b;
    if (percent && percent[1]) {
        const char *other =
            given(pairs, percent + 2) ? given(pairs, percent + 2) : initial_of(table, percent + 2, &text);
        bool is_known = other && number_read_double(value, &a) && number_read_double(other, &b) && b != 0;
        made = other && percent[1] == '=' ? memory_string(other)
               : is_known                 ? memory_printf("%.15g", percent[1] == '*' ? a * b : a / b)
                                          : memory_string(value);
    } else if (percent && percent > word) {
        const char *name = given(pairs, "model.name");
        made = memory_printf("%s-%s", name ? name : "", value);
        for (char *p = made; *p; p++)
            *p = (char)tolower((unsigned char)*p);
    }
    if (percent && !made)
        string_list_add_words(words, value);
    else
        string_list_add(words, made ? made : word);
    free(made);
    free(text);
}

// A key without a row: the last part of its name is a flag's, or the same in other words.
static void put_flag(const char *key, const char *value, struct string_list *words) {
    const char *dot = strrchr(key, '.');
    char *name = memory_printf("--%s", dot ? dot + 1 : key);
    const char *flag = name;
    struct flag_match match = {0};
    bool is_truth = strcmp(value, "true") == 0 || strcmp(value, "false") == 0;
    for (char *p = name; *p; p++)
        *p = *p == '_' ? '-' : *p;
    for (const struct flag_synonym *row = flags_synonyms; row->names; row++)
        if (row->target && !row->how && !strchr(row->target, ' ') && flag_name_listed(name, strlen(name), row->names))
            flag = row->target;
    (void)flag_resolve(config_command(), flag, strlen(flag), &match);
    bool is_switch = is_truth && match.arity == ARITY_NONE, is_off = is_switch && *value == 'f';
    if (!is_off || match.flag) {
        char *off = is_off ? memory_printf("%s=false", flag) : memory_string(flag);
        string_list_add(words, off);
        free(off);
    }
    if (!is_switch)
        string_list_add_words(words, value);
    free(name);
}

static void put_key(const char *table, const struct string_list *pairs, const char *key, const char *value,
                    struct string_list *words) {
    const char *at = table;
    char *text = NULL;
    struct row row;
    bool is_known = false, is_done = false;
    while (!is_done && next_row(&at, &text, &row)) {
        size_t length = strlen(row.key);
        bool is_section = length && row.key[length - 1] == '.' && strncmp(key, row.key, length) == 0;
        if (strcmp(row.key, key) != 0 && !(is_section && !is_known))
            continue;
        is_known = true;
        is_done = !row.when || strcmp(row.when, value) == 0;
        struct string_list flags = {0};
        string_list_add_words(&flags, is_done ? row.flags : "");
        for (int64_t i = 0; i < flags.count; i++)
            put_word(table, pairs, flags.items[i], value, words);
        string_list_free(&flags);
    }
    free(text);
    if (!is_done)
        put_flag(key, value, words);
}

static void convert(const char *table, const struct string_list *pairs, struct string_list *words) {
    const char *at = table;
    char *text = NULL;
    struct row row;
    for (int64_t i = 0; i < pairs->count; i += 2)
        if (given(pairs, pairs->items[i]) == pairs->items[i + 1])
            put_key(table, pairs, pairs->items[i], pairs->items[i + 1], words);
    while (next_row(&at, &text, &row))
        if (row.initial && !given(pairs, row.key))
            put_key(table, pairs, row.key, row.initial, words);
}

void migrate_llmc(const struct string_list *command, int64_t program, struct string_list *words) {
    struct string_list pairs = {0};
    for (int64_t i = 0; i <= program; i++)
        string_list_add(words, command->items[i]);
    for (int64_t i = program + 1; i + 1 < command->count; i += 2) {
        string_list_add(&pairs, command->items[i] + strspn(command->items[i], "-"));
        string_list_add(&pairs, command->items[i + 1]);
    }
    convert(llmc, &pairs, words);
    string_list_free(&pairs);
}

// ---- files ----

static const struct {
    const char *ending, *table;
} kinds[] = {{".py", nanogpt}, {".toml", torchtitan}, {".yaml", nemo}, {".yml", nemo}};

static const char *table_of(const char *name) {
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (length > strlen(kinds[i].ending) && strcmp(name + length - strlen(kinds[i].ending), kinds[i].ending) == 0)
            return kinds[i].table;
    return NULL;
}

bool migrate_is_settings(const char *name) {
    return table_of(name) != NULL;
}

// Without quotes and brackets; products of numbers are computed, and a value that says nothing is empty.
static void clean_value(const char *value, struct buffer *out) {
    double product = 1, factor;
    char *end;
    buffer_clear(out);
    for (const char *p = value; strchr(value, '*'); p = end + 1) {
        factor = strtod(p, &end);
        end += strspn(end, " ");
        product *= factor;
        if (end == p || (*end && *end != '*'))
            break;
        if (!*end) {
            buffer_printf(out, "%.15g", product);
            return;
        }
    }
    bool is_list = *value == '[';
    for (; *value; value++)
        if (!strchr("\"'[]", *value))
            buffer_append_byte(out, is_list && *value == ',' ? ' ' : *value);
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", ""}, {"null", ""}, {"~", ""}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(buffer_string(out), words[i][0]) == 0) {
            buffer_clear(out);
            buffer_append_string(out, words[i][1]);
        }
}

enum { MOST_DEPTH = 16, MOST_PAIRS = 4096, LONGEST_VALUE = 1 << 16 };

struct settings {
    struct string_list pairs;
    char *sections[MOST_DEPTH];  // of the lines above, by their depth
    size_t indents[MOST_DEPTH];
    int depth, items;
    bool is_python, in_text;  // between two """
};

static int read_line(struct settings *settings, char *line) {
    yaml_line_trim(line, " =:[,");
    size_t indent = strspn(line, " ");
    line += indent;
    char *end = line + strcspn(line, "=:"), *value = *end ? end + 1 + strspn(end + 1, " ") : end;
    bool is_text = strstr(line, "\"\"\"") != NULL, is_item = strncmp(line, "- ", 2) == 0, is_section = *line == '[';
    if (is_text || settings->in_text || !*line || strncmp(line, "import ", 7) == 0 || strncmp(line, "---", 3) == 0) {
        for (const char *p = line; (p = strstr(p, "\"\"\"")); p += 3)
            settings->in_text = !settings->in_text;
        return 0;
    }
    if (is_item && settings->pairs.count) {
        char **last = &settings->pairs.items[settings->pairs.count - 1];
        if (strlen(*last) > LONGEST_VALUE || ++settings->items > MOST_PAIRS)
            return -1;
        char *longer = memory_printf("%s %s", *last, line + 2);
        free(*last);
        *last = longer;
        return 0;
    }
    while (settings->depth &&
           (is_section || (!settings->is_python && *end == ':' && settings->indents[settings->depth - 1] >= indent)))
        free(settings->sections[--settings->depth]);
    size_t length = is_section ? strcspn(line + 1, "]") : (size_t)(end - line);
    while (length && !is_section && line[length - 1] == ' ')
        length--;
    bool is_key = length && strspn(line + is_section,
                                   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == length;
    if (!is_key || settings->depth == MOST_DEPTH || settings->pairs.count >= MOST_PAIRS)
        return -1;
    const char *outer = settings->depth ? settings->sections[settings->depth - 1] : "";
    char *key = memory_printf("%s%.*s", outer, (int)length, line + is_section);
    if (is_section || (*end == ':' && !*value)) {
        settings->indents[settings->depth] = is_section ? 0 : indent;
        settings->sections[settings->depth++] = memory_printf("%s.", key);
    }
    struct buffer text = {0};
    clean_value(is_section ? "" : value, &text);
    string_list_add(&settings->pairs, key);
    string_list_add(&settings->pairs, buffer_string(&text));
    buffer_free(&text);
    free(key);
    return 0;
}

// Keys with a value; with those of the launcher before the program.
static void make_call(const char *name, const struct string_list *pairs, struct shell_reading *reading) {
    static const char *const launcher[][2] = {{"trainer.num_nodes", "--nnodes"},
                                              {"trainer.devices", "--nproc_per_node"}};
    struct string_list kept = {0};
    MEMORY_GROW(reading->calls, reading->call_count, reading->call_capacity);
    struct shell_call *call = &reading->calls[reading->call_count++];
    *call = (struct shell_call){.line = 1, .is_sure = true};
    for (size_t i = 0; i < sizeof launcher / sizeof launcher[0]; i++)
        if (given(pairs, launcher[i][0])) {
            string_list_add(&call->words, launcher[i][1]);
            string_list_add(&call->words, given(pairs, launcher[i][0]));
        }
    string_list_add(&call->words, "train.py");
    for (int64_t i = 0; i < pairs->count; i += 2)
        if (*pairs->items[i + 1]) {
            string_list_add(&kept, pairs->items[i]);
            string_list_add(&kept, pairs->items[i + 1]);
        }
    convert(table_of(name), &kept, &call->words);
    string_list_free(&kept);
}

int migrate_read_settings(const char *name, const struct buffer *file, struct shell_reading *reading) {
    struct settings settings = {.is_python = table_of(name) == nanogpt};
    const char *text = buffer_string(file), *end = text + file->length;
    int status = 0;
    *reading = (struct shell_reading){0};
    for (int64_t number = 1; status == 0 && text < end; number++) {
        size_t length = strcspn(text, "\n");
        char *line = memory_printf("%.*s", (int)length, text);
        bool is_text = text[length] == '\n' || text + length == end;
        for (const char *p = line; *p; p++)
            is_text = is_text && ((unsigned char)*p >= ' ' || *p == '\t' || *p == '\r');
        if (!is_text || read_line(&settings, line) < 0)
            status = error_set_code(EXIT_CODE_USAGE,
                                    "%s, line %" PRId64 ": migrate cannot read this setting; give a file of lines "
                                    "\"name = value\" or \"name: value\"",
                                    name, number);
        free(line);
        text += length + 1;
    }
    if (status == 0)
        make_call(name, &settings.pairs, reading);
    while (settings.depth)
        free(settings.sections[--settings.depth]);
    string_list_free(&settings.pairs);
    return status;
}
