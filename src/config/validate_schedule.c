// Batches and schedules: samples of an update, the length of the run, and the learning-rate and weight-decay schedules
// in samples, Megatron's unit. A run is counted in iterations or in samples, never in both.
#include "config/validate.h"
#include "base/memory.h"
#include "base/number.h"
#include "config/factors.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RAMPUP_STEPS = 1000000 };

// Counts stay below 2^62, so that sums of two do not overflow.
static int64_t product(int64_t a, int64_t b, const char *what, struct complaints *complaints) {
    int64_t result;
    if (!__builtin_mul_overflow(a, b, &result) && result < (int64_t)FLAG_ENDLESS)
        return result;
    complain(complaints, "%s gives more samples than can be counted; make it smaller", what);
    return 0;
}

static bool read_count(const char *text, int64_t *value) {
    return number_read_int(text, value) && *value > 0 && *value < (int64_t)FLAG_ENDLESS;
}

static void validate_rampup(struct config *config, int64_t unit, struct complaints *complaints) {
    const struct string_list *list = &config->run.rampup_batch_size;
    int64_t start, increment, samples, size = config->run.global_batch_size;
    if (list->count == 0)
        return;
    if (list->count != 3 || !read_count(list->items[0], &start) || !read_count(list->items[1], &increment) ||
        !read_count(list->items[2], &samples)) {
        complain(complaints, "--rampup-batch-size takes three whole numbers above 0: START INCREMENT SAMPLES");
        return;
    }
    int before = complaints->count;
    if (start > size)
        complain(complaints,
                 "--rampup-batch-size starts at %" PRId64 ", above --global-batch-size %" PRId64 "; start lower", start,
                 size);
    else if ((size - start) % increment != 0)
        complain(complaints,
                 "--rampup-batch-size does not reach --global-batch-size %" PRId64 " from %" PRId64
                 " in steps of %" PRId64 "; choose a divisor of %" PRId64,
                 size, start, increment, size - start);
    else if ((size - start) / increment > MOST_RAMPUP_STEPS)
        complain(complaints, "--rampup-batch-size makes more than %d steps; choose a larger INCREMENT",
                 MOST_RAMPUP_STEPS);
    if (start % unit != 0 || (start < size && increment % unit != 0))
        complain(complaints,
                 "--rampup-batch-size: START and INCREMENT must be multiples of %" PRId64
                 " (micro-batch size × data-parallel ranks)",
                 unit);
    if (complaints->count > before)
        return;
    config->run.rampup_start = start;
    config->run.rampup_increment = increment;
    config->run.rampup_samples = samples;
}

// Evaluations run in micro-batches of training's size. Their mean is over all tokens, so another size changes nothing,
// except where a loss is the mean of each micro-batch.
static void validate_eval_batches(const struct config *config, struct complaints *complaints) {
    int64_t dp = config->machine.data_parallel_size, size = config->run.micro_batch_size,
            wanted = config_eval_batch_size(config);
    int64_t eval_size = config->run.eval_micro_batch_size > 0 ? config->run.eval_micro_batch_size : size;
    // Complaints about the sizes of training come first.
    if (config->run.eval_global_batch_size == 0 && config->run.eval_micro_batch_size == 0)
        return;
    bool is_mean_of_each = config->model.form == CONFIG_BERT || config->model.form == CONFIG_ICT;
    if (eval_size != size && is_mean_of_each)
        complain(complaints,
                 "--eval-micro-batch-size %" PRId64
                 " would change the loss (it is a mean of each micro-batch); leave it "
                 "out: it is %" PRId64 " as in training",
                 eval_size, size);
    bool is_training_size = wanted % (size * dp) != 0;
    int64_t unit = (is_training_size ? size : eval_size) * dp;
    if (wanted % unit != 0)
        complain(complaints,
                 "an evaluation's batch of %" PRId64 " samples (%s) is not a multiple of %s × data-parallel ranks = "
                 "%" PRId64 " × %" PRId64 "; give --eval-global-batch-size %" PRId64,
                 wanted, config->run.eval_global_batch_size > 0 ? "--eval-global-batch-size" : "--global-batch-size",
                 is_training_size ? "--micro-batch-size" : "--eval-micro-batch-size", unit / dp, dp,
                 nearest_multiple(wanted, unit));
}

