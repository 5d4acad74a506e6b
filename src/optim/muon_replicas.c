// Sharing out Muon's matrices among replicas. See muon.h.
#include "optim/muon.h"
#include "base/error.h"
#include "base/memory.h"
#include "ops/device.h"
#include "optim/newton_schulz.h"

#include <stdlib.h>

bool replicas_share(const struct optimizer_run *run) {
    return run->replicas && group_size(run->replicas) > 1 && !run->offload;
}

static int64_t slice_of(const struct muon_matrix *matrix) {
    return tensor_count(matrix->run.grad);
}

// ---- bundles ----

// Whether a matrix directly follows another of the same parameter and shape.
static bool follows(const struct muon_matrix *matrix, const struct muon_matrix *before) {
    return matrix->run.matrix == before->run.matrix && matrix->M == before->M && matrix->N == before->N &&
           matrix->part.rows == before->part.rows &&
           (const float *)matrix->run.grad.data == (const float *)before->run.grad.data + slice_of(before);
}

static double cost_of(const struct config *config, const struct muon_matrix *matrix) {
    return newton_schulz_flops(config, matrix->M, matrix->N);
}

// Bundles cost at most a sixteenth of a rank's share, so that shares stay even.
static struct deal_item *make_bundles(struct muon_replicas *replicas, const struct muon_matrix *list, int64_t total) {
    enum { LEAST_BUNDLES = 16 };
    struct deal_item *deal = memory_alloc(sizeof *deal * (size_t)total);
    double all = 0;
    for (int64_t i = 0; i < total; i++)
        all += cost_of(replicas->config, &list[i]);
    double most = all / (LEAST_BUNDLES * (double)group_size(replicas->group));
    for (int64_t i = 0; i < total; i++) {
        double cost = cost_of(replicas->config, &list[i]);
        if (i > 0 && follows(&list[i], &list[i - 1]) && deal[replicas->count - 1].cost + cost <= most) {
            deal[replicas->count - 1].cost += cost;
            deal[replicas->count - 1].room++;
        } else {
            deal[replicas->count++] = (struct deal_item){.cost = cost, .room = 1, .number = i};
        }
    }
    return deal;
}

// Appends the matrices of this rank's bundles, or of the others', to replicas->list.
static void list_bundles(struct muon_replicas *replicas, const struct muon_matrix *list, const struct deal_item *deal,
                         bool are_own) {
    for (int64_t i = 0; i < replicas->count; i++) {
        bool is_own = deal[i].owner == group_rank(replicas->group);
        if (is_own != are_own)
            continue;
        struct muon_bundle *bundle = &replicas->bundles[i];
        *bundle = (struct muon_bundle){.replicas = replicas,
                                       .first = replicas->list + replicas->total,
                                       .count = deal[i].room,
                                       .owner = deal[i].owner,
                                       .missing = is_own ? deal[i].room : 0};
        for (int64_t k = 0; k < bundle->count; k++) {
            bundle->first[k] = list[deal[i].number + k];
            bundle->first[k].bundle = bundle;
        }
        replicas->total += bundle->count;
    }
}

// The tensor for a bundle's results.
static struct tensor place_of(const struct muon_replicas *replicas, const struct muon_bundle *bundle) {
    const struct optimizer_run *run = &bundle->first->run;
    enum dtype dtype = muon_result_dtype(replicas->config);
    int64_t count = bundle->count * slice_of(bundle->first);
    return replicas->config->watch.log_num_zeros_in_grad ? arena_1d(run->scratch, dtype, count)
                                                         : tensor_1d(run->grad.data, dtype, count);
}

static void move_others(const struct muon_replicas *replicas) {
    for (int64_t i = replicas->own_count; i < replicas->total; i++) {
        const struct muon_matrix *matrix = &replicas->list[i];
        struct arena *scratch = matrix->run.scratch;
        size_t mark = arena_mark(scratch);
        muon_move_momentum(replicas->config, matrix, arena_1d(scratch, DTYPE_F32, slice_of(matrix)),
                           (struct tensor){0});
        arena_release(scratch, mark);
    }
}

void replicas_open(struct muon_replicas *replicas, const struct config *config, const struct muon_matrix *list,
                   int64_t total) {
    *replicas = (struct muon_replicas){.config = config, .group = list[0].run.replicas};
    struct deal_item *deal = make_bundles(replicas, list, total);
    (void)deal_work(deal, replicas->count, &(struct deal_limits){.ranks = group_size(replicas->group)});
    replicas->list = memory_alloc(sizeof *replicas->list * (size_t)total);
    replicas->bundles = memory_alloc(sizeof *replicas->bundles * (size_t)replicas->count);
    list_bundles(replicas, list, deal, true);
    replicas->own_count = replicas->total;
    list_bundles(replicas, list, deal, false);
    CHECK(replicas->total == total);
    for (int64_t i = 0; i < replicas->count; i++)
        replicas->bundles[i].x = place_of(replicas, &replicas->bundles[i]);
    free(deal);
    move_others(replicas);
}

// ---- results ----

static struct comm_request start_broadcast(const struct muon_bundle *bundle, struct tensor x, const char *name) {
    struct comm_request request = comm_broadcast_start(bundle->replicas->group, x, bundle->owner, name);
    comm_overlap(&request);
    return request;
}

// Starts broadcasts up to the first bundle with missing results of this rank.
static void send_complete(struct muon_replicas *replicas) {
    for (; replicas->started < replicas->count; replicas->started++) {
        struct muon_bundle *bundle = &replicas->bundles[replicas->started];
        if (bundle->missing > 0)
            return;
        bundle->results = start_broadcast(bundle, bundle->x, "orthogonal matrices");
        if (muon_keeps_norm(replicas->config))
            bundle->moments = start_broadcast(
                bundle, tensor_1d(bundle->first->run.states[1].data, DTYPE_F32, tensor_count(bundle->x)),
                "second moments");
    }
}

// Results in 16 bits take half the memory of gradients, so result number i of a bundle overwrites gradients up to
// number i at most. A bundle's momenta are updated in order, i.e. before its later results arrive.
void replicas_keep(const struct muon_matrix *matrix, struct tensor x) {
    struct muon_bundle *bundle = matrix->bundle;
    int64_t count = slice_of(matrix), i = matrix - bundle->first;
    CHECK(i >= 0 && i < bundle->count && bundle->missing > 0);
    op_copy(matrix->run.device,
            &(struct op_copy){.dst = tensor_rows(bundle->x, i * count, count), .src = tensor_flat(x)});
    bundle->missing--;
    send_complete(bundle->replicas);
}

void replicas_close(struct muon_replicas *replicas) {
    send_complete(replicas);
    CHECK(replicas->started == replicas->count);
    for (int64_t i = 0; i < replicas->count; i++) {
        struct muon_bundle *bundle = &replicas->bundles[i];
        comm_wait(&bundle->results);
        if (muon_keeps_norm(replicas->config))
            comm_wait(&bundle->moments);
        for (int64_t k = 0; k < bundle->count; k++) {
            struct muon_matrix *matrix = &bundle->first[k];
            struct optimizer_run *only = &matrix->run;
            int64_t count = slice_of(matrix);
            struct tensor x = tensor_rows(bundle->x, k * count, count);
            muon_follow(replicas->config, matrix, tensor_reshape_2d(x, matrix->part.rows, muon_columns(matrix)));
            optimizer_return(&only, 1);
        }
    }
    free(replicas->bundles);
    free(replicas->list);
}
