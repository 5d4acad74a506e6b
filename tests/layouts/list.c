// The list of layouts, and the sample of it that has every pair of values which occurs together. See layouts.h.
#include "layouts.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Eight layers, heads and chunks of two sequences divide by up to eight ranks; the vocabulary never does.
static const char *const model_flags[MODEL_COUNT] = {
    "--num-layers 8 --num-attention-heads 8 --reset-attention-mask",
    "--num-layers 8 --num-attention-heads 16 --kv-channels 4 --group-query-attention --num-query-groups 8 --swiglu "
    "--ffn-hidden-size 48 --normalization RMSNorm --position-embedding-type rope --disable-bias-linear "
    "--untie-embeddings-and-output-weights --sliding-window 11",
    "--num-layers 8 --num-attention-heads 8 --model bert --norm-placement post --num-token-types 2",
    "--num-layers 4 --num-attention-heads 8 --model t5 --decoder-seq-length 16 --position-embedding-type relative"};
// Adam divides gradients by their own size, so one that is nothing but rounding (that of a key's bias, which changes no
// softmax) would become an update as large as any; a larger epsilon keeps it small.
static const char *const common_flags =
    "train --mock-data --hidden-size 32 --seq-length 32 --vocab-size 97 --make-vocab-size-divisible-by 1 "
    "--tokenizer-type NullTokenizer --lr 1e-3 --clip-grad 0.5 --train-iters 20 --hidden-dropout 0.1 "
    "--attention-dropout 0.1 --micro-batch-size 2 --adam-eps 1e-4";
static const char *const schedule_flags[] = {"", "--num-virtual-stages-per-pipeline-rank 2",
                                             "--num-virtual-stages-per-pipeline-rank 4",
                                             "--pipeline-schedule zero-bubble"};
static const char *const schedule_names[] = {"", " × 2", " × 4", " zero-bubble"};
static const char *const recompute_flags[] = {
    "", "--recompute-granularity selective --recompute-modules core_attn mlp_act",
    "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"};
static const char *const recompute_names[] = {"", ", recompute selective", ", recompute full"};
enum { SCHEDULES = 4, RECOMPUTES = 3 };

const char *model_text(enum model_name model) {
    static const char *const names[MODEL_COUNT] = {"gpt", "llama", "bert", "t5"};
    return names[model];
}

void layout_describe(const struct layout *layout, char *text, size_t size) {
    const int *v = layout->value;
    snprintf(text, size, "%s, %d ranks: tensor %d%s, context %d, pipeline %d%s, data %d%s%s%s",
             model_text((enum model_name)v[LAYOUT_MODEL]), layout->ranks, v[LAYOUT_TENSOR],
             v[LAYOUT_SEQUENCE] ? " with sequence" : "", v[LAYOUT_CONTEXT], v[LAYOUT_PIPELINE],
             schedule_names[v[LAYOUT_SCHEDULE]], v[LAYOUT_DATA], v[LAYOUT_OPTIMIZER] ? ", divided optimizer" : "",
             recompute_names[v[LAYOUT_RECOMPUTE]], layout->overlaps ? ", overlapped" : "");
}

// The fewest samples, but at least eight, that fill all stages of all data-parallel ranks evenly.
static int global_batch(const struct layout *layout) {
    int unit = 2 * layout->value[LAYOUT_DATA] * layout->value[LAYOUT_PIPELINE];
    return (8 + unit - 1) / unit * unit;
}

static int parse(struct config *config, const char *line, int ranks) {
    struct string_list words = {0};
    for (size_t length; *line; line += length) {
        line += strspn(line, " ");
        length = strcspn(line, " ");
        char *word = memory_printf("%.*s", (int)length, line);
        if (length > 0)
            string_list_add(&words, word);
        free(word);
    }
    int status = config_parse(config, (int)words.count, words.items);
    if (status == 0)
        status = config_validate(config, ranks);
    string_list_free(&words);
    if (status == 0)
        status = config_pad_vocab(config, config->vocab_size);
    return status;
}

int layout_config(struct config *config, const struct layout *layout, bool is_alone, const char *more) {
    const int *v = layout->value;
    struct buffer line = {0};
    buffer_printf(&line, "%s %s --global-batch-size %d %s", common_flags, model_flags[v[LAYOUT_MODEL]],
                  global_batch(layout), more);
    if (!is_alone) {
        buffer_printf(&line,
                      " --tensor-model-parallel-size %d --context-parallel-size %d --pipeline-model-parallel-size %d",
                      v[LAYOUT_TENSOR], v[LAYOUT_CONTEXT], v[LAYOUT_PIPELINE]);
        buffer_printf(&line, " %s %s%s%s", schedule_flags[v[LAYOUT_SCHEDULE]], recompute_flags[v[LAYOUT_RECOMPUTE]],
                      v[LAYOUT_SEQUENCE] ? " --sequence-parallel" : "",
                      v[LAYOUT_OPTIMIZER] ? " --use-distributed-optimizer" : "");
        if (layout->overlaps)
            buffer_printf(&line, " --overlap-grad-reduce%s", v[LAYOUT_OPTIMIZER] ? " --overlap-param-gather" : "");
    }
    int status = parse(config, buffer_string(&line), is_alone ? 1 : layout->ranks);
    buffer_free(&line);
    return status;
}