void validate_batches(struct config *config, enum config_use use, struct complaints *complaints) {
    int64_t parts = config_model_ranks(config);
    config->machine.data_parallel_size = 1;
    if (config->machine.world_size % parts == 0)
        config->machine.data_parallel_size = config->machine.world_size / parts;
    else if (config->machine.world_size > parts)
        complain(complaints,
                 "%" PRId64 " ranks are not a multiple of tensor × pipeline × context parallelism = %" PRId64
                 "; start a multiple of it, %" PRId64 " or %" PRId64,
                 config->machine.world_size, parts, config->machine.world_size / parts * parts,
                 (config->machine.world_size / parts + 1) * parts);
    else
        complain(complaints,
                 "%" PRId64 " %s not a multiple of tensor × pipeline × context parallelism = %" PRId64
                 "; start %" PRId64 " or a multiple of it (--nproc %" PRId64 " on one machine)",
                 config->machine.world_size, config->machine.world_size == 1 ? "rank is" : "ranks are", parts, parts,
                 parts);
    // Data-parallel ranks that share experts all generate the same text.
    struct config_expert_ranks along = {.data = 1};
    if (config_expert_ranks(config, 0, &along) < 0)
        along.data = 1;
    if (use == CONFIG_GENERATE && config->machine.data_parallel_size > along.data)
        complain(complaints,
                 "%" PRId64 " ranks would hold the whole model %" PRId64
                 " times, but text is written by one; start %" PRId64
                 ", or let more ranks share it with --tensor-model-parallel-size",
                 config->machine.world_size, config->machine.data_parallel_size / along.data, parts * along.data);
    if (config->run.micro_batch_size == 0) {
        if (use == CONFIG_TRAIN)
            complain(complaints, "--micro-batch-size is missing; give the samples a rank works on at once");
        config->run.micro_batch_size = 1;
    }
    int64_t unit = config->run.micro_batch_size * config->machine.data_parallel_size;
    if (use == CONFIG_TRAIN)
        validate_batch_steps(config, complaints);
    if (config->run.global_batch_size == 0)
        config->run.global_batch_size = unit;
    if (config->run.global_batch_size % unit != 0)
        complain(complaints,
                 "--global-batch-size %" PRId64
                 " is not a multiple of micro-batch size × data-parallel ranks = %" PRId64 " × %" PRId64
                 "; make it %" PRId64 " or change --micro-batch-size",
                 config->run.global_batch_size, config->run.micro_batch_size, config->machine.data_parallel_size,
                 nearest_multiple(config->run.global_batch_size, unit));
    else if (use == CONFIG_TRAIN)
        validate_rampup(config, unit, complaints);
    validate_eval_batches(config, complaints);
}

// Number of iterations of train_samples, partial last batch dropped. During the ramp-up many iterations have the same
// size: they are skipped together, up to a few before the next step, and the rest one by one.
static int64_t iterations_of_samples(const struct config *config) {
    int64_t iterations = 0, consumed = 0;
    if (config->run.batch_step_count > 0)
        return batch_steps_iterations(config);
    if (config->run.rampup_start > 0 && config->run.rampup_start < config->run.global_batch_size) {
        int64_t increments = (config->run.global_batch_size - config->run.rampup_start) / config->run.rampup_increment;
        double samples_per_increment = (double)config->run.rampup_samples / (double)increments;
        while (consumed <= config->run.rampup_samples) {
            int64_t size = config_global_batch_size(config, consumed);
            double step_end = ((double)((size - config->run.rampup_start) / config->run.rampup_increment) + 1) *
                              samples_per_increment;
            double left = (step_end - (double)consumed) / (double)size - 2;
            int64_t together = left > 1 && left < 0x1p60 ? (int64_t)left : 1;
            if (consumed + together * size > config->run.rampup_samples)
                together = 1;
            iterations += together;
            consumed += together * size;
        }
    }
    if (config->run.train_samples > consumed)
        iterations += (config->run.train_samples - consumed) / config->run.global_batch_size;
    return iterations;
}

static void validate_length(struct config *config, struct complaints *complaints) {
    // An earlier validation of the same config derived this number, too.
    if (config->run.train_iters > 0 && config->run.train_samples > 0 &&
        config->run.train_iters != iterations_of_samples(config)) {
        complain(complaints, "--train-iters and --train-samples exclude each other; give one");
        return;
    }
    if (config->run.train_samples > 0) {
        config->run.train_iters = iterations_of_samples(config);
        if (config->run.train_iters == 0)
            complain(complaints,
                     "--train-samples %" PRId64 " is less than one batch of %" PRId64
                     "; train longer or make the batch smaller",
                     config->run.train_samples, config->run.global_batch_size);
    } else if (config->run.train_iters == 0 && !config->run.skip_train) {
        complain(complaints, "the length of the run is missing; give --train-iters, --tokens or --epochs");
    }
}

