// Searches: the best of all layouts is found without planning all of them, flags that are given stay, and what does not
// fit or divide is told.
// cost: 5
#include "base/memory.h"
#include "config/config.h"
#include "plan/search.h"
#include "test.h"
#include "train/automatic.h"
#include "train/dry_run.h"
#include "words.h"

#include <stdlib.h>
#include <string.h>

#define MODEL "--num-layers 4 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --vocab-size 50304 "
#define BATCH "--max-position-embeddings 2048 --global-batch-size 8 "

static struct config config;
static struct hardware hardware;

static struct search_options options_of(const char *flags, int gpus, const char *machine) {
    char *line = memory_printf("train --mock-data --train-iters 1 --tokenizer-type NullTokenizer %s", flags);
    struct string_list words = {0};
    struct automatic open;
    split_words(&words, line);
    EXPECT_OK(config_parse(&config, (int)words.count, words.items));
    EXPECT_OK(automatic_begin(&open, &config));
    string_list_free(&words);
    free(line);
    struct search_options options = {.base = &config,
                                     .machines = {machine_find(machine)},
                                     .machine_count = 1,
                                     .gpus = gpus,
                                     .children = 1,
                                     .set_vocabulary = planned_vocabulary_set};
    EXPECT_OK(hardware_of(&hardware, options.machines[0]));
    options.hardware[0] = &hardware;
    return options;
}

// A layout needs at least the formula's lower bound.
static void check_least(const struct layout_search *search, const struct search_item *item, const struct plan *plan) {
    double bytes = (double)plan->stage[plan->fullest].memory.total;
    EXPECT(estimate_least_bytes(&search->estimators[0], &item->layout) < bytes);
}

static double plan_seconds(const struct layout_search *search, const struct search_item *item) {
    struct plan plan = {0};
    struct config made;
    EXPECT_OK(layout_configure(&search->spaces[0], &item->layout, &made));
    EXPECT_OK(plan_make(&plan, &(struct plan_options){.config = &made,
                                                      .ranks = search->options.gpus,
                                                      .machine = search->options.machines[0],
                                                      .room = plan_room(search->options.machines[0])}));
    config_free(&made);
    check_least(search, item, &plan);
    return plan.seconds;
}

// Every layout that the rules allow is valid, and none is better than the one that was found.
TEST(the_best_is_found) {
    struct layout_search search;
    struct search_options options = options_of(MODEL BATCH "--bf16", 4, "p5.48xlarge");
    EXPECT_OK(search_open(&search, &options));
    const struct search_item *best = &search.items[search.proposals[0]];
    EXPECT_INT(search_count(&search, SEARCH_INVALID), 0);
    EXPECT(search_count(&search, SEARCH_NEW) > search.count / 4);
    int better = 0;
    // Of those that were not planned, every fourth.
    for (int i = 0; i < search.count; i++)
        if (search.items[i].outcome == SEARCH_NEW && i % 4 == 0) {
            double seconds = plan_seconds(&search, &search.items[i]);
            better += seconds > 0 && seconds < 0.99 * best->plan->seconds;
        }
    EXPECT_INT(better, 0);
    for (int i = 0; i < search.count; i++)
        if (search.items[i].outcome == SEARCH_PLANNED)
            check_least(&search, &search.items[i], search.items[i].plan);
    // Small models need no model parallelism.
    EXPECT_INT(best->layout.data, 4);
    search_close(&search);
    config_free(&config);
}

// With experts the formula counts their rows, and the room for those of other ranks; a layout that does not fit says
// what would limit it.
TEST(experts_are_counted) {
    struct layout_search search;
    struct search_options options =
        options_of(MODEL BATCH "--bf16 --num-experts 16 --moe-router-topk 4 --swiglu --ffn-hidden-size 1024 "
                               "--micro-batch-size 1 --context-parallel-size 1 --sequence-parallel",
                   4, "p5.48xlarge");
    EXPECT_OK(search_open(&search, &options));
    int shared = 0;
    for (int i = 0; i < search.count; i++) {
        struct search_item *item = &search.items[i];
        if (item->outcome == SEARCH_NEW && i % 8 == 0)
            (void)plan_seconds(&search, item);
        else if (item->plan)
            check_least(&search, item, item->plan);
        shared += item->layout.expert > 1;
    }
    EXPECT(shared > 0);
    struct search_item *best = &search.items[search.proposals[0]], large = *best;
    struct buffer out = {0};
    large.outcome = SEARCH_TOO_LARGE;
    large.layout.expert = 2;
    search_why_worse(&search, &large, best, &out);
    EXPECT(strstr(buffer_string(&out), "--moe-expert-capacity-factor"));
    buffer_free(&out);
    search_close(&search);
    config_free(&config);
}

