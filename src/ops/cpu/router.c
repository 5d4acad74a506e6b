// Routing: each row of logits chooses its experts and their weights, rows in parallel.
#include "ops/cpu/router.h"
#include "ops/cpu/cpu.h"
#include "ops/cpu/vector_math.h"

#include <math.h>
#include <string.h>

CPU_CLONES static float softmax_row(float *p, const float *x, int64_t count) {
    float max = x[0], sum = 0;
    CPU_SIMD_MAX
    for (int64_t e = 0; e < count; e++)
        max = vector_max(max, x[e]);
#pragma omp simd reduction(+ : sum)
    for (int64_t e = 0; e < count; e++) {
        p[e] = vector_exp(x[e] - max);
        sum += p[e];
    }
    float inverse = 1.0f / sum;
#pragma omp simd
    for (int64_t e = 0; e < count; e++)
        p[e] *= inverse;
    return max + logf(sum);
}

float router_softmax(float *p, const float *x, int64_t count) {
    return softmax_row(p, x, count);
}

CPU_CLONES static void sigmoid_row(float *s, const float *x, int64_t count) {
#pragma omp simd
    for (int64_t e = 0; e < count; e++)
        s[e] = vector_logistic(x[e]);
}

// Below this, log(1 + e^x) is e^x in fp32; its root is then taken in the exponent, where it does not underflow.
static const float SOFTPLUS_LOW = -20, SOFTPLUS_HIGH = 20;

static float sqrt_softplus(float x) {
    if (x < SOFTPLUS_LOW)
        return expf(0.5f * x);
    return sqrtf(x > SOFTPLUS_HIGH ? x : log1pf(expf(x)));
}

void router_scores(enum router_score score, float *s, const float *x, int64_t count) {
    if (score == ROUTER_SIGMOID) {
        sigmoid_row(s, x, count);
        return;
    }
    for (int64_t e = 0; e < count; e++)
        s[e] = sqrt_softplus(x[e]);
}

float router_slope(enum router_score score, float x) {
    float sigmoid = vector_logistic(x);
    if (score == ROUTER_SIGMOID)
        return sigmoid * vector_logistic(-x);
    float s = sqrt_softplus(x);
    return x < SOFTPLUS_LOW ? 0.5f * s : 0.5f * sigmoid / s;
}

void router_keys(float *keys, const float *x, int64_t count) {
    for (int64_t e = 0; e < count; e++)
        keys[e] = isnan(x[e]) ? INFINITY : x[e];
}

void router_choose(struct router_list *list, int64_t most, const float *keys, struct cpu_range range) {
    for (int64_t e = range.first; e < range.end; e++) {
        bool is_full = list->count == most;
        if (is_full && !(keys[e] > keys[list->best[most - 1]]))
            continue;
        int64_t place = is_full ? most - 1 : list->count++;
        for (; place > 0 && keys[e] > keys[list->best[place - 1]]; place--)
            list->best[place] = list->best[place - 1];
        list->best[place] = (int32_t)e;
    }
}

// Keys by which a row chooses, and scores by which its groups are ranked.
struct router_row {
    float keys[ROUTER_MOST_EXPERTS], worth[ROUTER_MOST_EXPERTS];
};

static void find_keys(struct router_row *row, const struct op_route_forward *op, const float *logits) {
    int64_t experts = op->logits.shape[1];
    const float *bias = op->bias.data;
    // Scores are monotonic in logits, so without a bias logits are compared, with the same result on every device.
    router_keys(row->keys, logits, experts);
    if (!bias && op->rule.groups == 0)
        return;
    if (op->rule.score == ROUTER_SOFTMAX || op->biases_logits)
        memcpy(row->worth, logits, (size_t)experts * sizeof *logits);
    else if (op->rule.score == ROUTER_SOFTMAX_ALL)
        (void)router_softmax(row->worth, logits, experts);
    else
        router_scores(op->rule.score, row->worth, logits, experts);
    if (!bias)
        return;
    for (int64_t e = 0; e < experts; e++)
        row->worth[e] += bias[e];
    router_keys(row->keys, row->worth, experts);
}

