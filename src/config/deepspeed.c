// DeepSpeed's configuration file. See validate.h. Names and defaults are those of DeepSpeed's documentation.
#include "config/validate.h"
#include "base/error.h"
#include "base/log.h"
#include "base/number.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MOST_FILE_BYTES = 1 << 20 };

// Read below.
static const char *const read_members[] = {"train_batch_size",
                                           "train_micro_batch_size_per_gpu",
                                           "gradient_accumulation_steps",
                                           "gradient_clipping",
                                           "zero_optimization",
                                           "fp16",
                                           "bf16",
                                           "bfloat16"};
// Logs, profiles, and transport of messages and files.
static const char *const idle_members[] = {"steps_per_print",
                                           "wall_clock_breakdown",
                                           "dump_state",
                                           "memory_breakdown",
                                           "tensorboard",
                                           "wandb",
                                           "csv_monitor",
                                           "comet",
                                           "comms_logger",
                                           "flops_profiler",
                                           "timers",
                                           "nebula",
                                           "monitor_config",
                                           "prescale_gradients",
                                           "gradient_predivide_factor",
                                           "zero_allow_untested_optimizer",
                                           "zero_force_ds_cpu_optimizer",
                                           "communication_data_type",
                                           "seq_parallel_communication_data_type",
                                           "data_types",
                                           "disable_allgather",
                                           "sparse_gradients",
                                           "aio",
                                           "checkpoint",
                                           "load_universal_checkpoint",
                                           "activation_checkpointing",
                                           "pipeline",
                                           "use_data_before_expert_parallelism",
                                           "graph_harvesting",
                                           "use_node_local_storage"};
// Refused unless their member "enabled" is false, or missing and false by default.
static const char *const switched_members[] = {
    "curriculum_learning", "data_efficiency", "progressive_layer_drop", "amp",
    "elasticity",          "eigenvalue",      "hybrid_engine",          "autotuning"};

static bool is_listed(const char *name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}
#define LISTED(name, names) is_listed(name, names, sizeof names / sizeof names[0])

struct deepspeed_reading {
    struct config *config;
    const char *name;  // of the file
    struct complaints *complaints;
};

// Whether a member of a section is true; false, after a complaint, if it is not a boolean.
static bool is_true(const struct deepspeed_reading *reading, const struct json *section, const char *name,
                    const char *key) {
    const struct json *member = json_member(section, key);
    if (member && member->type != JSON_TRUE && member->type != JSON_FALSE)
        complain(reading->complaints, "%s: %s.%s is neither true nor false; write one of them", reading->name, name,
                 key);
    return member && member->type == JSON_TRUE;
}

// A member of the file that is an object, or NULL.
static const struct json *section_of(const struct deepspeed_reading *reading, const struct json *file,
                                     const char *name) {
    const struct json *section = json_member(file, name);
    if (section && section->type != JSON_OBJECT)
        complain(reading->complaints, "%s: %s is not an object; write e.g. \"%s\": {\"%s\": %s}", reading->name, name,
                 name, strcmp(name, "zero_optimization") == 0 ? "stage" : "enabled",
                 strcmp(name, "zero_optimization") == 0 ? "1" : "false");
    return section;
}

// A number of a section, `initial` if it is missing. NaN, after a complaint, if it is not a number.
static double number_of(const struct deepspeed_reading *reading, const struct json *section, const char *key,
                        double initial) {
    const struct json *member = json_member(section, key);
    if (!member || member->type == JSON_NULL)
        return initial;
    if (member->type == JSON_NUMBER)
        return member->number;
    complain(reading->complaints, "%s: %s is not a number; write one", reading->name, key);
    return NAN;
}

// Sets the flag to the file's value, which DeepSpeed obeys.
static void obey(const struct deepspeed_reading *reading, const char *flag, double *field, double value,
                 const char *key) {
    if (isnan(value))
        return;
    if (flag_is_given(&reading->config->given, flag) && *field != value)
        log_info("note: %s: %s %g counts instead of %s %g, as in DeepSpeed", reading->name, key, value, flag, *field);
    char text[40];
    double before = *field;
    (void)snprintf(text, sizeof text, "%.17g", value);
    // In the file 0 means a dynamic scale; the flag does not take it.
    if (value == 0 && strcmp(flag, "--loss-scale") == 0)
        *field = 0;
    else if (config_take(reading->config, flag, text) < 0) {
        complain(reading->complaints, "%s: %s %g: %s", reading->name, key, value, error_message());
        error_clear();
        *field = before;
    }
}

