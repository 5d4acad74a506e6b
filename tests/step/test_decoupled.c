// The input embedding and the output layer with a separate learning rate. An update depends only on a parameter's
// gradient and its rate, so the first step of a run with two rates gives them the bits of a run with their rate alone,
// and everything else the bits of a run with the common rate.
#include "ranks_step.h"

#include <string.h>

static const char *const FLAGS = "--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 "
                                 "--max-position-embeddings 16 --micro-batch-size 2 --vocab-size 48 "
                                 "--weight-decay 0.1 --hidden-dropout 0 --attention-dropout 0 %s %s";
static const double LR = 1e-3, OTHER_LR = 7e-3;

static void open_one(struct ranks *ranks) {
    *ranks = (struct ranks){.place = {.rank = 0, .size = 1, .local_rank = 0, .local_size = 1}};
    EXPECT_OK(device_open(&ranks->device, &(struct device_options){.name = "cpu", .threads = 1}));
    EXPECT_OK(world_open(&ranks->world, &(struct world_options){.backend = "self"}, ranks->device));
}

// One step at this pace.
static void run_flags(struct rank_step *r, struct ranks *ranks, const char *flags, const struct pace *pace) {
    rank_step_open(r, ranks, flags);
    struct step_source source = {.next = rank_step_next_of_family, .context = r, .count = 1};
    EXPECT_OK(step_train_paced(r->step, &source, pace));
    step_result(r->step);
}

static void expect_equal(const struct param *a, const struct param *b) {
    size_t bytes = tensor_bytes(a->value);
    bool is_equal = memcmp(a->value.data, b->value.data, bytes) == 0;
    if (!is_equal)
        test_fail("%s differs", a->name);
}

static void check(const char *model, const char *precision, int own) {
    struct ranks ranks;
    struct rank_step both, common, other;
    open_one(&ranks);
    char *decoupled = memory_printf("%s --decoupled-lr 7e-3", precision);
    char *with = memory_printf(FLAGS, model, decoupled), *without = memory_printf(FLAGS, model, precision);
    run_flags(&both, &ranks, with, &(struct pace){.lr = LR, .weight_decay = 0.1, .decoupled_lr = OTHER_LR});
    run_flags(&common, &ranks, without, &(struct pace){.lr = LR, .weight_decay = 0.1});
    run_flags(&other, &ranks, without, &(struct pace){.lr = OTHER_LR, .weight_decay = 0.1});
    int seen = 0;
    for (int i = 0; i < step_params(both.step)->count; i++) {
        const struct param *param = step_params(both.step)->items[i];
        bool is_own = strcmp(param->name, "embedding.word_embeddings.weight") == 0 ||
                      strcmp(param->name, "output_layer.weight") == 0;
        expect_equal(param, step_params((is_own ? &other : &common)->step)->items[i]);
        seen += is_own;
    }
    EXPECT_INT(seen, own);
    EXPECT(sum_weights(common.step) != sum_weights(other.step));
    rank_step_close(&both);
    rank_step_close(&common);
    rank_step_close(&other);
    free(decoupled);
    free(with);
    free(without);
    ranks_close(&ranks);
}

TEST(two_rates) {
    check("", "", 1);
    check("--untie-embeddings-and-output-weights", "", 2);
    check("--model bert", "", 1);
    check("--model t5 --decoder-seq-length 16", "", 1);
}

TEST(two_rates_in_16_bits) {
    check("--untie-embeddings-and-output-weights", "--bf16", 2);
    check("--untie-embeddings-and-output-weights", "--fp16 --initial-loss-scale 128", 2);
}

TEST_MAIN(TEST_CASE(two_rates), TEST_CASE(two_rates_in_16_bits))