// Finds the groups that a row may choose from.
static void open_groups(bool *is_open, const struct op_route_forward *op, const struct router_row *row) {
    int64_t groups = op->rule.groups, size = op->logits.shape[1] / groups;
    int64_t best = router_group_best(&op->rule, op->experts.shape[1]);
    float worth[ROUTER_MOST_EXPERTS];
    for (int64_t g = 0; g < groups; g++) {
        struct router_list list = {.count = 0};
        router_choose(&list, best, row->keys, (struct cpu_range){g * size, (g + 1) * size});
        float sum = 0;
        for (int64_t i = 0; i < list.count; i++)
            sum += row->worth[list.best[i]];
        worth[g] = isnan(sum) ? INFINITY : sum;
        is_open[g] = false;
    }
    // The best groups, one after the other.
    for (int64_t i = 0; i < op->rule.chosen_groups; i++) {
        int64_t found = -1;
        for (int64_t g = 0; g < groups; g++) {
            if (!is_open[g] && (found < 0 || worth[g] > worth[found]))
                found = g;
        }
        is_open[found] = true;
    }
}

static void choose_experts(struct router_list *list, const struct op_route_forward *op, const struct router_row *row) {
    int64_t experts = op->logits.shape[1], chosen = op->experts.shape[1], groups = op->rule.groups;
    list->count = 0;
    if (groups == 0) {
        router_choose(list, chosen, row->keys, (struct cpu_range){0, experts});
        return;
    }
    bool is_open[ROUTER_MOST_EXPERTS];
    open_groups(is_open, op, row);
    for (int64_t g = 0; g < groups; g++) {
        if (is_open[g])
            router_choose(list, chosen, row->keys,
                          (struct cpu_range){g * (experts / groups), (g + 1) * (experts / groups)});
    }
}

// The weights of the chosen experts before the factor; backward starts from them too. Returns the divisor of the
// scores.
static float find_weights(float *weights, enum router_score score, const float *logits, int64_t experts,
                          const struct router_list *list) {
    float chosen[ROUTER_MOST_CHOSEN] = {0}, all[ROUTER_MOST_EXPERTS], sum = 0;
    for (int64_t k = 0; k < list->count; k++)
        chosen[k] = logits[list->best[k]];
    if (score == ROUTER_SOFTMAX) {
        (void)router_softmax(weights, chosen, list->count);
        return 1;
    }
    if (score == ROUTER_SOFTMAX_ALL) {
        (void)router_softmax(all, logits, experts);
        for (int64_t k = 0; k < list->count; k++)
            weights[k] = all[list->best[k]];
        return 1;
    }
    router_scores(score, weights, chosen, list->count);
    if (list->count == 1)
        return 1;
    for (int64_t k = 0; k < list->count; k++)
        sum += weights[k];
    for (int64_t k = 0; k < list->count; k++)
        weights[k] /= sum + ROUTER_EPSILON;
    return sum + ROUTER_EPSILON;
}

static void route_forward_task(void *context, struct cpu_range rows) {
    const struct op_route_forward *op = context;
    int64_t experts = op->logits.shape[1], chosen = op->experts.shape[1];
    struct router_row row;
    for (int64_t n = rows.first; n < rows.end; n++) {
        const float *logits = (const float *)op->logits.data + n * experts;
        float *weights = (float *)op->weights.data + n * chosen;
        struct router_list list;
        find_keys(&row, op, logits);
        choose_experts(&list, op, &row);
        (void)find_weights(weights, op->rule.score, logits, experts, &list);
        for (int64_t k = 0; k < chosen; k++)
            weights[k] *= op->rule.factor;
        memcpy((int32_t *)op->experts.data + n * chosen, list.best, (size_t)chosen * sizeof *list.best);
    }
}

void cpu_route_forward(struct device *device, const struct op_route_forward *op) {
    cpu_run_ranges(device, op->logits.shape[0], cpu_rows_per_task(8 * op->logits.shape[1]), route_forward_task, op);
    if (!op->counts.data)
        return;
    int64_t counts[ROUTER_MOST_EXPERTS] = {0};
    const int32_t *chosen = op->experts.data;
    for (int64_t i = 0; i < tensor_count(op->experts); i++)
        counts[chosen[i]]++;
    for (int64_t e = 0; e < op->logits.shape[1]; e++)
        ((float *)op->counts.data)[e] += (float)counts[e];
}

