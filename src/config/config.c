// Reading a run's configuration from a command line, and the few numbers computed from it everywhere: the padded
// vocabulary, the number of parameters and the size of each global batch.
#include "config/config.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "config/validate.h"
#include <inttypes.h>
#include <string.h>

int config_parse(struct config *config, int argc, char **argv) {
    memset(config, 0, sizeof *config);
    int status = flags_parse(config_command(), config, argc, argv);
    if (status != 0)
        return status;
    return config_apply_preset(config);
}

void config_defaults(struct config *config) {
    memset(config, 0, sizeof *config);
    flags_set_defaults(config_command(), config);
}

void config_free(struct config *config) {
    flags_free(config_command(), config);
}

// Several rows may stand for one member; it is copied once.
void config_copy(struct config *copy, const struct config *config) {
    struct flag_table table = config_flag_table(0);
    *copy = *config;
    size_t count = flag_count(&table.rows);
    copy->given.source = memory_alloc(count + 1);
    memcpy(copy->given.source, config->given.source, count);
    for (size_t i = 0; i < count; i++) {
        const struct flag *flag = flag_at(&table.rows, i);
        void *to = (char *)copy + flag->offset;
        const void *from = (const char *)config + flag->offset;
        if (flag->type == FLAG_STRING || flag->type == FLAG_CHOICE) {
            if (*(char **)to == *(char *const *)from)
                *(char **)to = memory_string(*(char *const *)from);
        } else if (flag->type == FLAG_STRING_LIST) {
            const struct string_list *items = from;
            if (((struct string_list *)to)->items != items->items)
                continue;
            *(struct string_list *)to = (struct string_list){0};
            for (int64_t n = 0; n < items->count; n++)
                string_list_add(to, items->items[n]);
        }
    }
}

int config_pad_vocab(struct config *config, int64_t vocab_size) {
    if (vocab_size < 1 || vocab_size > INT32_MAX)
        return error_set("a vocabulary of %" PRId64 " tokens is out of range", vocab_size);
    if (config->model.padded_vocab_size == 0) {
        // The tensor-parallel size is not a factor here: the layout of ranks must not change the model.
        int64_t multiple = config->model.make_vocab_size_divisible_by;
        config->model.padded_vocab_size = (vocab_size + multiple - 1) / multiple * multiple;
    }
    if (config->model.padded_vocab_size < vocab_size)
        return error_set_code(EXIT_CODE_USAGE,
                              "the tokenizer has %" PRId64 " tokens, but --padded-vocab-size is %" PRId64
                              "; use the model's own tokenizer or, for a new model, leave the flag out",
                              vocab_size, config->model.padded_vocab_size);
    // The size of the model is known only here.
    struct complaints complaints = {0};
    validate_size(config, &complaints);
    return complaints_report(&complaints);
}

bool config_trains_tokenizer(const struct config *config) {
    return config->data.tokenizer_type && strcmp(config->data.tokenizer_type, "auto") == 0;
}

int64_t config_model_ranks(const struct config *config) {
    return config->machine.tensor_model_parallel_size * config->machine.context_parallel_size *
           config->machine.pipeline_model_parallel_size;
}

int64_t config_least_ranks(const struct config *config) {
    // Without a limit on data-parallel ranks: as many as the experts need.
    struct config_expert_ranks ranks = {.data = 1};
    (void)config_expert_ranks(config, 0, &ranks);
    return config_model_ranks(config) * ranks.data;
}

bool config_batch_varies(const struct config *config) {
    return config->run.rampup_start > 0 || config->run.batch_step_count > 0;
}

int64_t config_global_batch_size(const struct config *config, int64_t consumed_samples) {
    for (int64_t i = config->run.batch_step_count - 1; i >= 0; i--)
        if (config->run.batch_steps[i].samples <= consumed_samples)
            return config->run.batch_steps[i].size;
    if (config->run.rampup_start == 0 || consumed_samples > config->run.rampup_samples)
        return config->run.global_batch_size;
    int64_t increments = (config->run.global_batch_size - config->run.rampup_start) / config->run.rampup_increment;
    if (increments == 0)
        return config->run.global_batch_size;
    // A quotient of doubles, as in Megatron: the steps fall on the same samples.
    double samples_per_increment = (double)config->run.rampup_samples / (double)increments;
    int64_t steps = (int64_t)((double)consumed_samples / samples_per_increment);
    int64_t size = config->run.rampup_start + steps * config->run.rampup_increment;
    return size < config->run.global_batch_size ? size : config->run.global_batch_size;
}

int64_t config_eval_batch_size(const struct config *config) {
    return config->run.eval_global_batch_size > 0 ? config->run.eval_global_batch_size : config->run.global_batch_size;
}

const char *config_name_of(size_t field, int value) {
    const struct flag_table table = config_flag_table(0);
    const struct flag *flag = NULL;
    for (size_t i = 0; (flag = flag_at(&table.rows, i)) && (flag->type != FLAG_ENUM || flag->offset != field); i++)
        ;
    CHECK(flag != NULL);
    return flag_value_text(flag, value);
}

int config_take(struct config *config, const char *flag, const char *text) {
    struct flag_table table = config_flag_table(0);
    return flag_set(&table, config, flag, text, FLAG_FROM_FILE);
}

int config_take_number(struct config *config, const char *flag, int64_t number) {
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRId64, number);
    return config_take(config, flag, text);
}

int config_choose(struct config *config, const char *flag, const char *text) {
    struct flag_table table = config_flag_table(0);
    return flag_set(&table, config, flag, text, FLAG_FROM_PRESET);
}

int config_choose_number(struct config *config, const char *flag, double number) {
    char text[32];
    (void)snprintf(text, sizeof text, "%.10g", number);
    return config_choose(config, flag, text);
}