static bool has_one_that_recomputes_less(const struct layout_search *search, const struct plan_layout *layout) {
    for (int i = 0; i < search->count; i++) {
        const struct search_item *other = &search->items[i];
        if (other->outcome == SEARCH_PLANNED && other->layout.micro_batch == layout->micro_batch &&
            layout_needs_less(layout, &other->layout))
            return true;
    }
    return false;
}

// Of the layouts with promising estimates, a search leaves out only those that do not fit, or that recompute more than
// one that does: those of a search that plans all.
static void expect_nothing_missed(const struct layout_search *search, const struct layout_search *whole) {
    const struct search_item *best = &search->items[search->proposals[0]];
    double promising = 1.12 * (best->estimate < best->plan->seconds ? best->estimate : best->plan->seconds);
    int left_out = 0, missed = 0;
    for (int i = 0; i < search->count; i++) {
        const struct search_item *item = &search->items[i];
        int same = search_find(whole, &item->layout, 0);
        if (same < 0)
            continue;
        enum search_outcome truth = whole->items[same].outcome;
        if (item->outcome != SEARCH_NEW) {
            EXPECT_INT(item->outcome, truth);
        } else if (item->estimate <= promising) {
            left_out++;
            missed += truth != SEARCH_TOO_LARGE && !has_one_that_recomputes_less(search, &item->layout);
        }
    }
    EXPECT(left_out > 0);
    EXPECT_INT(missed, 0);
}

static void compare_with_all(const char *flags) {
    struct layout_search search, whole;
    struct search_options options = options_of(flags, 16, "p5.48xlarge");
    options.children = 2;
    EXPECT_OK(search_open(&search, &options));
    options.plans_all = true;
    EXPECT_OK(search_open(&whole, &options));
    EXPECT_INT(search_count(&whole, SEARCH_NEW), 0);
    const struct search_item *a = &search.items[search.proposals[0]], *b = &whole.items[whole.proposals[0]];
    EXPECT(layout_is_same(&a->layout, &b->layout) && a->plan->seconds == b->plan->seconds);
    expect_nothing_missed(&search, &whole);
    search_close(&whole);
    search_close(&search);
    config_free(&config);
}

TEST(nothing_is_missed) {
    compare_with_all("--preset qwen3-30b-a3b --vocab-size 151936 --seq-length 4096 --global-batch-size 256 --bf16 "
                     "--tensor-model-parallel-size 1 --context-parallel-size 1 --expert-model-parallel-size 1");
}

static void count_fp8(void *context, const struct plan_layout *layout) {
    *(int *)context += layout->precision == LAYOUT_FP8;
}

// Only what train takes is listed: with clamps, fp8 if all MLPs are routed experts.
TEST(precisions_that_train_refuses_are_not_listed) {
    static const char *const models[] = {
        MODEL BATCH "--swiglu ", MODEL BATCH "--swiglu --activation-func-clamp-value 7 ",
        MODEL BATCH "--swiglu --activation-func-clamp-value 7 --num-experts 8 --moe-router-topk 2 ",
        MODEL BATCH "--swiglu --activation-func-clamp-value 7 --num-experts 8 --moe-router-topk 2 "
                    "--moe-layer-freq [0,1,1,1] ",
        MODEL BATCH "--swiglu --ffn-hidden-size 2056 "};
    static const bool are_listed[] = {true, false, true, false, false};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct layout_search search;
        struct search_options options = options_of(models[i], 1, "p5.48xlarge");
        int listed = 0;
        EXPECT_OK(search_open(&search, &options));
        layout_list(&search.spaces[0], count_fp8, &listed);
        EXPECT((listed > 0) == are_listed[i]);
        EXPECT_INT(search_count(&search, SEARCH_INVALID), 0);
        search_close(&search);
        config_free(&config);
    }
}

struct listed_layouts {
    struct plan_layout *items;
    int count, room;
};

static void keep_layout(void *context, const struct plan_layout *layout) {
    struct listed_layouts *listed = context;
    if (listed->count == listed->room) {
        listed->room = 2 * listed->room + 64;
        listed->items = memory_realloc(listed->items, sizeof *listed->items * (size_t)listed->room);
    }
    listed->items[listed->count++] = *layout;
}

static bool is_taken(const struct layout_space *space, const struct plan_layout *layout) {
    struct config made;
    bool is_valid = layout_configure(space, layout, &made) == 0 &&
                    plan_check_precision(&made, space->machine, space->hardware) == 0;
    error_clear();
    config_free(&made);
    return is_valid;
}