static void route_backward_row(const struct op_route_backward *op, int64_t n) {
    int64_t experts = op->logits.shape[1], chosen = op->experts.shape[1];
    enum router_score score = op->rule.score;
    const float *logits = (const float *)op->logits.data + n * experts;
    const float *dweights = (const float *)op->dweights.data + n * chosen;
    float *dlogits = (float *)op->dlogits.data + n * experts;
    struct router_list list = {.count = chosen};
    memcpy(list.best, (const int32_t *)op->experts.data + n * chosen, (size_t)chosen * sizeof *list.best);
    float weights[ROUTER_MOST_CHOSEN], mean = 0;
    float divisor = find_weights(weights, score, logits, experts, &list);
    bool is_divided = chosen > 1 || score == ROUTER_SOFTMAX || score == ROUTER_SOFTMAX_ALL;
    for (int64_t k = 0; k < chosen && is_divided; k++)
        mean += weights[k] * dweights[k];
    memset(dlogits, 0, (size_t)experts * sizeof *dlogits);
    if (score == ROUTER_SOFTMAX_ALL) {
        (void)router_softmax(dlogits, logits, experts);
        for (int64_t e = 0; e < experts; e++)
            dlogits[e] *= -op->rule.factor * mean;
    }
    for (int64_t k = 0; k < chosen; k++) {
        float *to = dlogits + list.best[k];
        if (score == ROUTER_SOFTMAX_ALL)
            *to += op->rule.factor * weights[k] * dweights[k];
        else if (score == ROUTER_SOFTMAX)
            *to = op->rule.factor * weights[k] * (dweights[k] - mean);
        else
            *to = op->rule.factor * (dweights[k] - mean) / divisor * router_slope(score, logits[list.best[k]]);
    }
}

static void route_backward_task(void *context, struct cpu_range rows) {
    const struct op_route_backward *op = context;
    for (int64_t n = rows.first; n < rows.end; n++)
        route_backward_row(op, n);
}

void cpu_route_backward(struct device *device, const struct op_route_backward *op) {
    cpu_run_ranges(device, op->logits.shape[0], cpu_rows_per_task(8 * op->logits.shape[1]), route_backward_task, op);
}

// ---- Sinkhorn ----

// Sinkhorn's algorithm: rows and columns of a matrix are scaled in turn. Each pass over the rows is cut by their number
// alone into at most PARTS parts, whose sums are added in order.

enum { PARTS = 16 };
static const double SINKHORN_SMALL = 1e-8, SINKHORN_TOLERANCE = 1e-4;

struct sinkhorn_job {
    const struct op_sinkhorn *op;
    double d[ROUTER_MOST_EXPERTS];
    double sums[PARTS][ROUTER_MOST_EXPERTS];  // of r_n c_ne over the rows of a part
};

static void sinkhorn_task(void *context, int64_t index, int thread) {
    (void)thread;
    struct sinkhorn_job *job = context;
    int64_t count = job->op->logits.shape[0], experts = job->op->logits.shape[1];
    struct cpu_range rows = cpu_piece(count, cpu_pieces(count, PARTS), index);
    double *sums = job->sums[index], c[ROUTER_MOST_EXPERTS];
    memset(sums, 0, (size_t)experts * sizeof *sums);
    for (int64_t n = rows.first; n < rows.end; n++) {
        const float *logits = (const float *)job->op->logits.data + n * experts;
        double sum = 0;
        for (int64_t e = 0; e < experts; e++) {
            c[e] = exp((double)logits[e]);
            sum += job->d[e] * c[e];
        }
        double r = 1 / (double)count / (sum + SINKHORN_SMALL);
        for (int64_t e = 0; e < experts; e++)
            sums[e] += r * c[e];
    }
}

// Computes the next d; returns its distance from the previous one.
static double move_columns(struct sinkhorn_job *job, int64_t parts, int64_t experts) {
    double change = 0;
    for (int64_t e = 0; e < experts; e++) {
        double sum = 0;
        for (int64_t i = 0; i < parts; i++)
            sum += job->sums[i][e];
        double next = 1 / (double)experts / (sum + SINKHORN_SMALL);
        change += fabs(next - job->d[e]);
        job->d[e] = next;
    }
    return change / (double)experts;
}

void cpu_sinkhorn(struct device *device, const struct op_sinkhorn *op) {
    int64_t count = op->logits.shape[0], experts = op->logits.shape[1],
            parts = cpu_pieces(count, cpu_pieces(count, PARTS));
    struct sinkhorn_job job = {.op = op};
    for (int64_t e = 0; e < experts; e++)
        job.d[e] = 1;
    double change = INFINITY;
    for (int i = 0; i < SINKHORN_MOST && change > SINKHORN_TOLERANCE; i++) {
        cpu_run(device, parts, sinkhorn_task, &job);
        change = move_columns(&job, parts, experts);
    }
    for (int64_t e = 0; e < experts; e++)
        ((float *)op->bias.data)[e] = (float)log(job.d[e]);
}
