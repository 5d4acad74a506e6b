// Activations that share memory with gradients give the bits of a step that has memory for both: losses, gradients and
// weights, in all families that borrow, with dropout, with shorter micro-batches and with evaluations in between.
// cost: 10
#include "ranks_step.h"
#include "step/internal.h"

enum { STEPS = 5 };

struct borrow_course {
    double loss[STEPS], norm[STEPS], evaluated;
    uint64_t weights, gradients;
    struct step_borrow borrow;
    struct step_memory memory;
};

static void run_steps(struct rank_step *r, struct borrow_course *course) {
    struct step_source source = {.next = rank_step_next_of_family, .context = r, .count = 1};
    for (int i = 0; i < STEPS; i++) {
        if (i == 3)
            r->config.run.micro_batch_size = 1;
        EXPECT_OK(step_train(r->step, &source, 1e-2, 0.01));
        course->loss[i] = step_result(r->step).loss;
        course->norm[i] = step_result(r->step).grad_norm;
        course->gradients = course->gradients * 7 + sum_bytes(r->step, r->step->grads);
        if (i % 2 == 1) {
            EXPECT_OK(step_evaluate(r->step, &source));
            course->evaluated += step_result(r->step).loss;
        }
    }
    course->weights = sum_bytes(r->step, step_values(r->step));
}

// Without `borrows` the step is opened for two micro-batches, but still gets one.
static struct borrow_course run_flags(const char *flags, bool borrows) {
    struct ranks ranks = {.place = {.rank = 0, .size = 1, .local_rank = 0, .local_size = 1}};
    struct rank_step r;
    struct borrow_course course = {0};
    EXPECT_OK(device_open(&ranks.device, &(struct device_options){.name = "cpu", .threads = 1}));
    EXPECT_OK(world_open(&ranks.world, &(struct world_options){.backend = "self"}, ranks.device));
    char *line = memory_printf("--num-layers 6 --hidden-size 64 --num-attention-heads 2 --seq-length 16 --vocab-size "
                               "48 --max-position-embeddings 16 --micro-batch-size 2 %s %s",
                               borrows ? "" : "--global-batch-size 4", flags);
    rank_step_open(&r, &ranks, line);
    course.borrow = r.step->borrow;
    course.memory = *step_memory(r.step);
    run_steps(&r, &course);
    rank_step_close(&r);
    ranks_close(&ranks);
    free(line);
    return course;
}

static const char *const models[] = {
    "--hidden-dropout 0 --attention-dropout 0",
    "--bf16",
    "--fp16 --initial-loss-scale 1024",
    "--bf16 --use-distributed-optimizer",
    "--recompute-granularity selective",
    "--bf16 --fp8-format hybrid --seq-length 32 --max-position-embeddings 32",
    "--position-embedding-type rope --swiglu --normalization RMSNorm --disable-bias-linear "
    "--untie-embeddings-and-output-weights --group-query-attention --num-query-groups 1",
    "--model bert --norm-placement post --activation gelu",
    "--vocab-size 8900 --make-vocab-size-divisible-by 1",       // the logits alone
    "--seq-length 4 --bf16",                                    // layers keep less than their gradients
    "--seq-length 64 --max-position-embeddings 64 --bf16",      // about as much
    "--seq-length 128 --max-position-embeddings 128 --swiglu",  // and more
    // Matrices before and behind those that a layer's gradients are found by: of latents, of shared experts and a gate.
    "--position-embedding-type rope --multi-latent-attention --q-lora-rank 64 --kv-lora-rank 64 --qk-head-dim 32 "
    "--qk-pos-emb-head-dim 32 --v-head-dim 32 --qk-layernorm",
    "--bf16 --swiglu --disable-bias-linear --num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 64 "
    "--moe-shared-expert-intermediate-size 64 --moe-shared-expert-gate",
    "--position-embedding-type rope --mtp-num-layers 1",  // another stack above
    "--norm-placement output --bf16",
    // Matrices in a group of their own.
    "--optimizer muon",
    "--optimizer muon --bf16 --swiglu --disable-bias-linear --num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size "
    "64 "
    "--moe-shared-expert-intermediate-size 64 --moe-shared-expert-gate",
    "--optimizer muon --position-embedding-type rope --multi-latent-attention --q-lora-rank 64 --kv-lora-rank 64 "
    "--qk-head-dim 32 --qk-pos-emb-head-dim 32 --v-head-dim 32 --qk-layernorm",
};

TEST(the_same_bits) {
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct borrow_course borrowed = run_flags(models[i], true), plain = run_flags(models[i], false);
        EXPECT(borrowed.borrow.border > 0 && plain.borrow.border == 0);
        EXPECT(borrowed.memory.activations == borrowed.borrow.border);
        EXPECT(borrowed.memory.activations < plain.memory.activations);
        EXPECT(borrowed.memory.total < plain.memory.total);
        // Memory for the larger of the two, for a sixth of the smaller (one layer), and for a tensor at the border.
        size_t kept = plain.memory.activations, lent = borrowed.borrow.room;
        size_t more = kept > lent ? kept : lent, less = kept > lent ? lent : kept;
        EXPECT(borrowed.borrow.border + lent <= more + less / 6 + less / 18);
        for (int n = 0; n < STEPS; n++)
            EXPECT(borrowed.loss[n] == plain.loss[n] && borrowed.norm[n] == plain.norm[n]);
        EXPECT(borrowed.evaluated == plain.evaluated && borrowed.weights == plain.weights);
        EXPECT(borrowed.gradients == plain.gradients);
        EXPECT(borrowed.loss[0] != borrowed.loss[2]);
    }
}

// Sums of gradients, recomputed activations, two stacks, and gaps between weights.
TEST(what_does_not_borrow) {
    static const char *const flags[] = {
        "--global-batch-size 4",
        "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
        "--model t5 --decoder-seq-length 16",
        "--hidden-size 20 --ffn-hidden-size 30",
    };
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        EXPECT(run_flags(flags[i], true).borrow.border == 0);
}

// Logits that are larger than all gradients of the layers, at the border or alone beyond it.
TEST(never_more) {
    static const char *const flags[] = {
        "--vocab-size 8900 --seq-length 32 --max-position-embeddings 32",
        "--vocab-size 8900 --seq-length 64 --max-position-embeddings 64 --num-layers 2",
        "--vocab-size 8900 --seq-length 64 --max-position-embeddings 64 --bf16",
        "--model bert --vocab-size 8900 --seq-length 64 --max-position-embeddings 64",
    };
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        struct borrow_course one = run_flags(flags[i], true), two = run_flags(flags[i], false);
        EXPECT(one.memory.total <= two.memory.total);
        EXPECT(one.weights == two.weights && one.gradients == two.gradients);
    }
}

TEST_MAIN(TEST_CASE(the_same_bits), TEST_CASE(what_does_not_borrow), TEST_CASE(never_more))
