// --step-batch-size-schedule: batch sizes, each from a number of tokens on, in Megatron's notation: "0:16 2.4B:320".
#include "base/number.h"
#include "config/validate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// A number of tokens, perhaps with a fraction and a suffix K, M, B or T for thousands, millions and so on.
static bool read_tokens(const char *text, size_t length, int64_t *tokens) {
    static const struct {
        char letter;
        double factor;
    } units[] = {{'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'T', 1e12}};
    char plain[64];
    double value, factor = 1;
    if (length == 0 || length >= sizeof plain)
        return false;
    memcpy(plain, text, length);
    plain[length] = '\0';
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (plain[length - 1] == units[i].letter || plain[length - 1] == units[i].letter + ('a' - 'A')) {
            plain[length - 1] = '\0';
            factor = units[i].factor;
            break;
        }
    if (!number_read_double(plain, &value) || value < 0 || value * factor >= 0x1p62)
        return false;
    *tokens = (int64_t)(value * factor);
    return true;
}

// TOKENS:SIZE, `length` characters.
static bool read_step(const struct config *config, const char *text, size_t length, struct config_batch_step *border) {
    char size[32];
    int64_t tokens;
    const char *colon = memchr(text, ':', length);
    size_t rest = colon ? length - (size_t)(colon + 1 - text) : 0;
    if (!colon || rest >= sizeof size || !read_tokens(text, (size_t)(colon - text), &tokens))
        return false;
    memcpy(size, colon + 1, rest);
    size[rest] = '\0';
    border->samples = config->run.seq_length > 0 ? tokens / config->run.seq_length : 0;
    return number_read_int(size, &border->size) && border->size > 0 && border->size <= 1 << 30;
}

static int64_t read_steps(struct config *config, struct complaints *complaints) {
    const char *text = config->run.step_batch_size_schedule;
    int64_t count = 0, most = 0;
    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        size_t length = strcspn(text, " ");
        struct config_batch_step *border = &config->run.batch_steps[count];
        if (count == CONFIG_MOST_BATCH_STEPS) {
            complain(complaints, "--step-batch-size-schedule has more than %d steps; leave some out",
                     CONFIG_MOST_BATCH_STEPS);
            return 0;
        }
        if (!read_step(config, text, length, border)) {
            complain(complaints,
                     "--step-batch-size-schedule: \"%.*s\" is not TOKENS:SIZE; give for example \"0:16 2.4B:320\"",
                     length < 40 ? (int)length : 40, text);
            return 0;
        }
        if (count == 0 ? border->samples != 0 : border->samples <= border[-1].samples) {
            complain(
                complaints,
                "--step-batch-size-schedule: \"%.*s\" does not follow; the first step is at 0 tokens, and each begins "
                "a sample or more after the one before",
                length < 40 ? (int)length : 40, text);
            return 0;
        }
        most = border->size > most ? border->size : most;
        count++;
        text += length;
    }
    if (count == 0)
        complain(complaints, "--step-batch-size-schedule is empty; give for example \"0:16 2.4B:320\"");
    config->run.batch_step_count = count;
    return most;
}

void validate_batch_steps(struct config *config, struct complaints *complaints) {
    int64_t unit = config->run.micro_batch_size * config->machine.data_parallel_size;
    if (!config->run.step_batch_size_schedule)
        return;
    int64_t most = read_steps(config, complaints);
    if (most == 0)
        return;
    if (config->run.global_batch_size != 0 && config->run.global_batch_size != most)
        complain(complaints,
                 "--global-batch-size %" PRId64 " is not the largest of --step-batch-size-schedule, %" PRId64
                 "; leave it out",
                 config->run.global_batch_size, most);
    config->run.global_batch_size = most;
    for (int64_t i = 0; i < config->run.batch_step_count; i++)
        if (config->run.batch_steps[i].size % unit != 0)
            complain(complaints,
                     "--step-batch-size-schedule: %" PRId64
                     " is not a multiple of micro-batch size × data-parallel ranks = %" PRId64 "; make it %" PRId64,
                     config->run.batch_steps[i].size, unit, nearest_multiple(config->run.batch_steps[i].size, unit));
}

int64_t batch_steps_iterations(const struct config *config) {
    int64_t iterations = 0, consumed = 0;
    for (int64_t i = 0; i < config->run.batch_step_count; i++) {
        int64_t size = config->run.batch_steps[i].size, end = config->run.train_samples;
        bool is_last = i == config->run.batch_step_count - 1 || config->run.batch_steps[i + 1].samples >= end;
        if (!is_last)
            end = config->run.batch_steps[i + 1].samples;
        // A batch that begins before the border is whole; the remainder at the end of the run is dropped.
        int64_t left = end > consumed ? end - consumed : 0, count = is_last ? left / size : (left + size - 1) / size;
        iterations += count;
        consumed += count * size;
        if (is_last)
            break;
    }
    return iterations;
}
