// The vocabulary's matmul in fp8 (--fp8-output-proj), with the ranges and weights of fp8.h. The gradient of the logits
// is as large as they are, so the backward pass stores some rows of it at a time, in both orders, and adds up the
// gradient of the weight.
#include "model/head.h"
#include "ops/device.h"

// Rows of the gradient that are stored at a time: a multiple of 16, as fp8 matmuls need.
enum { ROWS_AT_ONCE = 8192 };

static const struct mesh *agreeing(const struct pass *pass) {
    return pass->splits_rows ? pass->mesh : NULL;
}

void head_forward_fp8(const struct head *head, const struct pass *pass, struct tensor logits, struct tensor features) {
    size_t mark = arena_mark(pass->scratch);
    struct operand weight = fp8_weight(head->fp8, head->fp8_layer, false, pass->device, pass->scratch);
    struct operand x = {.value = arena_2d(pass->scratch, DTYPE_E4M3, features.shape[0], features.shape[1]),
                        .range = fp8_range(head->fp8, head->fp8_layer, FP8_INPUT)};
    fp8_quantize(head->fp8, pass->device, &(struct op_quantize){.y = x, .x = features}, agreeing(pass));
    op_matmul(pass->device, &(struct op_matmul){.a = pass_gather(pass, pass->scratch, x.value, "head input"),
                                                .b = weight.value,
                                                .d = logits,
                                                .a_range = x.range,
                                                .b_range = weight.range,
                                                .transpose_b = true,
                                                .alpha = head->scale,
                                                .epilogue = head->bias ? EPILOGUE_BIAS : EPILOGUE_NONE,
                                                .bias = head->bias ? head->bias->value : (struct tensor){0},
                                                .is_uneven = head->is_uneven});
    arena_release(pass->scratch, mark);
}

// The operands that the backward pass multiplies with the gradient of the logits.
struct head_operands {
    struct operand weight;  // transposed (E, V)
    struct operand x;       // transposed (E, N)
};

static struct head_operands take_operands(const struct head *head, const struct pass *pass, struct tensor features) {
    struct tensor all = pass_gather(pass, pass->scratch, features, "head input");
    struct head_operands operands = {
        .weight = fp8_weight(head->fp8, head->fp8_layer, true, pass->device, pass->scratch),
        .x = {.transposed = arena_2d(pass->scratch, DTYPE_E4M3, all.shape[1], all.shape[0]),
              .range = fp8_range(head->fp8, head->fp8_layer, FP8_INPUT)}};
    fp8_quantize(head->fp8, pass->device, &(struct op_quantize){.y = operands.x, .x = all}, agreeing(pass));
    return operands;
}

// For `count` rows from `first` on.
static void backward_rows(const struct head *head, const struct pass *pass, const struct head_operands *operands,
                          struct tensor dlogits, struct tensor dx, int64_t first) {
    int64_t count = dlogits.shape[0];
    size_t mark = arena_mark(pass->scratch);
    struct operand dy = {.value = arena_2d(pass->scratch, DTYPE_E5M2, count, head->V),
                         .transposed = arena_2d(pass->scratch, DTYPE_E5M2, head->V, count),
                         .range = fp8_range(head->fp8, head->fp8_layer, FP8_GRADIENT)};
    op_quantize(pass->device, &(struct op_quantize){
                                  .y = dy, .x = dlogits, .dbias = head->bias ? head->bias->grad : (struct tensor){0}});
    struct op_matmul input = {.a = dy.value,
                              .b = operands->weight.transposed,
                              .d = dx,
                              .a_range = dy.range,
                              .b_range = operands->weight.range,
                              .transpose_b = true,
                              .alpha = head->scale,
                              .is_uneven = head->is_uneven};
    op_matmul(pass->device, &input);
    struct op_matmul weight = {.a = dy.transposed,
                               .b = tensor_slice(operands->x.transposed, 1, first, count),
                               .d = head->weight->grad,
                               .a_range = dy.range,
                               .b_range = operands->x.range,
                               .transpose_b = true,
                               .alpha = head->scale,
                               .beta = pass->is_first && first == 0 ? 0 : 1,
                               .is_uneven = head->is_uneven};
    op_matmul(pass->device, &weight);
    arena_release(pass->scratch, mark);
}

void head_backward_fp8(const struct head *head, const struct pass *pass, const struct head_flight *flight,
                       struct tensor dfeatures) {
    int64_t N = flight->logits.shape[0];
    size_t mark = arena_mark(pass->scratch);
    struct head_operands operands = take_operands(head, pass, flight->features);
    struct operand gradient = {.range = fp8_range(head->fp8, head->fp8_layer, FP8_GRADIENT)};
    fp8_measure(head->fp8, pass->device, &(struct op_quantize){.y = gradient, .x = flight->logits}, NULL);
    for (int64_t first = 0; first < N; first += ROWS_AT_ONCE) {
        int64_t count = N - first < ROWS_AT_ONCE ? N - first : ROWS_AT_ONCE;
        backward_rows(head, pass, &operands, tensor_rows(flight->logits, first, count),
                      tensor_rows(dfeatures, first, count), first);
    }
    arena_release(pass->scratch, mark);
}