// Answers about fp8 are kept by the sizes of a rank's matmuls. Nothing else that layouts choose matters: each one that
// is listed in bf16 is listed in fp8 beside it just if a validation of its own says so.
TEST(fp8_depends_on_nothing_but_sizes) {
    static const char *const models[] = {
        // 24 of the FFN on each of 4 ranks, 2,056 tokens of a context on each of 2, cannot be in fp8.
        "--num-layers 4 --hidden-size 256 --num-attention-heads 4 --ffn-hidden-size 96 --seq-length 4112 "
        "--max-position-embeddings 4112 --vocab-size 512 --global-batch-size 8",
        "--num-layers 2 --hidden-size 128 --num-attention-heads 4 --ffn-hidden-size 64 --seq-length 24 --swiglu "
        "--max-position-embeddings 24 --vocab-size 512 --global-batch-size 8 --num-experts 4 --moe-ffn-hidden-size 96 "
        "--recompute-modules mlp_act"};
    for (int i = 0; i < 2; i++) {
        struct layout_search search;
        struct listed_layouts listed = {0};
        struct search_options options = options_of(models[i], i == 0 ? 8 : 4, "p5.48xlarge");
        EXPECT_OK(search_open(&search, &options));
        layout_list(&search.spaces[0], keep_layout, &listed);
        int both = 0, alone = 0;
        for (int k = 0; k < listed.count; k++) {
            struct plan_layout eight = listed.items[k];
            if (eight.precision != LAYOUT_BF16 || !is_taken(&search.spaces[0], &eight))
                continue;
            eight.precision = LAYOUT_FP8;
            bool is_listed = k + 1 < listed.count && layout_is_same(&listed.items[k + 1], &eight);
            EXPECT(is_listed == is_taken(&search.spaces[0], &eight));
            both += is_listed;
            alone += !is_listed;
        }
        EXPECT(both > 100 && alone > 100);
        search_close(&search);
        config_free(&config);
        free(listed.items);
    }
}

// With --cp-comm-type a2a+p2p, a context is shared by as many ranks as its sizes say, or by one; and by one only if
// there are too few heads for the tensor-parallel ranks and the neighbours.
TEST(contexts_have_the_sizes_that_are_given) {
    static const struct {
        const char *groups;
        int most;  // the largest tensor-parallel size with shared contexts
    } cases[] = {{"16", 2}, {"2", 1}};
    for (int i = 0; i < 2; i++) {
        char *flags = memory_printf("--num-layers 4 --hidden-size 2048 --num-attention-heads 16 --vocab-size 50304 "
                                    "--seq-length 32768 --max-position-embeddings 32768 --position-embedding-type rope "
                                    "--global-batch-size 8 --bf16 --group-query-attention --num-query-groups %s "
                                    "--micro-batch-size 1 --pipeline-model-parallel-size 1 "
                                    "--recompute-granularity full --cp-comm-type a2a+p2p "
                                    "--hierarchical-context-parallel-sizes 2 2",
                                    cases[i].groups);
        struct layout_search search;
        struct search_options options = options_of(flags, 8, "p5.48xlarge");
        EXPECT_OK(search_open(&search, &options));
        int shared = 0, most = 0;
        for (int k = 0; k < search.count; k++) {
            const struct plan_layout *layout = &search.items[k].layout;
            EXPECT(layout->context == 1 || layout->context == 4);
            shared += layout->context > 1 && search.items[k].plan;
            most = layout->context > 1 && layout->tensor > most ? layout->tensor : most;
        }
        EXPECT(shared > 0);
        EXPECT_INT(most, cases[i].most);
        EXPECT_INT(search_count(&search, SEARCH_INVALID), 0);
        search_close(&search);
        config_free(&config);
        free(flags);
    }
}