static void obey_count(const struct deepspeed_reading *reading, const char *flag, int64_t *field, double value,
                       const char *key) {
    double number = (double)*field;
    if (isnan(value))
        return;
    if (value != floor(value) || fabs(value) > 0x1p53) {
        complain(reading->complaints, "%s: %s %g is not a whole number", reading->name, key, value);
        return;
    }
    if (flag_is_given(&reading->config->given, flag) && number != value)
        log_info("note: %s: %s %g counts instead of %s %g, as in DeepSpeed", reading->name, key, value, flag, number);
    if (config_take_number(reading->config, flag, (int64_t)value) < 0) {
        complain(reading->complaints, "%s: %s %g: %s", reading->name, key, value, error_message());
        error_clear();
    }
}

// A size on which Megatron and DeepSpeed must agree.
static void agree(const struct deepspeed_reading *reading, const struct json *file, const char *flag, int64_t field,
                  const char *key) {
    double value = number_of(reading, file, key, (double)field);
    if (isnan(value) || (double)field == value)
        return;
    if (flag_is_given(&reading->config->given, flag))
        complain(reading->complaints, "%s: %s is %g, but %s is %" PRId64 "; make them equal", reading->name, key, value,
                 flag, field);
    else if (value != floor(value) || fabs(value) > 0x1p53 ||
             config_take_number(reading->config, flag, (int64_t)value) < 0) {
        complain(reading->complaints, "%s: %s %g is not a size of a batch; give a whole number above 0", reading->name,
                 key, value);
        error_clear();
    }
}

// The number of data-parallel ranks is not known yet, but the global batch must have whole micro-batches for them.
static void read_accumulation(const struct deepspeed_reading *reading, const struct json *file) {
    const struct config *config = reading->config;
    double steps = number_of(reading, file, "gradient_accumulation_steps", NAN);
    double unit = steps * (double)(config->run.micro_batch_size > 0 ? config->run.micro_batch_size : 1);
    if (isnan(steps))
        return;
    if (steps != floor(steps) || steps < 1)
        complain(reading->complaints, "%s: gradient_accumulation_steps %g is not a whole number above 0; correct it",
                 reading->name, steps);
    else if (config->run.global_batch_size == 0)
        complain(reading->complaints,
                 "%s has gradient_accumulation_steps without train_batch_size; give the latter, micro-batch size × "
                 "data-parallel ranks × %g",
                 reading->name, steps);
    else if (fmod((double)config->run.global_batch_size, unit) != 0)
        complain(reading->complaints,
                 "%s: gradient_accumulation_steps %g × micro-batch size does not divide the global batch size %" PRId64
                 "; remove gradient_accumulation_steps or make it fit",
                 reading->name, steps, config->run.global_batch_size);
}

static void read_precision(const struct deepspeed_reading *reading, const struct json *file) {
    const struct json *fp16 = section_of(reading, file, "fp16"), *bf16 = section_of(reading, file, "bf16");
    struct config *config = reading->config;
    if (!bf16)
        bf16 = section_of(reading, file, "bfloat16");
    bool is_fp16 = is_true(reading, fp16, "fp16", "enabled"), is_bf16 = is_true(reading, bf16, "bf16", "enabled");
    if (is_fp16 != config->run.fp16 || is_bf16 != config->run.bf16)
        complain(reading->complaints, "%s has fp16 %s and bf16 %s, but the flags say %s; make them equal",
                 reading->name, is_fp16 ? "enabled" : "disabled", is_bf16 ? "enabled" : "disabled",
                 config->run.fp16   ? "--fp16"
                 : config->run.bf16 ? "--bf16"
                                    : "neither --fp16 nor --bf16");
    if (!is_fp16)
        return;
    if (is_true(reading, fp16, "fp16", "consecutive_hysteresis"))
        complain(reading->complaints, "%s: fp16.consecutive_hysteresis is not implemented; set it to false",
                 reading->name);
    obey(reading, "--loss-scale", &config->run.loss_scale, number_of(reading, fp16, "loss_scale", 0), "loss_scale");
    double power = number_of(reading, fp16, "initial_scale_power", 16);
    obey(reading, "--initial-loss-scale", &config->run.initial_loss_scale, power > 90 ? NAN : exp2(power),
         "2^initial_scale_power");
    if (power > 90)
        complain(reading->complaints, "%s: initial_scale_power %g is above 90; lower it", reading->name, power);
    obey(reading, "--min-loss-scale", &config->run.min_loss_scale, number_of(reading, fp16, "min_loss_scale", 1),
         "min_loss_scale");
    obey_count(reading, "--loss-scale-window", &config->run.loss_scale_window,
               number_of(reading, fp16, "loss_scale_window", 1000), "loss_scale_window");
    obey_count(reading, "--hysteresis", &config->run.hysteresis, number_of(reading, fp16, "hysteresis", 2),
               "hysteresis");
}

