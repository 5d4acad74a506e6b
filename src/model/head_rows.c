// The head some rows at a time: logits, losses and, in training, all gradients before the next rows. Logits and losses
// equal those of all rows at once, except for the rounding of matmul kernels chosen for fewer rows; the gradients of
// weight and bias are added up part by part.
#include "model/head.h"
#include "ops/device.h"

// Parts of this size keep a GPU busy: a matmul of thousands of rows. Each reads and writes the weight's gradient once
// more, 0.08 ms for that of GPT-2 124M on an H200.
enum { LOGITS_AT_ONCE_BYTES = 1 << 30, ROW_MULTIPLE = 128 };

int64_t head_rows_at_once(const struct head *head, const struct pass *pass, int64_t rows) {
    const struct shard *shard = &head->weight->shard;
    if (head->rows_at_once > 0)
        return rows < head->rows_at_once ? rows : head->rows_at_once;
    // Ranks that share the vocabulary sum statistics of each part, so all count with the largest share.
    int64_t most = (shard->global[0] + shard->parts - 1) / shard->parts;
    int64_t row_bytes = most * (int64_t)dtype_bytes(pass->dtype);
    int64_t parts = (rows * row_bytes + LOGITS_AT_ONCE_BYTES - 1) / LOGITS_AT_ONCE_BYTES;
    if (parts <= 1)
        return rows;
    int64_t each = ((rows + parts - 1) / parts + ROW_MULTIPLE - 1) / ROW_MULTIPLE * ROW_MULTIPLE;
    return each < rows ? each : rows;
}

static struct tensor some_rows(struct tensor all, int64_t first, int64_t count) {
    return all.data ? tensor_rows(all, first, count) : all;
}

static struct targets some_targets(const struct targets *all, int64_t first, int64_t count) {
    return (struct targets){.labels = tensor_rows(all->labels, first, count),
                            .mask = tensor_rows(all->mask, first, count),
                            .weights = some_rows(all->weights, first, count),
                            .loss_sum = all->loss_sum,
                            .scores = {.largest = some_rows(all->scores.largest, first, count),
                                       .target = some_rows(all->scores.target, first, count)}};
}

void head_by_rows(const struct head *head, const struct pass *pass, const struct head_flight *flight,
                  struct tensor dfeatures) {
    int64_t N = flight->features.shape[0], each = head_rows_at_once(head, pass, N);
    size_t mark = arena_mark(pass->scratch);
    const struct token_scores *scores = &flight->targets.scores;
    struct tensor losses = scores->losses.data ? scores->losses : arena_1d(pass->scratch, DTYPE_F32, N);
    struct tensor room = arena_2d(pass->scratch, pass->dtype, each, head->V);
    struct pass part = *pass;
    for (int64_t first = 0; first < N; first += each) {
        int64_t count = N - first < each ? N - first : each;
        struct tensor logits = tensor_rows(room, 0, count), features = tensor_rows(flight->features, first, count);
        struct targets targets = some_targets(&flight->targets, first, count);
        head_multiply(head, pass, features, logits);
        head_losses(pass, logits, &targets, pass_parts(pass) > 1 ? head->vocabulary_start : -1, head->cap,
                    tensor_rows(losses, first, count));
        if (dfeatures.data)
            head_multiply_backward(head, &part, logits, features, tensor_rows(dfeatures, first, count));
        part.is_first = false;
    }
    op_dot(pass->device, &(struct op_dot){.out = flight->targets.loss_sum, .a = losses, .b = flight->targets.mask});
    arena_release(pass->scratch, mark);
}