// Every sample has seq_length tokens, so a schedule in tokens is one in samples, to the nearest sample.
static void derive_token_steps(struct config *config, struct complaints *complaints) {
    int64_t T = config->run.seq_length;
    if (config->run.lr_decay_tokens == 0 && config->run.lr_warmup_tokens == 0)
        return;
    if (T == 0)
        return;
    if (config->run.lr_decay_tokens > 0)
        config->run.lr_decay_steps = config->run.lr_decay_tokens / T + (config->run.lr_decay_tokens % T * 2 >= T);
    if (config->run.lr_decay_tokens > 0 && config->run.lr_decay_steps == 0)
        complain(complaints, "--lr-decay-tokens %" PRId64 " is less than a sample of %" PRId64 " tokens; raise it",
                 config->run.lr_decay_tokens, T);
    if (config->run.lr_warmup_tokens > 0)
        config->run.lr_warmup_steps = (double)config->run.lr_warmup_tokens / (double)T;
}

static void derive_steps(struct config *config, struct complaints *complaints) {
    bool by_samples = config->run.train_samples > 0;
    int64_t size = config->run.global_batch_size;
    if (by_samples) {
        if (config->run.lr_decay_samples == 0)
            config->run.lr_decay_samples = config->run.train_samples;
        config->run.lr_decay_steps = config->run.lr_decay_samples;
        config->run.lr_warmup_steps = (double)config->run.lr_warmup_samples;
        config->run.lr_wsd_decay_steps = config->run.lr_wsd_decay_samples;
        config->run.wd_incr_steps = config->run.train_samples;
    } else {
        if (config->run.lr_decay_iters == 0)
            config->run.lr_decay_iters = config->run.train_iters;
        config->run.lr_decay_steps = product(config->run.lr_decay_iters, size, "--lr-decay-iters", complaints);
        config->run.lr_warmup_steps =
            (double)product(config->run.lr_warmup_iters, size, "--lr-warmup-iters", complaints);
        config->run.lr_wsd_decay_steps =
            product(config->run.lr_wsd_decay_iters, size, "--lr-wsd-decay-iters", complaints);
        config->run.wd_incr_steps = product(config->run.train_iters, size, "--train-iters", complaints);
    }
    derive_token_steps(config, complaints);
    if (config->run.lr_warmup_fraction > 0)
        config->run.lr_warmup_steps = config->run.lr_warmup_fraction * (double)config->run.lr_decay_steps;
}

static void validate_decoupled_lr(struct config *config, struct complaints *complaints) {
    bool has_minimum = flag_is_given(&config->given, "--decoupled-min-lr");
    if (config->run.decoupled_lr == 0) {
        if (has_minimum)
            complain(complaints, "--decoupled-min-lr does nothing without --decoupled-lr; give both");
        return;
    }
    if (!has_minimum)
        config->run.decoupled_min_lr = config->run.min_lr;
    if (config->run.decoupled_min_lr > config->run.decoupled_lr)
        complain(complaints, "%s %g is above --decoupled-lr %g; give a lower --decoupled-min-lr",
                 has_minimum ? "--decoupled-min-lr" : "--min-lr", config->run.decoupled_min_lr,
                 config->run.decoupled_lr);
}

static void validate_factors(const struct string_list *items, const char *flag, struct complaints *complaints) {
    struct factor factor;
    for (int64_t i = 0; i < items->count; i++)
        if (!factor_read(items->items[i], &factor))
            complain(complaints,
                     "%s %s is not PATTERN=FACTOR with a factor from 0 to %g; give e.g. %s '*.linear_fc1.weight=0.5'",
                     flag, items->items[i], FACTOR_MOST, flag);
}

// The flag of the decay's length, in the unit of the run; without it, that of the run itself.
static const char *decay_flag(const struct config *config) {
    if (config->run.train_samples > 0)
        return flag_is_given(&config->given, "--lr-decay-samples") ? "--lr-decay-samples" : "--train-samples";
    return flag_is_given(&config->given, "--lr-decay-iters") ? "--lr-decay-iters" : "--train-iters";
}

