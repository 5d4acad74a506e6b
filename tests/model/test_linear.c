// Linear layers by strategy: fp8 is close to plain, and a deferred weight gradient equals one that is computed at once,
// bit for bit, even if the layer's ranges change in between.
#include "base/rng.h"
#include "model/deferred.h"
#include "model/init.h"
#include "model/linear.h"
#include "ops/device.h"
#include "test.h"

enum { N = 32, IN = 48, OUT = 16, BYTES = 1 << 20 };

struct linear_rig {
    struct device *device;
    struct mesh mesh;
    struct fp8 fp8;
    struct param_list params;
    struct linear linear;
    float values[2 * OUT * IN], grads[2 * OUT * IN], x[N * IN], dy[N * OUT];
    unsigned char *memory[3];
    struct arena activations, scratch, state;
    struct pass pass;
};

// The ways in which a linear multiplies.
enum multiplying { PLAIN, BY_TENSOR, BY_128, BY_32, KINDS };

static void linear_rig_open(struct linear_rig *rig, enum multiplying kind) {
    static const enum scaling inputs[KINDS] = {[BY_128] = SCALING_VECTOR128, [BY_32] = SCALING_VECTOR32};
    static const enum scaling weights[KINDS] = {[BY_128] = SCALING_BLOCK128, [BY_32] = SCALING_VECTOR32};
    *rig = (struct linear_rig){.mesh = {.size = 1, .length = {1, 1, 1, 1}},
                               .fp8 = {.length = 1,
                                       .inputs = inputs[kind],
                                       .weights = weights[kind],
                                       .values = DTYPE_E4M3,
                                       .gradients = DTYPE_E5M2}};
    EXPECT_OK(device_open(&rig->device, &(struct device_options){.name = "cpu", .threads = 1}));
    struct arena *arenas[] = {&rig->activations, &rig->scratch, &rig->state};
    for (int i = 0; i < 3; i++) {
        rig->memory[i] = aligned_alloc(ARENA_ALIGNMENT, BYTES);
        arena_init(arenas[i], "test", rig->memory[i], BYTES);
    }
    linear_build(&rig->linear, &rig->params, "linear",
                 &(struct linear_options){.weight = shard_whole(2, OUT, IN),
                                          .has_bias = true,
                                          .standard_deviation = 0.3,
                                          .fp8 = kind == PLAIN ? NULL : &rig->fp8});
    param_list_layout(&rig->params);
    param_list_bind(&rig->params, tensor_1d(rig->values, DTYPE_F32, rig->params.total),
                    tensor_1d(rig->grads, DTYPE_F32, rig->params.total));
    init_params(rig->device, &rig->params, (struct tensor){0}, 7);
    fp8_lay_out(&rig->fp8, &rig->state);
    fp8_reset(&rig->fp8, rig->device);
    fp8_begin_step(&rig->fp8, rig->device);
    philox_normal(rig->x, N * IN, 0, 1, 1, 1.0);
    philox_normal(rig->dy, N * OUT, 0, 2, 1, 1.0);
    rig->pass = (struct pass){.device = rig->device,
                              .mesh = &rig->mesh,
                              .activations = &rig->activations,
                              .scratch = &rig->scratch,
                              .dtype = DTYPE_F32,
                              .B = 1,
                              .T = N,
                              .is_training = true,
                              .is_first = true};
}

static void linear_rig_close(struct linear_rig *rig) {
    param_list_free(&rig->params);
    fp8_free(&rig->fp8);
    for (int i = 0; i < 3; i++)
        free(rig->memory[i]);
    device_close(rig->device);
}

// All results of a linear: y, dx, and the gradients of weight and bias.
struct linear_results {
    float y[N * OUT], dx[N * IN], grads[2 * OUT * IN];
};

