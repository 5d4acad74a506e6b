// Balancing of experts: sums of their shares, counts of rows, gradients of the losses made of these, and the bias that
// follows the counts. Rows are cut by shapes alone into at most PARTS parts, whose sums are added in order.
#include "ops/cpu/router.h"
#include <math.h>
#include <string.h>

enum { PARTS = 16 };

// The sums of some rows of one sequence.
struct balance_part {
    double sums[ROUTER_MOST_EXPERTS], z;
    int64_t counts[ROUTER_MOST_EXPERTS];
};

struct balance_job {
    const struct op_balance_forward *op;
    int64_t sequences, length;  // length: rows of a sequence
    int64_t pieces;             // of a sequence; 1 if a part has whole sequences
    struct balance_part *parts;
};

// Sets a row's p; returns its logsumexp.
static float find_shares(float *p, enum router_score score, const float *logits, int64_t experts) {
    float lse = router_softmax(p, logits, experts), sum = 0;
    if (score == ROUTER_SOFTMAX || score == ROUTER_SOFTMAX_ALL)
        return lse;
    router_scores(score, p, logits, experts);
    for (int64_t e = 0; e < experts; e++)
        sum += p[e];
    for (int64_t e = 0; e < experts; e++)
        p[e] /= sum + ROUTER_EPSILON;
    return lse;
}

static void add_row(struct balance_part *part, const struct op_balance_forward *op, int64_t n) {
    int64_t experts = op->logits.shape[1];
    const float *logits = (const float *)op->logits.data + n * experts;
    float p[ROUTER_MOST_EXPERTS], keys[ROUTER_MOST_EXPERTS];
    double lse = (double)find_shares(p, op->score, logits, experts);
    part->z += lse * lse;
    for (int64_t e = 0; e < experts; e++)
        part->sums[e] += (double)p[e];
    if (!op->counts.data)
        return;
    struct router_list list = {.count = 0};
    router_keys(keys, logits, experts);
    router_choose(&list, op->chosen, keys, (struct cpu_range){0, experts});
    for (int64_t k = 0; k < list.count; k++)
        part->counts[list.best[k]]++;
}

// Adds a part, except z, to its sequence.
static void add_part(const struct op_balance_forward *op, struct balance_part *part, int64_t sequence) {
    int64_t experts = op->logits.shape[1];
    float *sums = op->sums.data, *counts = op->counts.data;
    for (int64_t e = 0; e < experts; e++) {
        if (sums)
            sums[sequence * experts + e] += (float)part->sums[e];
        if (counts)
            counts[sequence * experts + e] += (float)part->counts[e];
        part->sums[e] = 0;
        part->counts[e] = 0;
    }
}

static void balance_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct balance_job *job = context;
    struct balance_part *part = &job->parts[index];
    memset(part, 0, sizeof *part);
    if (job->pieces > 1) {
        int64_t first = index / job->pieces * job->length;
        struct cpu_range rows = cpu_piece(job->length, cpu_pieces(job->length, job->pieces), index % job->pieces);
        for (int64_t n = rows.first; n < rows.end; n++)
            add_row(part, job->op, first + n);
        return;
    }
    struct cpu_range sequences = cpu_piece(job->sequences, cpu_pieces(job->sequences, PARTS), index);
    for (int64_t s = sequences.first; s < sequences.end; s++) {
        for (int64_t n = s * job->length; n < (s + 1) * job->length; n++)
            add_row(part, job->op, n);
        add_part(job->op, part, s);
    }
}