static void complain_of_warmup(const struct config *config, struct complaints *complaints) {
    bool by_samples = config->run.train_samples > 0;
    if (config->run.lr_decay_tokens > 0) {
        complain(complaints,
                 "the warmup of %.0f samples is not shorter than --lr-decay-tokens, %" PRId64 " samples; "
                 "shorten it or raise --lr-decay-tokens",
                 config->run.lr_warmup_steps, config->run.lr_decay_steps);
        return;
    }
    complain(complaints,
             "--lr-warmup-%s %" PRId64 " must be below %s %" PRId64
             ", which it is part of; shorten it or raise --lr-decay-%s",
             by_samples ? "samples" : "iters", by_samples ? config->run.lr_warmup_samples : config->run.lr_warmup_iters,
             decay_flag(config), by_samples ? config->run.lr_decay_samples : config->run.lr_decay_iters,
             by_samples ? "samples" : "iters");
}

static void validate_lr(struct config *config, struct complaints *complaints) {
    if (strcmp(config->run.lr_wsd_decay_style, "1-sqrt") == 0) {
        free(config->run.lr_wsd_decay_style);
        config->run.lr_wsd_decay_style = memory_string("minus_sqrt");
    }
    bool by_samples = config->run.train_samples > 0;
    if (config->run.lr == 0) {
        if (!config->run.skip_train)
            complain(complaints, "--lr is missing; give the highest learning rate");
        return;
    }
    if (config->run.min_lr > config->run.lr)
        complain(complaints, "--min-lr %g is above --lr %g; lower it", config->run.min_lr, config->run.lr);
    if (config->run.lr_warmup_init > config->run.lr)
        complain(complaints, "--lr-warmup-init %g is above --lr %g; lower it", config->run.lr_warmup_init,
                 config->run.lr);
    // fairseq's schedule may end before its warmup does.
    bool may_end_early = strcmp(config->run.lr_decay_style, "polynomial_decay") == 0;
    if (config->run.lr_decay_steps > 0 && config->run.lr_warmup_steps >= (double)config->run.lr_decay_steps &&
        !may_end_early)
        complain_of_warmup(config, complaints);
    if (strcmp(config->run.lr_decay_style, "WSD") != 0)
        return;
    if (config->run.lr_decay_steps > 0 && config->run.lr_wsd_decay_steps > config->run.lr_decay_steps)
        complain(complaints, "--lr-wsd-decay-%s %" PRId64 " is longer than the whole, %s %" PRId64 "; shorten it",
                 by_samples ? "samples" : "iters",
                 by_samples ? config->run.lr_wsd_decay_samples : config->run.lr_wsd_decay_iters, decay_flag(config),
                 by_samples ? config->run.lr_decay_samples : config->run.lr_decay_iters);
}

static void validate_weight_decay(struct config *config, struct complaints *complaints) {
    bool start = flag_is_given(&config->given, "--start-weight-decay");
    bool end = flag_is_given(&config->given, "--end-weight-decay");
    if (strcmp(config->run.weight_decay_incr_style, "constant") == 0) {
        // A checkpoint's configuration holds both, one derived from the other.
        bool is_derived = config->run.start_weight_decay == config->run.weight_decay &&
                          config->run.end_weight_decay == config->run.weight_decay;
        if ((start || end) && !is_derived)
            complain(complaints, "--start-weight-decay and --end-weight-decay do nothing with "
                                 "--weight-decay-incr-style constant; give linear or cosine, or --weight-decay");
        config->run.start_weight_decay = config->run.end_weight_decay = config->run.weight_decay;
    } else if ((!start && config->run.start_weight_decay == 0) || (!end && config->run.end_weight_decay == 0)) {
        complain(complaints, "--weight-decay-incr-style %s needs --start-weight-decay and --end-weight-decay",
                 config->run.weight_decay_incr_style);
    } else if (config->run.start_weight_decay > config->run.end_weight_decay) {
        complain(complaints, "--start-weight-decay %g is above --end-weight-decay %g; weight decay only grows",
                 config->run.start_weight_decay, config->run.end_weight_decay);
    }
}

void validate_schedule(struct config *config, struct complaints *complaints) {
    validate_length(config, complaints);
    derive_steps(config, complaints);
    validate_lr(config, complaints);
    validate_decoupled_lr(config, complaints);
    validate_factors(&config->run.lr_mult, "--lr-mult", complaints);
    validate_factors(&config->run.wd_mult, "--wd-mult", complaints);
    validate_weight_decay(config, complaints);
}
