// Sinkhorn's algorithm: rows and columns of a matrix are scaled in turn. Each pass over the rows is cut by their number
// alone into at most PARTS parts, whose sums are added in order.
#include "ops/cpu/cpu.h"
#include <math.h>
#include <string.h>

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
