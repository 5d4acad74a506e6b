// Runs a model for a few tokens. See model_probe.h.
#include "train/model_probe.h"

#include "base/error.h"
#include "base/host_limits.h"
#include "base/memory.h"
#include "base/pool.h"
#include "model/census.h"
#include "plan/setup.h"
#include "store/convert.h"
#include "train/state.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DECODER_TOKENS = 5, FIRST_TOKEN = 4 };  // the first few may be padding, which other programs leave out

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

void probe_prepare(struct probe *probe, const struct config *config, int64_t vocab_size) {
    int64_t most = smaller(PROBE_TOKENS, config->model.max_position_embeddings);
    int64_t first = vocab_size > 2 * FIRST_TOKEN ? FIRST_TOKEN : 0, count = vocab_size - first;
    *probe = (struct probe){.T = most, .S = config->model.form == CONFIG_T5 ? smaller(DECODER_TOKENS, most) : 0};
    // A linear congruential generator: every token of a large vocabulary may come.
    uint64_t state = 20231;
    for (int64_t i = 0; i < 2 * PROBE_TOKENS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        int32_t token = (int32_t)(first + (int64_t)((state >> 33) % (uint64_t)count));
        *(i < PROBE_TOKENS ? &probe->tokens[i] : &probe->decoder_tokens[i - PROBE_TOKENS]) = token;
    }
}

void probe_free(struct probe *probe) {
    free(probe->logits);
    probe->logits = NULL;
}

bool probe_fits(const struct config *config, struct buffer *why) {
    double weights = (double)census_parameters(config) * sizeof(float);
    double logits = (double)config->model.padded_vocab_size * PROBE_TOKENS * 4 * sizeof(float);
    double needed = 1.2 * (weights + logits) + 256e6, room = (double)host_memory_room(1);
    if (needed <= room)
        return true;
    buffer_printf(why, "it needs about %.1f GB of memory and %.1f GB are available", needed / 1e9, room / 1e9);
    return false;
}

struct runner {
    struct config config;
    struct device *device;
    struct world *world;
    struct step *step;
};

static int runner_open(struct runner *runner, const struct model_source *source, const struct probe *probe) {
    config_copy(&runner->config, &source->config);
    struct config *config = &runner->config;
    config->run.seq_length = probe->T;
    config->run.encoder_seq_length = 0;
    config->run.decoder_seq_length = probe->S;
    config->run.micro_batch_size = config->run.global_batch_size = 1;
    TRY(config_validate_for(config, 1, CONFIG_EVALUATE));
    TRY(device_open(&runner->device, &(struct device_options){.threads = pool_available_processors()}));
    TRY(world_open(&runner->world, &(struct world_options){0}, runner->device));
    struct mesh mesh;
    TRY(mesh_place(&mesh, 0, 1, NULL));
    TRY(mesh_connect(&mesh, runner->world));
    return setup_step(&runner->step, &(struct setup){config, runner->device, &mesh, STEP_EVALUATE});
}

static void runner_close(struct runner *runner) {
    step_close(runner->step);
    if (runner->world)
        world_close(runner->world);
    device_close(runner->device);
    config_free(&runner->config);
}

// Rounds each value to the type.
static void round_values(const struct step *step, const struct probe_rounding *rounding) {
    enum dtype dtype = rounding->dtype;
    for (int i = 0; i < step_params(step)->count; i++) {
        const struct param *param = step_params(step)->items[i];
        bool is_shifted = param->is_gain && param->is_centered != rounding->has_centered_gains;
        float *values = param->value.data, added = !is_shifted ? 0.0f : param->is_centered ? 1.0f : -1.0f;
        size_t count = (size_t)tensor_count(param->value);
        float *whole = convert_shifted(values, DTYPE_F32, count, added);
        OWNED unsigned char *narrow = memory_alloc(count * dtype_bytes(dtype) + 1);
        convert_elements(
            &(struct convert){.to = narrow, .to_dtype = dtype, .from = whole, .from_dtype = DTYPE_F32, .count = count});
        free(whole);
        whole = convert_shifted(narrow, dtype, count, -added);
        memcpy(values, whole, count * sizeof values[0]);
        free(whole);
    }
}

static int load(struct step *step, struct model_source *source, const struct probe_rounding *rounding) {
    size_t count = (size_t)step_params(step)->count, biases = expert_bias_count(step, &source->config);
    OWNED struct checkpoint_tensor *list = memory_alloc((count + biases + 1) * sizeof *list);
    struct tensor target = step_weights_target(step);
    for (size_t i = 0; i < count; i++) {
        const struct param *param = step_params(step)->items[i];
        list[i] =
            (struct checkpoint_tensor){.name = param->name, .tensor = param_in(param, target), .shard = &param->shard};
    }
    if (biases > 0)
        expert_bias_list(step, &source->config, list + count);
    int result = model_source_load(source, step_device(step), list, count + biases, false);
    for (size_t i = count; i < count + biases; i++)
        free((char *)(uintptr_t)list[i].name);
    if (result == 0)
        step_accept_weights(step);
    if (result == 0 && rounding && rounding->dtype != DTYPE_F32)
        round_values(step, rounding);
    return result;
}

// The fields of the one micro-batch besides the tokens.
struct probe_input {
    struct probe *probe;
    int64_t sample;
    float mask[PROBE_TOKENS];
};

static int next_input(void *context, struct batch *input) {
    struct probe_input *given = context;
    struct probe *probe = given->probe;
    *input = (struct batch){.B = 1,
                            .T = probe->T,
                            .S = probe->S,
                            .tokens = probe->tokens,
                            .labels = probe->tokens,
                            .loss_mask = given->mask,
                            .samples = &given->sample};
    if (probe->S > 0)
        input->decoder_tokens = probe->decoder_tokens;
    return 0;
}

int probe_run(struct probe *probe, struct model_source *source, const struct probe_rounding *rounding) {
    struct runner runner = {0};
    int result = runner_open(&runner, source, probe);
    if (result == 0)
        result = load(runner.step, source, rounding);
    struct probe_input given = {.probe = probe, .mask = {1, 1, 1, 1, 1, 1, 1, 1}};
    struct step_source input = {.next = next_input, .context = &given, .count = 1};
    if (result == 0)
        result = step_evaluate(runner.step, &input);
    if (result == 0) {
        struct tensor logits = step_evaluated_logits(runner.step);
        int64_t count = tensor_count(logits);
        probe_free(probe);
        probe->rows = probe->S > 0 ? probe->S : probe->T;
        probe->V = count / probe->rows;
        probe->logits = memory_alloc((size_t)count * sizeof probe->logits[0]);
        device_copy_out(runner.device, probe->logits, logits);
    }
    runner_close(&runner);
    return result;
}

double probe_difference(const struct probe *a, const struct probe *b) {
    CHECK(a->rows == b->rows);
    int64_t columns = smaller(a->V, b->V);
    double difference = 0, norm = 0;
    for (int64_t r = 0; r < a->rows; r++) {
        for (int64_t c = 0; c < columns; c++) {
            double x = (double)a->logits[r * a->V + c], y = (double)b->logits[r * b->V + c];
            if (!isfinite(x) || !isfinite(y))
                return NAN;
            difference += (x - y) * (x - y);
            norm += x * x;
        }
    }
    return norm > 0 ? sqrt(difference / norm) : sqrt(difference);
}