void cpu_balance_forward(struct device *device, const struct op_balance_forward *op) {
    struct balance_part parts[PARTS];
    struct balance_job job = {.op = op, .sequences = op->sums.data ? op->sums.shape[0] : 1, .parts = parts};
    job.length = op->logits.shape[0] / job.sequences;
    job.pieces = job.sequences < PARTS ? PARTS / job.sequences : 1;
    int64_t tasks =
        job.pieces > 1 ? job.sequences * job.pieces : cpu_pieces(job.sequences, cpu_pieces(job.sequences, PARTS));
    cpu_run(device, tasks, balance_task, &job);
    double z = 0;
    for (int64_t i = 0; i < tasks; i++) {
        z += parts[i].z;
        if (job.pieces > 1 && i % job.pieces > 0) {
            struct balance_part *first = &parts[i / job.pieces * job.pieces];
            for (int64_t e = 0; e < op->logits.shape[1]; e++) {
                first->sums[e] += parts[i].sums[e];
                first->counts[e] += parts[i].counts[e];
            }
        }
    }
    for (int64_t s = 0; s < job.sequences && job.pieces > 1; s++)
        add_part(op, &parts[s * job.pieces], s);
    if (op->z.data)
        *(float *)op->z.data += (float)z;
}

// A row's shares p are its softmax, or s / (sum + epsilon). The gradient of a logit is (g - sum over p of g p) times
// its slope: p itself, or s' / (sum + epsilon).
static void balance_backward_row(const struct op_balance_backward *op, int64_t n) {
    int64_t experts = op->logits.shape[1];
    const float *logits = (const float *)op->logits.data + n * experts;
    float *dlogits = (float *)op->dlogits.data + n * experts;
    float by = op->by.data ? *(const float *)op->by.data : 1.0f;
    float p[ROUTER_MOST_EXPERTS], lse = router_softmax(p, logits, experts);
    for (int64_t e = 0; e < experts && op->z_factor != 0; e++)
        dlogits[e] += by * op->z_factor * 2.0f * lse * p[e];
    if (!op->slopes.data)
        return;
    int64_t length = op->logits.shape[0] / op->slopes.shape[0];
    const float *slopes = (const float *)op->slopes.data + n / length * experts;
    bool is_softmax = op->score == ROUTER_SOFTMAX || op->score == ROUTER_SOFTMAX_ALL;
    float sum = 0, mean = 0;
    if (!is_softmax) {
        router_scores(op->score, p, logits, experts);
        for (int64_t e = 0; e < experts; e++)
            sum += p[e];
        sum += ROUTER_EPSILON;
        for (int64_t e = 0; e < experts; e++)
            p[e] /= sum;
    }
    for (int64_t e = 0; e < experts; e++)
        mean += slopes[e] * p[e];
    for (int64_t e = 0; e < experts; e++)
        dlogits[e] += by * (slopes[e] - mean) * (is_softmax ? p[e] : router_slope(op->score, logits[e]) / sum);
}

static void balance_backward_task(void *context, struct cpu_range rows) {
    const struct op_balance_backward *op = context;
    for (int64_t n = rows.first; n < rows.end; n++)
        balance_backward_row(op, n);
}

void cpu_balance_backward(struct device *device, const struct op_balance_backward *op) {
    cpu_run_ranges(device, op->logits.shape[0], cpu_rows_per_task(8 * op->logits.shape[1]), balance_backward_task, op);
}

void cpu_balance_bias(struct device *device, const struct op_balance_bias *op) {
    (void)device;
    int64_t experts = op->bias.shape[1];
    for (int64_t l = 0; l < op->bias.shape[0]; l++) {
        const float *counts = (const float *)op->counts.data + l * experts;
        float *bias = (float *)op->bias.data + l * experts;
        double sum = 0;
        for (int64_t e = 0; e < experts; e++)
            sum += (double)counts[e];
        for (int64_t e = 0; e < experts; e++) {
            double missing = sum - (double)experts * (double)counts[e];
            bias[e] += missing > 0 ? op->rate : missing < 0 ? -op->rate : 0.0f;
        }
    }
}

void cpu_balance_load(struct device *device, const struct op_balance_load *op) {
    (void)device;
    int64_t experts = op->load.shape[1];
    for (int64_t l = 0; l < op->load.shape[0]; l++) {
        const float *counts = (const float *)op->counts.data + l * experts;
        float *load = (float *)op->load.data + l * experts;
        double sum = 0;
        for (int64_t e = 0; e < experts; e++)
            sum += (double)counts[e];
        for (int64_t e = 0; e < experts && sum > 0; e++)
            load[e] = (float)((double)experts * (double)counts[e] / sum);
    }
}
