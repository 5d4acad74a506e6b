// Communication really runs under computation: with a link so slow that both take about as long, a step of a divided
// optimizer takes about as long as the longer of the two, not as both together. Run under mpirun.
// ranks: 2
#include "base/clock.h"
#include "comm/backend.h"
#include "ranks_step.h"

static struct ranks ranks;

#define MODEL                                                                                                          \
    "--num-layers 12 --hidden-size 128 --num-attention-heads 2 --seq-length 128 --max-position-embeddings 128 "        \
    "--micro-batch-size 2 --global-batch-size 4 --vocab-size 60 --make-vocab-size-divisible-by 1 --threads 1 "         \
    "--use-distributed-optimizer --ddp-bucket-size 60000 "

enum { STEPS = 2, ROUNDS = 3 };

// Steps that do the same: over the real link and nothing under anything, over the slow one, and overlapped there.
enum way { REAL, IN_TURN, OVERLAPPED, WAYS };

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

// Seconds of a step among others: what the one before has sent is on its way when it begins, and what it sends itself
// when it ends.
static double time_step(struct rank_step *r) {
    comm_barrier(world_group_all(ranks.world), "begin");
    (void)rank_step_train(r, 1);
    double start = clock_seconds();
    for (int i = 0; i < STEPS; i++)
        (void)rank_step_train(r, 1);
    double seconds = (clock_seconds() - start) / STEPS;
    step_settle(r->step);
    return seconds;
}

// A step of its own for each way; ways take turns, so that whatever else the machine does befalls all of them.
static void measure(struct rank_step steps[WAYS], const struct link *slow, double medians[WAYS]) {
    double seconds[WAYS][ROUNDS];
    for (int round = 0; round < ROUNDS; round++)
        for (int way = 0; way < WAYS; way++) {
            ranks.world->link = way == REAL ? (struct link){0} : *slow;
            seconds[way][round] = time_step(&steps[way]);
        }
    for (int way = 0; way < WAYS; way++)
        medians[way] = median(seconds[way], ROUNDS);
}

// `ratio` of the time on the link to that of the computation.
static void check(struct rank_step steps[WAYS], double compute, double ratio) {
    // Gradients there and values back, half of each with two ranks.
    double bytes = 2 * 0.5 * 4 * (double)steps[0].step->params.total, wire = ratio * compute;
    struct link slow = {.bytes_per_second = bytes / wire, .latency_seconds = 20e-6};
    double medians[WAYS];
    measure(steps, &slow, medians);
    double longer = medians[REAL] > wire ? medians[REAL] : wire, sum = medians[REAL] + wire;
    if (ranks.place.rank == 0)
        printf("    compute %.1f ms, link %.1f ms: in turn %.1f ms (%.2f of the sum), overlapped %.1f ms (%.2f of the "
               "longer, %.2f of the sum)\n",
               medians[REAL] * 1e3, wire * 1e3, medians[IN_TURN] * 1e3, medians[IN_TURN] / sum,
               medians[OVERLAPPED] * 1e3, medians[OVERLAPPED] / longer, medians[OVERLAPPED] / sum);
    EXPECT(medians[IN_TURN] > 0.9 * sum);
    EXPECT(medians[OVERLAPPED] < 0.8 * sum);
}

TEST(a_step_takes_the_longer_of_computation_and_communication) {
    struct rank_step steps[WAYS];
    double seconds[ROUNDS];
    rank_step_open(&steps[REAL], &ranks, MODEL);
    rank_step_open(&steps[IN_TURN], &ranks, MODEL);
    rank_step_open(&steps[OVERLAPPED], &ranks, MODEL "--overlap-grad-reduce --overlap-param-gather ");
    for (int i = 0; i < ROUNDS; i++)
        seconds[i] = time_step(&steps[REAL]);
    // All ranks take the first one's time for the computation.
    int64_t nanoseconds = (int64_t)(median(seconds, ROUNDS) * 1e9);
    comm_broadcast_i64(world_group_all(ranks.world), &nanoseconds, 1, 0, "time");
    check(steps, (double)nanoseconds * 1e-9, 0.6);
    check(steps, (double)nanoseconds * 1e-9, 2);
    for (int way = 0; way < WAYS; way++)
        rank_step_close(&steps[way]);
    ranks.world->link = (struct link){0};
}

int main(void) {
    const struct test_case cases[] = {TEST_CASE(a_step_takes_the_longer_of_computation_and_communication)};
    if (ranks_open(&ranks) < 0) {
        printf("%s\n", error_message());
        return 1;
    }
    int status = test_main(cases, sizeof cases / sizeof cases[0]);
    ranks_close(&ranks);
    return status;
}
