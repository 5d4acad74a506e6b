// The layers every block is made of: linear and norm, and what a pass gives them. See layer.h.
#include "model/layer.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>

int64_t pass_rows(const struct pass *pass) {
    return pass->B * pass->T;
}

struct dropout pass_dropout(const struct pass *pass, double rate, int64_t layer, enum dropout_place place) {
    if (!pass->is_training || rate == 0)
        return (struct dropout){.rate = 0};
    return (struct dropout){.rate = (float)rate,
                            .seed = pass->seed,
                            .site = (uint32_t)(layer * DROPOUT_PLACES + (int64_t)place),
                            .row_ids = pass->row_ids};
}

void linear_build(struct linear *linear, struct param_list *params, const char *name, struct shard weight,
                  double standard_deviation) {
    char *weight_name = memory_printf("%s.weight", name), *bias_name = memory_printf("%s.bias", name);
    // The bias follows the rows of the weight; a weight split along its columns has a whole bias on every rank.
    struct shard bias = shard_whole(1, weight.global[0], 1);
    bias.segment_count = weight.segment_count;
    for (int i = 0; i < weight.segment_count; i++)
        bias.segments[i] = weight.segments[i];
    if (weight.parts > 1 && weight.dimension == 0)
        bias = shard_split(bias, 0, weight.parts, weight.part);
    linear->weight = param_add(params, weight_name, weight, INIT_NORMAL, standard_deviation);
    linear->bias = param_add(params, bias_name, bias, INIT_ZERO, 0);
    linear->out = shard_local_size(&weight, 0);
    linear->in = shard_local_size(&weight, 1);
    free(weight_name);
    free(bias_name);
}

void linear_forward(const struct linear *linear, const struct pass *pass, struct tensor y, struct tensor x,
                    enum epilogue epilogue, struct tensor aux) {
    op_matmul(pass->device,
              &(struct op_matmul){.a = x,
                                  .b = linear->weight->value,
                                  .d = y,
                                  .transpose_b = true,
                                  .alpha = 1,
                                  .epilogue = epilogue,
                                  .activation = ACTIVATION_GELU_TANH,
                                  .bias = epilogue == EPILOGUE_NONE ? (struct tensor){0} : linear->bias->value,
                                  .aux = aux});
}

void linear_backward_input(const struct linear *linear, const struct pass *pass, struct tensor dx, struct tensor dy,
                           struct tensor aux) {
    op_matmul(pass->device, &(struct op_matmul){.a = dy,
                                                .b = linear->weight->value,
                                                .d = dx,
                                                .alpha = 1,
                                                .epilogue = aux.data ? EPILOGUE_ACTIVATION_GRADIENT : EPILOGUE_NONE,
                                                .activation = ACTIVATION_GELU_TANH,
                                                .aux = aux});
}

void linear_backward_weight(const struct linear *linear, const struct pass *pass, struct tensor dy, struct tensor x) {
    op_matmul(pass->device, &(struct op_matmul){.a = dy,
                                                .b = x,
                                                .d = linear->weight->grad,
                                                .transpose_a = true,
                                                .alpha = 1,
                                                .beta = pass->is_first ? 0 : 1});
}

void norm_build(struct norm *norm, struct param_list *params, const char *name, int64_t C, double epsilon) {
    char *gain_name = memory_printf("%s.weight", name), *bias_name = memory_printf("%s.bias", name);
    norm->gain = param_add(params, gain_name, shard_whole(1, C, 1), INIT_ONE, 0);
    norm->bias = param_add(params, bias_name, shard_whole(1, C, 1), INIT_ZERO, 0);
    norm->epsilon = (float)epsilon;
    free(gain_name);
    free(bias_name);
}