static void compute(struct linear_rig *rig, struct linear_results *results, struct deferred *deferred) {
    struct operand x = operand_of(tensor_2d(rig->x, DTYPE_F32, N, IN));
    memset(rig->grads, 0, sizeof rig->grads);
    linear_forward(&rig->linear, &rig->pass, tensor_2d(results->y, DTYPE_F32, N, OUT), x, EPILOGUE_BIAS,
                   (struct tensor){0});
    size_t mark = arena_mark(&rig->scratch);
    struct operand dy = linear_gradient(&rig->linear, &rig->pass, tensor_2d(rig->dy, DTYPE_F32, N, OUT));
    linear_backward_input(&rig->linear, &rig->pass, tensor_2d(results->dx, DTYPE_F32, N, IN), dy, (struct tensor){0});
    struct pass pass = rig->pass;
    pass.deferred = deferred;
    linear_backward_weight(&rig->linear, &pass, dy, x);
    arena_release(&rig->scratch, mark);
    if (deferred) {
        // Another micro-batch comes first: scratch is reused, and ranges are those of larger numbers.
        memset(rig->memory[1], 0x55, BYTES);
        for (int role = 0; rig->fp8.count > 0 && role < FP8_ROLES; role++)
            ((float *)fp8_range(&rig->fp8, 0, (enum fp8_role)role).data)[RANGE_FACTOR] *= 8;
        deferred_run(deferred, &rig->pass);
    }
    memcpy(results->grads, rig->grads, sizeof rig->grads);
}

static double distance(const float *a, const float *b, int64_t count) {
    double apart = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        apart += pow((double)a[i] - (double)b[i], 2);
        size += pow((double)b[i], 2);
    }
    return sqrt(apart / size);
}

static struct linear_results results_of(enum multiplying kind, bool is_deferred, bool is_training) {
    struct linear_rig rig;
    struct linear_results results = {0};
    linear_rig_open(&rig, kind);
    rig.pass.is_training = is_training;
    unsigned char *memory = aligned_alloc(ARENA_ALIGNMENT, BYTES);
    struct deferred deferred = {0};
    arena_init(&deferred.arena, "test", memory, BYTES);
    compute(&rig, &results, is_deferred ? &deferred : NULL);
    deferred_free(&deferred);
    free(memory);
    linear_rig_close(&rig);
    return results;
}

TEST(deferred_gradients_are_the_same) {
    for (int kind = PLAIN; kind < KINDS; kind++) {
        struct linear_results at_once = results_of((enum multiplying)kind, false, true);
        struct linear_results later = results_of((enum multiplying)kind, true, true);
        EXPECT(memcmp(&at_once, &later, sizeof later) == 0);
    }
}

// A weight that is stored where it is used gives what one that was stored before gives.
TEST(kept_weights_are_the_same) {
    for (int kind = BY_TENSOR; kind < KINDS; kind++) {
        struct linear_results results[2] = {0};
        for (int is_kept = 0; is_kept < 2; is_kept++) {
            struct linear_rig rig;
            linear_rig_open(&rig, (enum multiplying)kind);
            if (is_kept) {
                rig.fp8.keeps_weights = true;
                fp8_lay_out(&rig.fp8, &rig.state);
                fp8_reset(&rig.fp8, rig.device);
                fp8_begin_step(&rig.fp8, rig.device);
            }
            compute(&rig, &results[is_kept], NULL);
            linear_rig_close(&rig);
        }
        EXPECT(memcmp(&results[0], &results[1], sizeof results[0]) == 0);
    }
}

TEST(fp8_is_near_plain) {
    struct linear_results plain = results_of(PLAIN, false, true);
    for (int kind = BY_TENSOR; kind < KINDS; kind++) {
        struct linear_results fp8 = results_of((enum multiplying)kind, false, true);
        double y = distance(fp8.y, plain.y, N * OUT), dx = distance(fp8.dx, plain.dx, N * IN);
        double grads = distance(fp8.grads, plain.grads, OUT * IN);
        if (!(y > 1e-3 && y < 0.06 && dx > 1e-3 && dx < 0.1 && grads > 1e-3 && grads < 0.1))
            test_fail("kind %d: y is off by %.3g, dx by %.3g, gradients by %.3g", kind, y, dx, grads);
        struct linear_results evaluated = results_of((enum multiplying)kind, false, false);
        EXPECT(memcmp(&evaluated, &plain, sizeof plain) == 0);
    }
}

TEST_MAIN(TEST_CASE(deferred_gradients_are_the_same), TEST_CASE(kept_weights_are_the_same),
          TEST_CASE(fp8_is_near_plain))