// Exchanging heads is faster than gathering keys and values if there are many of them. As many ranks exchange them as
// heads of keys allow.
TEST(heads_are_exchanged_where_that_is_faster) {
    static const struct {
        int groups, best, most;  // best: ranks that exchange heads, 0 for any
    } cases[] = {{16, 8, 8}, {4, 0, 4}, {1, 1, 1}};
    for (int i = 0; i < 3; i++) {
        char *flags = memory_printf("--num-layers 4 --hidden-size 2048 --num-attention-heads 16 --vocab-size 50304 "
                                    "--seq-length 131072 --max-position-embeddings 131072 --bf16 --micro-batch-size 1 "
                                    "--global-batch-size 1 --position-embedding-type rope --group-query-attention "
                                    "--num-query-groups %d --tensor-model-parallel-size 1 --context-parallel-size 8 "
                                    "--pipeline-model-parallel-size 1 --recompute-granularity full",
                                    cases[i].groups);
        struct layout_search search;
        struct search_options options = options_of(flags, 8, "p5.48xlarge");
        EXPECT_OK(search_open(&search, &options));
        const struct search_item *best = &search.items[search.proposals[0]];
        int most = 0;
        for (int k = 0; k < search.count; k++) {
            const struct search_item *item = &search.items[k];
            bool is_other = item->outcome == SEARCH_PLANNED && item->layout.head_ranks != best->layout.head_ranks;
            EXPECT(!is_other || item->plan->seconds >= best->plan->seconds);
            most = item->layout.head_ranks > most ? item->layout.head_ranks : most;
        }
        EXPECT_INT(most, cases[i].most);
        EXPECT_INT(search_count(&search, SEARCH_INVALID), 0);
        EXPECT(cases[i].best == 0 || best->layout.head_ranks == cases[i].best);
        struct plan_layout near = best->layout;
        struct config near_config;
        near.head_ranks = cases[i].most;
        EXPECT_OK(layout_configure(&search.spaces[0], &near, &near_config));
        EXPECT_INT(config_head_ranks(&near_config), near.head_ranks);
        config_free(&near_config);
        search_close(&search);
        config_free(&config);
        free(flags);
    }
}

// Encoders and decoders gather keys and values: train refuses anything else.
TEST(t5_exchanges_no_heads) {
    struct layout_search search;
    struct search_options options =
        options_of("--model t5 --num-layers 4 --hidden-size 1024 --num-attention-heads 16 --vocab-size 32128 "
                   "--seq-length 16384 --max-position-embeddings 16384 --decoder-seq-length 16384 --bf16 "
                   "--micro-batch-size 1 --global-batch-size 8 --position-embedding-type rope "
                   "--tensor-model-parallel-size 1 --context-parallel-size 8",
                   8, "p5.48xlarge");
    EXPECT_OK(search_open(&search, &options));
    EXPECT(search_count(&search, SEARCH_PLANNED) > 0);
    EXPECT_INT(search_count(&search, SEARCH_INVALID), 0);
    search_close(&search);
    config_free(&config);
}

TEST(flags_that_are_given_stay) {
    struct layout_search search;
    struct search_options options = options_of(MODEL BATCH "--fp16 --tensor-model-parallel-size 2 --micro-batch-size 2 "
                                                           "--recompute-granularity full",
                                               4, "p5.48xlarge");
    options.children = 2;
    EXPECT_OK(search_open(&search, &options));
    for (int i = 0; i < search.count; i++) {
        const struct plan_layout *layout = &search.items[i].layout;
        EXPECT(layout->tensor == 2 && layout->micro_batch == 2 && layout->recompute == LAYOUT_FULL &&
               layout->precision == LAYOUT_FP16);
    }
    struct buffer flags = {0};
    layout_append_flags(&search.spaces[0], &search.items[search.proposals[0]].layout, &flags);
    EXPECT(strstr(buffer_string(&flags), "--tensor") == NULL && strstr(buffer_string(&flags), "--micro") == NULL);
    EXPECT(strstr(buffer_string(&flags), "--sequence-parallel") != NULL);
    buffer_free(&flags);
    search_close(&search);
    config_free(&config);
}

static void find_zero_bubble(void *context, const struct plan_layout *layout) {
    *(bool *)context = *(bool *)context || layout->is_zero_bubble;
}

// 6 layers and the ends are 8 places, which 4 stages divide; heads and the NVLink domain bound TP.
TEST(rules) {
    struct layout_search search;
    struct search_options options =
        options_of("--num-layers 6 --hidden-size 1536 --num-attention-heads 12 --seq-length "
                   "4096 --vocab-size 50304 --max-position-embeddings 4096 --bf16 "
                   "--global-batch-size 16",
                   16, "p4d.24xlarge");
    EXPECT_OK(search_open(&search, &options));
    bool weighs = false, has_zero_bubble = false;
    for (int i = 0; i < search.count; i++) {
        const struct plan_layout *layout = &search.items[i].layout;
        EXPECT_INT(layout->tensor * layout->context * layout->pipeline * layout->data, 16);
        EXPECT(12 % layout->tensor == 0 && layout->tensor <= 8 && layout->context <= 2 && layout->pipeline != 16);
        EXPECT((6 + (layout->ends & 1) + (layout->ends >> 1)) % layout->pipeline == 0);
        weighs = weighs || (layout->pipeline == 4 && layout->ends == 3);
    }
    EXPECT(weighs);
    layout_list(&search.spaces[0], find_zero_bubble, &has_zero_bubble);
    EXPECT(has_zero_bubble);
    search_close(&search);
    config_free(&config);
}