static void read_zero(const struct deepspeed_reading *reading, const struct json *zero) {
    double stage = number_of(reading, zero, "stage", 0);
    const struct json *offload = json_member(zero, "offload_optimizer");
    const struct json *device = json_member(offload, "device");
    if (!isnan(stage) && (stage != floor(stage) || stage < 0 || stage > 3))
        complain(reading->complaints, "%s: zero_optimization.stage is %g; give 0, 1 or 2", reading->name, stage);
    else if (!isnan(stage)) {
        struct config *config = reading->config;
        if (flag_is_given(&config->given, "--zero-stage") && config->machine.zero_stage != (int64_t)stage)
            log_info("note: %s: zero_optimization.stage %g counts instead of --zero-stage %" PRId64 ", as in DeepSpeed",
                     reading->name, stage, config->machine.zero_stage);
        config->machine.zero_stage = (int64_t)stage;
    }
    if (device && device->type == JSON_STRING && strcmp(device->string, "none") != 0)
        log_info("note: %s: offload_optimizer has no effect; give --optimizer-cpu-offload for the same", reading->name);
}

static void check_member(const struct deepspeed_reading *reading, const char *key, const struct json *value) {
    if (LISTED(key, read_members) || LISTED(key, idle_members))
        return;
    if (LISTED(key, switched_members)) {
        if (is_true(reading, value, key, "enabled"))
            complain(reading->complaints, "%s: %s is enabled, which bevatron does not implement; disable it",
                     reading->name, key);
        return;
    }
    bool is_known = strcmp(key, "optimizer") == 0 || strcmp(key, "scheduler") == 0;
    complain(reading->complaints, "%s: %s %s", reading->name, key,
             is_known ? "is not read; remove it and give its numbers as flags (--lr, --adam-beta1, --lr-decay-style, …)"
                      : "is not known here and could change the run; remove it");
}

int deepspeed_apply(struct config *config, const struct json *file, const char *name) {
    struct complaints complaints = {0};
    const struct deepspeed_reading reading = {config, name, &complaints};
    if (file->type != JSON_OBJECT)
        return error_set_code(EXIT_CODE_USAGE, "%s is not a JSON object; --deepspeed_config takes DeepSpeed's file",
                              name);
    for (size_t i = 0; i < file->count; i++) {
        const char *key = file->keys[i].string;
        if (json_member(file, key) == &file->items[i])
            check_member(&reading, key, &file->items[i]);
        else
            complain(&complaints, "%s has %s twice; remove one", name, key);
    }
    agree(&reading, file, "--micro-batch-size", config->run.micro_batch_size, "train_micro_batch_size_per_gpu");
    agree(&reading, file, "--global-batch-size", config->run.global_batch_size, "train_batch_size");
    read_accumulation(&reading, file);
    read_precision(&reading, file);
    // DeepSpeed does not clip unless its file says so.
    obey(&reading, "--clip-grad", &config->run.clip_grad, number_of(&reading, file, "gradient_clipping", 0),
         "gradient_clipping");
    read_zero(&reading, section_of(&reading, file, "zero_optimization"));
    return complaints_report(&complaints);
}

void validate_deepspeed(struct config *config, struct complaints *complaints) {
    const char *method = config->machine.pp_partition_method;
    if (config->machine.deepspeed && !config->machine.deepspeed_config)
        complain(complaints, "--deepspeed needs its file; give --deepspeed_config FILE, or leave it out");
    if (!config->machine.deepspeed && config->machine.deepspeed_config)
        log_info("note: --deepspeed-config has no effect without --deepspeed");
    if (config->machine.zero_stage == 3)
        log_info("note: ZeRO's stage 3 is taken as stage 1, --use-distributed-optimizer: a rank keeps whole parameters "
                 "here, which changes memory and no numbers");
    if (config->machine.zero_stage > 0)
        config->machine.use_distributed_optimizer = true;
    bool counts_ends = method && strcmp(method, "type:transformer|embedding") == 0;
    if (method && !counts_ends && strcmp(method, "type:transformer") != 0)
        complain(complaints,
                 "--pp-partition-method %s is not implemented; give type:transformer or type:transformer|embedding, or "
                 "--pipeline-model-parallel-layout for another split",
                 method);
    if (counts_ends && config->machine.pipeline_model_parallel_size > 1)
        config->machine.account_for_embedding_in_pipeline_split = config->machine.account_for_loss_in_pipeline_split =
            true;
}

int config_apply_deepspeed(struct config *config) {
    struct json *file = NULL;
    if (!config->machine.deepspeed || !config->machine.deepspeed_config)
        return 0;
    TRY(json_parse_file(&file, config->machine.deepspeed_config, MOST_FILE_BYTES));
    int status = deepspeed_apply(config, file, config->machine.deepspeed_config);
    json_free(file);
    return status;
}