// Values that say nothing: a stream cannot be divided by one rank, nor an optimizer, and one stage has no schedule.
static bool is_idle(const struct layout *layout) {
    const int *v = layout->value;
    return (v[LAYOUT_TENSOR] == 1 && v[LAYOUT_SEQUENCE]) || (v[LAYOUT_PIPELINE] == 1 && v[LAYOUT_SCHEDULE]) ||
           (v[LAYOUT_DATA] * v[LAYOUT_CONTEXT] == 1 && v[LAYOUT_OPTIMIZER]);
}

static void add_if_legal(struct layout_list *list, struct layout layout) {
    struct config config;
    if (is_idle(&layout))
        return;
    layout.overlaps = list->count % 2 == 1;
    bool is_legal = layout_config(&config, &layout, false, "") == 0;
    config_free(&config);
    error_clear();
    if (!is_legal)
        return;
    list->items = memory_realloc(list->items, sizeof *list->items * (size_t)(list->count + 1));
    list->items[list->count++] = layout;
}

// All settings of the last four axes for one division of ranks.
static void add_settings(struct layout_list *list, struct layout layout) {
    for (int i = 0; i < 2 * SCHEDULES * 2 * RECOMPUTES; i++) {
        layout.value[LAYOUT_SEQUENCE] = i % 2;
        layout.value[LAYOUT_SCHEDULE] = i / 2 % SCHEDULES;
        layout.value[LAYOUT_OPTIMIZER] = i / 2 / SCHEDULES % 2;
        layout.value[LAYOUT_RECOMPUTE] = i / 2 / SCHEDULES / 2;
        add_if_legal(list, layout);
    }
}

// Which values of two axes the sample has together.
struct pairs {
    bool known[LAYOUT_AXES][MOST_RANKS + 1][LAYOUT_AXES][MOST_RANKS + 1];
};

static bool *pair_of(struct pairs *pairs, const struct layout *layout, int a, int b) {
    return &pairs->known[a][layout->value[a]][b][layout->value[b]];
}

static int new_pairs(struct pairs *pairs, const struct layout *layout) {
    int found = 0;
    for (int a = 0; a < LAYOUT_AXES; a++)
        for (int b = a + 1; b < LAYOUT_AXES; b++)
            found += !*pair_of(pairs, layout, a, b);
    return found;
}

// Takes the layout with the most new pairs until there are none; of equals the one with the fewest ranks.
static void choose_sample(struct layout_list *list) {
    struct pairs *pairs = memory_alloc(sizeof *pairs);
    for (struct layout *best = list->items; best;) {
        int most = 0;
        best = NULL;
        for (int i = 0; i < list->count; i++) {
            struct layout *layout = &list->items[i];
            int found = layout->ranks == 1 ? 0 : new_pairs(pairs, layout);
            if (found > most || (found == most && best && layout->ranks < best->ranks)) {
                most = found;
                best = layout;
            }
        }
        for (int a = 0; best && a < LAYOUT_AXES; a++)
            for (int b = a + 1; b < LAYOUT_AXES; b++)
                *pair_of(pairs, best, a, b) = true;
        if (best)
            best->is_in_sample = true;
    }
    free(pairs);
}

int layouts_make(struct layout_list *list) {
    *list = (struct layout_list){0};
    for (int model = 0; model < MODEL_COUNT; model++) {
        struct config config;
        struct layout alone = {.value = {model, 1, 1, 1, 1}, .ranks = 1};
        int status = layout_config(&config, &alone, false, "");
        config_free(&config);
        TRY(status);
        for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
            for (int tensor = 1; tensor <= ranks; tensor++)
                for (int context = 1; tensor * context <= ranks; context++)
                    for (int pipeline = 1; tensor * context * pipeline <= ranks; pipeline++) {
                        int data = ranks / (tensor * context * pipeline);
                        if (tensor * context * pipeline * data == ranks)
                            add_settings(list, (struct layout){.value = {model, tensor, context, pipeline, data},
                                                               .ranks = ranks});
                    }
    }
    choose_sample(list);
    return 0;
}

void layouts_free(struct layout_list *list) {
    free(list->items);
    *list = (struct layout_list){0};
}

void layouts_write(const struct layout_list *list, FILE *file) {
    for (int i = 0; i < list->count; i++) {
        const struct layout *layout = &list->items[i];
        for (int axis = 0; axis < LAYOUT_AXES; axis++)
            fprintf(file, "%d ", layout->value[axis]);
        fprintf(file, "%d %d %d\n", layout->ranks, layout->overlaps, layout->is_in_sample);
    }
}

int layouts_read(struct layout_list *list, FILE *file) {
    *list = (struct layout_list){0};
    struct layout layout;
    int *v = layout.value, overlaps, is_in_sample;
    while (fscanf(file, "%d %d %d %d %d %d %d %d %d %d %d %d", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7],
                  &v[8], &layout.ranks, &overlaps, &is_in_sample) == LAYOUT_AXES + 3) {
        layout.overlaps = overlaps;
        layout.is_in_sample = is_in_sample;
        list->items = memory_realloc(list->items, sizeof *list->items * (size_t)(list->count + 1));
        list->items[list->count++] = layout;
    }
    return list->count > 0 ? 0 : error_set("the list of layouts is empty; make it with: layouts list");
}
