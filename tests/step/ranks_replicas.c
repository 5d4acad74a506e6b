// --check-replicas finds what it is for: one bit of one element that is another on one rank, of every parameter, and
// names the parameter and the ranks that should have agreed. Run under mpirun.
#include "ranks_step.h"

static struct ranks ranks;

#define MODEL                                                                                                          \
    "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 "            \
    "--micro-batch-size 2 --global-batch-size 16 --vocab-size 97 --make-vocab-size-divisible-by 1 --threads 1 "

// Turns the lowest bit of the middle element; twice is as if nothing had been.
static void flip(struct tensor values) {
    unsigned char *bytes = values.data;
    bytes[tensor_count(values) / 2 * (int64_t)dtype_bytes(values.dtype)] ^= 1;
}

// Every parameter in turn, other on the last rank of the group than on the rest.
static void flip_each(struct rank_step *r, const struct group *group, bool only_whole, const char *says) {
    const struct step *step = r->step;
    bool is_last = group_rank(group) == group_size(group) - 1;
    (void)rank_step_train(r, 1);
    EXPECT_OK(step_check_replicas(r->step));
    for (int i = 0; i < step->params.count; i++) {
        const struct param *param = step->params.items[i];
        if (only_whole && param->shard.parts > 1)
            continue;
        if (is_last)
            flip(param->value);
        char *expected = memory_printf("%s is not the same on all %s", param->name, says);
        EXPECT_ERROR(step_check_replicas(r->step), expected);
        free(expected);
        if (is_last)
            flip(param->value);
    }
    EXPECT_OK(step_check_replicas(r->step));
}

TEST(a_bit_on_one_data_parallel_rank) {
    static const char *const flags[] = {MODEL, MODEL "--bf16 --use-distributed-optimizer --overlap-param-gather "
                                                     "--overlap-grad-reduce "};
    for (int i = 0; i < 2; i++) {
        struct rank_step r;
        rank_step_open(&r, &ranks, flags[i]);
        flip_each(&r, r.step->mesh.replicas, false, "data-parallel ranks");
        rank_step_close(&r);
    }
}

TEST(a_bit_of_what_ranks_that_share_layers_hold_whole) {
    struct rank_step r;
    char *line = memory_printf(MODEL "--tensor-model-parallel-size %d ", ranks.place.size);
    rank_step_open(&r, &ranks, line);
    flip_each(&r, r.step->mesh.group[AXIS_TENSOR], true, "ranks that share layers");
    rank_step_close(&r);
    free(line);
}

// The first and the last stage hold the words' embedding.
TEST(a_bit_of_what_two_stages_hold) {
    struct rank_step r;
    char *line = memory_printf(MODEL "--pipeline-model-parallel-size %d ", ranks.place.size);
    rank_step_open(&r, &ranks, line);
    (void)rank_step_train(&r, 4);
    EXPECT_OK(step_check_replicas(r.step));
    EXPECT_INT(r.step->shared_count, 1);
    const char *name = r.step->shared[0].name;
    bool is_last = r.step->mesh.place[AXIS_PIPELINE] == ranks.place.size - 1;
    EXPECT(!is_last || r.step->shared[0].param != NULL);
    if (is_last)
        flip(r.step->shared[0].param->value);
    char *expected = memory_printf("%s is not the same on all pipeline stages that hold it", name);
    EXPECT_ERROR(step_check_replicas(r.step), expected);
    free(expected);
    rank_step_close(&r);
    free(line);
}

int main(void) {
    const struct test_case cases[] = {TEST_CASE(a_bit_on_one_data_parallel_rank),
                                      TEST_CASE(a_bit_of_what_ranks_that_share_layers_hold_whole),
                                      TEST_CASE(a_bit_of_what_two_stages_hold)};
    return ranks_test_main(&ranks, cases, sizeof cases / sizeof cases[0]);
}
