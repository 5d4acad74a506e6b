// --check-replicas detects one bit of one element that differs on one rank, for every parameter, and names the
// parameter, the ranks that should have agreed and the one that differs: all of them say the same. The bit may be that
// of an optimizer state. Run under mpirun.
// tier: all
#include "ranks_step.h"
#include "step/internal.h"

static struct ranks ranks;

#define MODEL                                                                                                          \
    "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 "            \
    "--micro-batch-size 2 --global-batch-size 16 --vocab-size 97 --make-vocab-size-divisible-by 1 --threads 1 "

// Flips the lowest bit of the middle element; a second call restores it.
static void flip(struct tensor values) {
    unsigned char *bytes = values.data;
    bytes[tensor_count(values) / 2 * (int64_t)dtype_bytes(values.dtype)] ^= 1;
}

// All ranks get the same message, and the code that says what it is. Two ranks cannot tell which of them is wrong.
static void expect_blame(struct rank_step *r, const char *name, const char *says) {
    int last = ranks.place.size - 1;
    char *expected = memory_printf("%s is not the same on all %s: rank", name, says);
    EXPECT_ERROR(step_check_replicas(r->step), expected);
    EXPECT_INT(error_exit_code(), EXIT_CODE_CORRUPT);
    EXPECT(error_is_shared());
    const char *who = strstr(error_message(), ": rank");
    char *blamed = ranks.place.size > 2 ? memory_printf(": rank %d (", last) : memory_printf(": ranks 0 (");
    EXPECT(who && strncmp(who, blamed, strlen(blamed)) == 0);
    EXPECT((strstr(error_message(), "no majority") == NULL) == (ranks.place.size > 2));
    free(blamed);
    free(expected);
}

// Every parameter in turn differs on the last rank of the group.
static void flip_each(struct rank_step *r, const struct group *group, bool only_whole, const char *says) {
    const struct step *step = r->step;
    bool is_last = group_rank(group) == group_size(group) - 1;
    (void)rank_step_train(r, 1);
    EXPECT_OK(step_check_replicas(r->step));
    for (int i = 0; i < step_params(step)->count; i++) {
        const struct param *param = step_params(step)->items[i];
        if (only_whole && param->shard.parts > 1)
            continue;
        if (is_last)
            flip(param->value);
        expect_blame(r, param->name, says);
        if (is_last)
            flip(param->value);
    }
    EXPECT_OK(step_check_replicas(r->step));
}

// The moments and master copies that all replicas hold.
static void flip_states(struct rank_step *r, const struct group *group) {
    const struct param *param = step_params(r->step)->items[3];
    const struct optimizer *optimizer = step_optimizer(r->step, param->group);
    for (int i = 0; i <= optimizer->state_count; i++) {
        struct tensor state = i < optimizer->state_count ? optimizer->states[i].tensor : optimizer->master;
        if (!state.data)
            continue;
        struct tensor own = param_at(param, state, param->offset - optimizer->pieces.first);
        bool is_last = group_rank(group) == group_size(group) - 1;
        if (is_last)
            flip(own);
        expect_blame(r, param->name, "data-parallel ranks");
        if (is_last)
            flip(own);
    }
    EXPECT_OK(step_check_replicas(r->step));
}

TEST(a_bit_on_one_data_parallel_rank) {
    static const char *const flags[] = {
        MODEL, MODEL "--bf16 --use-distributed-optimizer --overlap-param-gather --overlap-grad-reduce ",
        MODEL "--bf16 "};
    for (int i = 0; i < 3; i++) {
        struct rank_step r;
        rank_step_open(&r, &ranks, flags[i]);
        EXPECT_INT(step_replica_count(r.step), ranks.place.size);
        flip_each(&r, step_mesh(r.step)->replicas, false, "data-parallel ranks");
        if (i != 1)
            flip_states(&r, step_mesh(r.step)->replicas);
        rank_step_close(&r);
    }
}

TEST(a_bit_of_what_ranks_that_share_layers_hold_whole) {
    struct rank_step r;
    char *line = memory_printf(MODEL "--tensor-model-parallel-size %d ", ranks.place.size);
    rank_step_open(&r, &ranks, line);
    flip_each(&r, step_mesh(r.step)->group[AXIS_TENSOR], true, "ranks that share layers");
    rank_step_close(&r);
    free(line);
}

// The first and the last stage hold the word embedding.
TEST(a_bit_of_what_two_stages_hold) {
    struct rank_step r;
    char *line = memory_printf(MODEL "--pipeline-model-parallel-size %d ", ranks.place.size);
    rank_step_open(&r, &ranks, line);
    (void)rank_step_train(&r, 4);
    EXPECT_OK(step_check_replicas(r.step));
    EXPECT_INT(r.step->shared_count, 1);
    const char *name = r.step->shared[0].name;
    bool is_last = step_mesh(r.step)->place[AXIS_PIPELINE] == ranks.place.size - 1;
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