static void note_tensor(void *context, const struct plan_layout *layout) {
    ((bool *)context)[layout->tensor] = true;
}

// 2 heads of keys and values: 2, 4 and 8 ranks share them, 16 heads let no other number.
TEST(ranks_share_heads_of_keys) {
    struct layout_search search;
    struct search_options options =
        options_of(MODEL BATCH "--bf16 --group-query-attention --num-query-groups 2", 8, "p5.48xlarge");
    bool is_listed[9] = {false};
    EXPECT_OK(search_open(&search, &options));
    layout_list(&search.spaces[0], note_tensor, is_listed);
    for (int tensor = 1; tensor <= 8; tensor++)
        EXPECT(is_listed[tensor] == (8 % tensor == 0));
    search_close(&search);
    config_free(&config);
}

TEST(what_cannot_be_is_refused_with_the_nearest_that_can) {
    struct layout_search search;
    struct search_options options = options_of(MODEL BATCH "--bf16", 7, "p5.48xlarge");
    EXPECT_ERROR(search_open(&search, &options), "nearest: --global-batch-size 7 or --gpus 6");
    search_close(&search);
    config_free(&config);
    options = options_of(MODEL BATCH "--bf16 --tensor-model-parallel-size 2 --num-attention-heads 7 --hidden-size 1792",
                         8, "p5.48xlarge");
    EXPECT_ERROR(search_open(&search, &options), "nearest: --tensor-model-parallel-size 1 or --num-attention-heads 8");
    search_close(&search);
    config_free(&config);
    options = options_of("--preset gpt3-175b --vocab-size 50257 --bf16 --global-batch-size 8", 8, "p4d.24xlarge");
    EXPECT_ERROR(search_open(&search, &options), "no layout fits: the smallest needs");
    search_close(&search);
    config_free(&config);
    options = options_of("--num-layers 1 --hidden-size 4096 --num-attention-heads 32 --vocab-size 1024 --bf16 "
                         "--seq-length 524288 --max-position-embeddings 524288 --micro-batch-size 1 "
                         "--global-batch-size 1 --position-embedding-type rope",
                         1, "p6-b200.48xlarge");
    EXPECT_OK(search_open(&search, &options));
    search_close(&search);
    config_free(&config);
}

TEST(reports) {
    struct layout_search search;
    struct search_options options = options_of(MODEL BATCH, 2, "p5.48xlarge");
    struct buffer text = {0}, json = {0}, file = {0};
    EXPECT_OK(search_open(&search, &options));
    search_describe(&search, 1e9, &text);
    search_write_json(&search, 1e9, &json);
    search_write_config(&search, &file);
    // Precision was not given: fp8 is faster, and bf16 is proposed beside it.
    EXPECT(strstr(buffer_string(&text), "fp8") && strstr(buffer_string(&text), "bf16") &&
           strstr(buffer_string(&text), "1 with one change:") && strstr(buffer_string(&text), "full recompute: +"));
    struct json *root = NULL;
    EXPECT_OK(json_parse(&root, buffer_string(&json), json.length, "search"));
    EXPECT(json_member(root, "proposals") && json_member(root, "alternatives"));
    json_free(root);
    EXPECT(strstr(buffer_string(&file), "num-layers: 4\n") && strstr(buffer_string(&file), "micro-batch-size: "));
    buffer_free(&text);
    buffer_free(&json);
    buffer_free(&file);
    search_close(&search);
    config_free(&config);
}

TEST_MAIN(TEST_CASE(the_best_is_found), TEST_CASE(experts_are_counted), TEST_CASE(nothing_is_missed),
          TEST_CASE(precisions_that_train_refuses_are_not_listed), TEST_CASE(fp8_depends_on_nothing_but_sizes),
          TEST_CASE(contexts_have_the_sizes_that_are_given), TEST_CASE(heads_are_exchanged_where_that_is_faster),
          TEST_CASE(t5_exchanges_no_heads), TEST_CASE(flags_that_are_given_stay), TEST_CASE(rules),
          TEST_CASE(ranks_share_heads_of_keys), TEST_CASE(what_cannot_be_is_refused_with_the_nearest_that_can),
          TEST_CASE(reports))
