// Runs of several ranks with fp8 matmuls: they resume bit for bit, in every layout; all ranks that hold a layer have
// the saved ranges, and another layout finds those of its layers. Run under mpirun.
// tier: all
// ranks: 2
// cost: 15
#include "base/file.h"
#include "formats/weights.h"
#include "step/ranks_step.h"
#include "train/state.h"

#include <unistd.h>

#define MODEL                                                                                                          \
    "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --micro-batch-size 1 --bf16 "             \
    "--global-batch-size 4 --vocab-size 96 --make-vocab-size-divisible-by 1 --hidden-dropout 0 "                       \
    "--attention-dropout 0 --fp8-format hybrid "

enum { BEFORE = 3, AFTER = 3 };

static struct ranks ranks;
static char folder[64];

struct resumed_run {
    struct rank_step r;
    struct step_result results[AFTER];
};

static void open_run(struct resumed_run *run, const char *recipe, const char *layout) {
    char *flags = memory_printf(MODEL "%s %s --save %s --save-interval 3", recipe, layout, folder);
    *run = (struct resumed_run){0};
    ranks.pipeline = (struct mesh){0};  // layouts differ in their number of stages
    rank_step_open(&run->r, &ranks, flags);
    free(flags);
}

// Every step has other tokens.
static void go_on(struct resumed_run *run, int64_t done, int steps) {
    int64_t micro_batches = 4 / step_mesh(run->r.step)->length[AXIS_DATA];
    for (int i = 0; i < steps; i++) {
        for (int64_t n = 0; n < run->r.N; n++)
            run->r.tokens[n] =
                (int32_t)((n * 7 + 13) % (1 + (done + i) * 5) + step_mesh(run->r.step)->place[AXIS_DATA]);
        run->r.next = (done + i) * micro_batches;
        run->results[i] = rank_step_train(&run->r, micro_batches);
    }
    step_settle(run->r.step);
}

static bool is_saved(const struct weights *saved, const char *prefix, const char *name, struct tensor own) {
    char *full = memory_printf("%s.%s", prefix, name);
    const struct weight *found = weights_find(saved, full);
    free(full);
    return found && found->bytes == tensor_bytes(own) && memcmp(found->data, own.data, found->bytes) == 0;
}

// Whether this rank's ranges equal those in the checkpoint.
static bool has_saved_ranges(const struct step *step, const char *path) {
    struct weights saved;
    bool has = true;
    EXPECT_OK(weights_open_checkpoint(&saved, path, "optimizer"));
    EXPECT(step_range_count(step) > 0);
    EXPECT_INT(step_counters(step).fp8_steps, BEFORE);
    for (int i = 0; i < step_range_count(step); i++) {
        struct step_range range = step_range(step, i);
        has = has && is_saved(&saved, range.name, range.weight->name, range.tensor);
    }
    weights_close(&saved);
    return has;
}

static const char *const layouts[] = {
    "",
    "--use-distributed-optimizer",
    "--tensor-model-parallel-size 2",
    "--tensor-model-parallel-size 2 --sequence-parallel",
    "--pipeline-model-parallel-size 2",
    "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2",
};
enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };

static void resume(const char *recipe) {
    char *path = checkpoint_path(folder, BEFORE);
    struct progress_state progress = {.iteration = BEFORE};
    for (int i = 0; i < LAYOUTS; i++) {
        struct resumed_run through, resumed, other;
        open_run(&through, recipe, layouts[i]);
        go_on(&through, 0, BEFORE);
        EXPECT_OK(state_save(
            &(struct run_state){.step = through.r.step, .config = &through.r.config, .progress = &progress}));
        EXPECT(has_saved_ranges(through.r.step, path));
        go_on(&through, BEFORE, AFTER);
        open_run(&resumed, recipe, layouts[i]);
        EXPECT_OK(
            state_load(&(struct run_state){.step = resumed.r.step, .config = &resumed.r.config, .progress = &progress},
                       path, true));
        go_on(&resumed, BEFORE, AFTER);
        for (int k = 0; k < AFTER; k++)
            EXPECT(through.results[k].loss == resumed.results[k].loss &&
                   through.results[k].grad_norm == resumed.results[k].grad_norm);
        EXPECT(sum_weights(through.r.step) == sum_weights(resumed.r.step));
        open_run(&other, recipe, layouts[(i + 2) % LAYOUTS]);
        EXPECT_OK(state_load(
            &(struct run_state){.step = other.r.step, .config = &other.r.config, .progress = &progress}, path, true));
        EXPECT(has_saved_ranges(other.r.step, path));
        rank_step_close(&other.r);
        rank_step_close(&resumed.r);
        rank_step_close(&through.r);
        comm_barrier(world_group_all(ranks.world), "next layout");  // which writes to the same folder again
    }
    free(path);
}

TEST(delayed_ranges) {
    resume("--fp8-amax-history-len 4 --fp8-amax-compute-algo max");
}

TEST(measured_ranges) {
    resume("--fp8-recipe tensorwise");
}

int main(void) {
    const struct test_case cases[] = {TEST_CASE(delayed_ranges), TEST_CASE(measured_ranges)};
    if (ranks_open(&ranks) < 0) {
        printf("%s\n", error_message());
        return 1;
    }
    struct group *all = world_group_all(ranks.world);
    int64_t process = ranks.place.rank == 0 ? (int64_t)getpid() : 0;
    comm_max_i64(all, &process, 1, "folder");
    (void)snprintf(folder, sizeof folder, "/tmp/bevatron-ranks-resume-%lld", (long long)process);
    // A process of this number may have been killed before it removed it.
    if (ranks.place.rank == 0)
        (void)file_remove_tree(folder);
    comm_barrier(all, "folder");
    int status = test_main(cases, sizeof cases / sizeof cases[0]);
    comm_barrier(all, "end");
    if (ranks.place.rank == 0)
        file_remove_tree(folder);
    ranks_close(&ranks);
    return status;
}
