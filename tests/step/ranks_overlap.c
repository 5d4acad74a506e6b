// Communication overlaps computation: with the distributed optimizer and both flags a rank computes between the start
// of a collective and the wait for it, for all buckets but those at the ends of the two passes. Without the flags it
// never does. How much time that hides is measured by bench/overlap.c. Run under mpirun.
// tier: all
// ranks: 2
#include "comm/backend.h"
#include "ranks_step.h"

static struct ranks ranks;

#define MODEL                                                                                                          \
    "--num-layers 12 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 "           \
    "--micro-batch-size 2 --global-batch-size 4 --vocab-size 60 --make-vocab-size-divisible-by 1 --threads 1 "         \
    "--use-distributed-optimizer --ddp-bucket-size 13000 "
#define OVERLAP "--overlap-grad-reduce --overlap-param-gather "

enum { MOST = 1000, STEPS = 3 };

// In the order of their starts, which is that of the rank's only thread.
static struct {
    const struct ops *ops;
    const struct collective *collective;
    int64_t matmuls;  // so far
    int count;
    struct course {
        const void *handle;
        bool is_gather, is_awaited;
        int64_t started, awaited;  // how many matmuls came before
    } courses[MOST];
} seen;

static void count_matmul(struct device *device, const struct op_matmul *op) {
    seen.matmuls++;
    seen.ops->matmul(device, op);
}

static void *note_start(void *handle, bool is_gather) {
    CHECK(seen.count < MOST);
    seen.courses[seen.count++] = (struct course){.handle = handle, .is_gather = is_gather, .started = seen.matmuls};
    return handle;
}

static void *start_scatter(struct group *group, const struct tensor *part, const struct tensor *whole) {
    return note_start(seen.collective->reduce_scatter(group, part, whole), false);
}

static void *start_gather(struct group *group, const struct tensor *whole, const struct tensor *part) {
    return note_start(seen.collective->all_gather(group, whole, part), true);
}

// The first look at a collective is the beginning of the wait for it.
static bool test_handle(struct group *group, void *handle) {
    for (int i = seen.count; i-- > 0;) {
        struct course *course = &seen.courses[i];
        if (course->handle != handle)
            continue;
        if (!course->is_awaited)
            course->awaited = seen.matmuls;
        course->is_awaited = true;
        break;
    }
    return seen.collective->test(group, handle);
}

// Collectives, those during which the rank computed, and at how many different moments these began (sums) or were
// waited for (gathers).
struct hidden {
    int count, hidden, moments;
};

static struct hidden count_hidden(bool is_gather) {
    struct hidden found = {0};
    int64_t last = -1;
    for (int i = 0; i < seen.count; i++) {
        const struct course *course = &seen.courses[i];
        if (course->is_gather != is_gather || !course->is_awaited)
            continue;
        found.count++;
        if (course->awaited == course->started)
            continue;
        int64_t moment = is_gather ? course->awaited : course->started;
        found.hidden++;
        found.moments += moment != last;
        last = moment;
    }
    return found;
}

static void train(const char *flags) {
    static struct ops ops;
    static struct collective collective;
    struct rank_step r;
    rank_step_open(&r, &ranks, flags);
    seen.ops = ranks.device->ops;
    seen.collective = ranks.world->collective;
    seen.count = 0;
    ops = *seen.ops;
    ops.matmul = count_matmul;
    collective = *seen.collective;
    collective.reduce_scatter = start_scatter;
    collective.all_gather = start_gather;
    collective.test = test_handle;
    ranks.device->ops = &ops;
    ranks.world->collective = &collective;
    for (int i = 0; i < STEPS; i++)
        (void)rank_step_train(&r, 1);
    step_settle(r.step);
    ranks.device->ops = seen.ops;
    ranks.world->collective = seen.collective;
    rank_step_close(&r);
}

TEST(without_the_flags_nothing_is_computed_meanwhile) {
    train(MODEL);
    struct hidden sums = count_hidden(false), values = count_hidden(true);
    EXPECT(sums.count > 0 && sums.hidden == 0);
    EXPECT(values.count > 0 && values.hidden == 0);
}

TEST(with_them_the_rank_computes) {
    train(MODEL OVERLAP);
    struct hidden sums = count_hidden(false), values = count_hidden(true);
    // Each sum begins when its layer is done, and each gather ends when its layer needs it; nothing waits for the last
    // step's gathers. A third of the buckets are at an end of a pass: the first layer's, embeddings, the head.
    EXPECT(sums.count >= 12 * STEPS && sums.moments == sums.hidden && 3 * sums.hidden >= 2 * sums.count);
    int needed = values.count / STEPS * (STEPS - 1);
    EXPECT(values.count == sums.count && values.moments == values.hidden && 3 * values.hidden >= 2 * needed);
}

int main(void) {
    const struct test_case cases[] = {TEST_CASE(without_the_flags_nothing_is_computed_meanwhile),
                                      TEST_CASE(with_them_the_rank_computes)};
    return ranks_test_main(&ranks, cases, sizeof cases / sizeof cases[0]);
}
