// Chooses values for flags that were not given. See automatic.h.
//
// The micro-batch is the largest power of two that fits into a part of the free memory, as measured on paper, up to the
// number of tokens beyond which a device gets no faster. Learning rates and batches on GPUs are those of GPT-3's table
// (Brown et al. 2020, table 2.1); on a CPU a batch is one micro-batch, so that updates come within seconds. A run lasts
// four epochs, or 20 tokens per parameter if that is less.
#include "train/automatic.h"
#include "base/error.h"
#include "base/host_limits.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/phase.h"
#include "data/index/index.h"
#include "data/sample/blend.h"
#include "model/census.h"
#include "plan/setup.h"
#include "train/data_paths.h"
#include "train/state.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CPU_TOKENS = 4096, FEWER_CPU_TOKENS = 2048, MOST_GPU_TOKENS = 65536, GPU_BATCH_TOKENS = 524288 };
enum { EPOCHS = 4, LEAST_UPDATES = 50, TOKENS_PER_PARAMETER = 20 };
static const double small_model = 20e6;

static const char *const flags_of_warmup[] = {"--lr-warmup-fraction", "--lr-warmup-iters", "--lr-warmup-samples",
                                              "--lr-warmup-tokens"};

static bool is_open(const struct config *config, const char *flag) {
    return flag_source(&config->given, flag) == FLAG_FROM_DEFAULT;
}

bool automatic_is_needed(const struct automatic *open) {
    return open->micro_batch_size || open->lr || open->train_iters;
}

bool automatic_has_precision(const struct config *config) {
    return config->run.micro_batch_size == 0 && is_open(config, "--bf16") && is_open(config, "--fp16") &&
           !config->run.fp8_format && !config->run.fp4_format && !config->run.tf32;
}

int automatic_begin(struct automatic *open, struct config *config) {
    TRY(config_choose_length(config));
    *open = (struct automatic){.micro_batch_size = config->run.micro_batch_size == 0,
                               .lr = config->run.lr == 0 && !config->run.skip_train,
                               .train_iters = config->run.train_iters == 0 && config->run.train_samples == 0 &&
                                              config->run.tokens == 0 && !config->run.skip_train &&
                                              !config->data.mock_data};
    open->global_batch_size = open->micro_batch_size && config->run.global_batch_size == 0;
    open->precision = automatic_has_precision(config);
    if (open->micro_batch_size)
        TRY(config_choose_number(config, "--micro-batch-size", 1));
    if (open->train_iters)
        TRY(config_choose_number(config, "--train-iters", 1));
    return open->lr ? config_choose(config, "--lr", "1e-3") : 0;
}

// ---- the choices ----

struct run_choice {
    int64_t micro_batch_size, global_batch_size, train_iters;
    int64_t precision;  // enum dtype
    double lr;
};

static double choose_lr(double parameters) {
    static const struct {
        double parameters, lr;
    } rows[] = {{60e6, 1e-3},  {2e8, 6e-4},    {6e8, 3e-4},  {1e9, 2.5e-4}, {2e9, 2e-4},
                {4e9, 1.6e-4}, {1e10, 1.2e-4}, {3e10, 1e-4}, {1e99, 6e-5}};
    size_t i = 0;
    while (parameters > rows[i].parameters)
        i++;
    return rows[i].lr;
}

static enum dtype choose_precision(const struct device *device) {
    return device_is_fast(device, DTYPE_BF16)                                   ? DTYPE_BF16
           : !device->ops->is_host_memory && device_supports(device, DTYPE_F16) ? DTYPE_F16
                                                                                : DTYPE_F32;
}

// Bytes of a step of this mode and micro-batch, measured on paper; SIZE_MAX if there is none.
static size_t measure_step(const struct setup *like, int64_t micro_batch_size, enum dtype dtype) {
    bool is_training = like->mode == STEP_TRAIN;
    struct config config;
    struct device *paper = NULL;
    struct step *step = NULL;
    struct step_room room;
    struct mesh mesh;
    size_t bytes = SIZE_MAX;
    config_copy(&config, like->config);
    config.run.micro_batch_size = micro_batch_size;
    // The number of micro-batches that a pipeline holds at once.
    config.run.global_batch_size =
        micro_batch_size * config.machine.data_parallel_size * config.machine.pipeline_model_parallel_size;
    config.run.train_iters = config.run.train_samples > 0 ? 0 : config.run.train_iters;
    config.run.bf16 = dtype == DTYPE_BF16;
    config.run.fp16 = dtype == DTYPE_F16;
    log_hush(true);
    if (config_validate_for(&config, like->mesh->size, is_training ? CONFIG_TRAIN : CONFIG_EVALUATE) == 0 &&
        mesh_place_config(&mesh, like->mesh->rank, like->mesh->size, &config) == 0 &&
        device_open_twin(&paper, like->device) == 0) {
        struct step_options options = setup_options(&(struct setup){&config, paper, &mesh, like->mode});
        if (step_open(&step, &options, &room) == 0)
            bytes = room.needed.total + room.needed.device_own;
        step_close(step);
    }
    log_hush(false);
    error_clear();
    device_close(paper);
    config_free(&config);
    return bytes;
}

// Number of ranks that share this machine's memory.
static int count_neighbours(const struct group *all) {
    int count = 0;
    for (int i = 0; i < group_size(all); i++)
        count += i == group_rank(all) || group_is_neighbour(all, i);
    return count;
}

// Half of a host's memory is left to the system and its files, a tenth of a GPU's to libraries.
static size_t usable_bytes(struct device *device, const struct mesh *mesh) {
    size_t room = device_room(device);
    if (!device->ops->is_host_memory && room > 0)
        return room - room / 10;
    uint64_t host = host_memory_room(count_neighbours(mesh->all));
    return host == UINT64_MAX ? SIZE_MAX : (size_t)(host / 2);
}

static int64_t largest_power(int64_t most) {
    int64_t power = 1;
    while (2 * power <= most)
        power *= 2;
    return power;
}

// The smallest micro-batch over ranks, the same on all.
static int64_t choose_micro_batch(const struct setup *like, enum dtype dtype, int64_t most) {
    size_t usable = usable_bytes(like->device, like->mesh);
    int64_t size = 1;
    while (2 * size <= most && measure_step(like, 2 * size, dtype) <= usable)
        size *= 2;
    int64_t least[1] = {-size};
    comm_max_i64(like->mesh->all, least, 1, "the micro-batch of all ranks");
    return -least[0];
}

// Tokens beyond which a device gets no faster.
static int64_t most_tokens(const struct device *device, double parameters) {
    return !device->ops->is_host_memory ? MOST_GPU_TOKENS
           : parameters <= small_model  ? MOST_CPU_TOKENS
                                        : FEWER_CPU_TOKENS;
}

int64_t automatic_evaluation_batch(const struct config *config, struct device *device, const struct mesh *mesh,
                                   int64_t samples) {
    if (config->model.form == CONFIG_ICT)
        return 1;
    enum dtype dtype = config->run.bf16 ? DTYPE_BF16 : config->run.fp16 ? DTYPE_F16 : DTYPE_F32;
    int64_t most = most_tokens(device, (double)census_parameters(config)) / config->run.seq_length;
    int64_t own = (samples + config->machine.data_parallel_size - 1) / config->machine.data_parallel_size;
    if (samples > 0 && own < most)
        most = own;
    return choose_micro_batch(&(struct setup){config, device, mesh, STEP_EVALUATE}, dtype, most);
}

// The fraction of a dataset that --split gives to training; 1 without a split.
static int training_share(const char *split, double *share) {
    struct split_bounds bounds = {.bookends = {0, 1}};
    if (split)
        TRY(split_parse(&bounds, split));
    *share = bounds.bookends[SPLIT_TRAIN + 1] - bounds.bookends[SPLIT_TRAIN];
    return 0;
}

// Tokens of the training data, or of all datasets of a blend; 0 if not known.
static int count_tokens(const struct automatic_run *run, double *tokens) {
    OWNED_BY(data_paths_free) struct data_paths paths = {0};
    OWNED_BY(blend_list_free) struct blend_list list = {0};
    double share = 1;
    *tokens = 0;
    int status = data_paths_find(&paths, run->config, SPLIT_TRAIN);
    text_data_replace(run->texts, &paths.items);
    if (status == 0 && paths.items.count > 0)
        status = blend_list_parse(&list, paths.items.items, paths.items.count, paths.flag);
    if (status == 0 && run->config->run.epochs > 0)
        status = training_share(paths.split, &share);
    for (int64_t i = 0; status == 0 && i < list.count; i++) {
        struct index_reader *reader;
        status = index_open(&reader, list.prefixes[i]);
        *tokens += status == 0 ? share * (double)reader->token_count : 0;
        if (status == 0)
            index_close(reader);
    }
    return status;
}

// With few updates a model learns nothing: for small data a batch has at most a fiftieth of an epoch.
static int64_t choose_batch(const struct automatic_run *run, int64_t micro_batch, double samples) {
    const struct config *config = run->config;
    int64_t unit = micro_batch * config->machine.data_parallel_size, passes = 1;
    bool is_host = run->device->ops->is_host_memory;
    double most = samples > 0 ? samples / LEAST_UPDATES : 1e18;
    while (!is_host && 2 * passes * unit * config->run.seq_length <= GPU_BATCH_TOKENS &&
           (double)(2 * passes * unit) <= most)
        passes *= 2;
    return passes * unit;
}

static void choose(const struct automatic_run *run, struct run_choice *choice, double parameters, double tokens) {
    const struct automatic *open = run->open;
    const struct config *config = run->config;
    double samples = tokens / (double)config->run.seq_length;
    if (open->precision)
        choice->precision = choose_precision(run->device);
    if (open->micro_batch_size) {
        int64_t most = most_tokens(run->device, parameters) / config->run.seq_length;
        if (samples > 0 && (double)(most * config->machine.data_parallel_size) > samples / LEAST_UPDATES)
            most = (int64_t)(samples / LEAST_UPDATES) / config->machine.data_parallel_size;
        if (!open->global_batch_size)
            most = most < config->run.global_batch_size ? most : config->run.global_batch_size;
        choice->micro_batch_size =
            choose_micro_batch(&(struct setup){config, run->device, run->mesh, STEP_TRAIN},
                               (enum dtype)choice->precision, most > 1 ? largest_power(most) : 1);
    }
    // It must divide the batch.
    while (!open->global_batch_size && choice->micro_batch_size > 1 &&
           config->run.global_batch_size % (choice->micro_batch_size * config->machine.data_parallel_size) != 0)
        choice->micro_batch_size /= 2;
    choice->global_batch_size =
        open->global_batch_size ? choose_batch(run, choice->micro_batch_size, samples) : config->run.global_batch_size;
    if (open->lr)
        choice->lr = choose_lr(parameters);
    double enough = config->run.epochs > 0                                ? config->run.epochs * tokens
                    : TOKENS_PER_PARAMETER * parameters < EPOCHS * tokens ? TOKENS_PER_PARAMETER * parameters
                                                                          : EPOCHS * tokens;
    double updates = enough / ((double)choice->global_batch_size * (double)config->run.seq_length);
    if (open->train_iters)
        choice->train_iters = updates > 1 ? (int64_t)updates : 1;
}

// ---- what a checkpoint has chosen ----

static const struct json *number_of(const struct json *object, const char *name) {
    const struct json *member = json_member(object, name);
    return member && member->type == JSON_NUMBER ? member : NULL;
}

static bool is_true(const struct json *object, const char *name) {
    const struct json *member = json_member(object, name);
    return member && member->type == JSON_TRUE;
}

// Flags that depend on the choice of the learning rate, by their names in config.json.
static const char *const of_lr[] = {"min_lr", "lr_decay_style", "lr_warmup_fraction"};

static int take_lr(struct config *config, const struct json *object) {
    for (size_t i = 0; i < sizeof of_lr / sizeof of_lr[0]; i++) {
        const struct json *member = json_member(object, of_lr[i]);
        if (!member || (member->type != JSON_NUMBER && member->type != JSON_STRING))
            continue;
        struct flag_table table = config_flag_table(0);
        const char *flag = flag_find(&table, of_lr[i])->name;
        if (!flag_is_given(&config->given, flag))
            TRY(config_choose(config, flag, member->string));
    }
    return 0;
}

static int take_choice(const struct automatic_run *run, struct run_choice *choice, const struct json *object) {
    const struct automatic *open = run->open;
    const struct json *batch = number_of(object, "global_batch_size"), *length = number_of(object, "train_iters"),
                      *lr = number_of(object, "lr");
    if (open->global_batch_size && batch)
        choice->global_batch_size = strtoll(batch->string, NULL, 10);
    if (open->train_iters && length && run->config->run.epochs == 0)
        choice->train_iters = strtoll(length->string, NULL, 10);
    if (open->precision)
        choice->precision = is_true(object, "bf16") ? DTYPE_BF16 : is_true(object, "fp16") ? DTYPE_F16 : DTYPE_F32;
    if (open->lr && lr) {
        choice->lr = strtod(lr->string, NULL);
        TRY(take_lr(run->config, object));
    }
    while (choice->micro_batch_size > 1 &&
           choice->global_batch_size % (choice->micro_batch_size * run->config->machine.data_parallel_size) != 0)
        choice->micro_batch_size /= 2;
    return 0;
}

// Takes the choice of the run that is resumed; *is_taken if there is one.
static int take_saved(const struct automatic_run *run, struct run_choice *choice, bool *is_taken) {
    const struct config *config = run->config;
    OWNED struct json *object = NULL;
    *is_taken = false;
    int status = state_read_resumed(&object, config);
    if (status == 0 && object) {
        status = take_choice(run, choice, object);
        *is_taken = true;
    }
    return status;
}

// ---- taking effect ----

// All ranks take rank 0's choice.
static void share(const struct automatic_run *run, struct run_choice *choice) {
    int64_t numbers[4] = {choice->micro_batch_size, choice->global_batch_size, choice->train_iters, choice->precision};
    comm_broadcast_i64(run->mesh->all, numbers, 4, 0, "batch sizes and precision of rank 0");
    choice->micro_batch_size = numbers[0];
    choice->global_batch_size = numbers[1];
    choice->train_iters = numbers[2];
    choice->precision = numbers[3];
}

// Sets a flag unless the user did, and names it.
static int give(struct config *config, struct buffer *said, const char *flag, const char *value) {
    if (flag_is_given(&config->given, flag))
        return 0;
    bool is_switch = strcmp(value, "true") == 0;
    buffer_printf(said, " %s%s%s", flag, is_switch ? "" : " ", is_switch ? "" : value);
    return config_choose(config, flag, value);
}

static int give_number(struct config *config, struct buffer *said, const char *flag, double value) {
    OWNED char *text = memory_printf("%.10g", value);
    return give(config, said, flag, text);
}

static int give_lr(struct config *config, struct buffer *said, double lr, bool is_saved) {
    TRY(give_number(config, said, "--lr", lr));
    if (is_saved)
        return 0;
    bool has_warmup = false;
    for (size_t i = 0; i < sizeof flags_of_warmup / sizeof flags_of_warmup[0]; i++)
        has_warmup = has_warmup || flag_is_given(&config->given, flags_of_warmup[i]);
    TRY(give_number(config, said, "--min-lr", lr / 10));
    TRY(give(config, said, "--lr-decay-style", "cosine"));
    return has_warmup ? 0 : give(config, said, "--lr-warmup-fraction", "0.02");
}

static int apply(const struct automatic_run *run, const struct run_choice *choice, bool is_saved, struct buffer *said) {
    const struct automatic *open = run->open;
    struct config *config = run->config;
    if (open->precision && choice->precision != DTYPE_F32)
        TRY(give(config, said, choice->precision == DTYPE_BF16 ? "--bf16" : "--fp16", "true"));
    if (open->micro_batch_size)
        TRY(give_number(config, said, "--micro-batch-size", (double)choice->micro_batch_size));
    if (open->global_batch_size)
        TRY(give_number(config, said, "--global-batch-size", (double)choice->global_batch_size));
    if (open->lr)
        TRY(give_lr(config, said, choice->lr, is_saved));
    if (open->train_iters) {
        // Both were derived from the temporary length.
        config->run.lr_decay_iters = flag_is_given(&config->given, "--lr-decay-iters") ? config->run.lr_decay_iters : 0;
        TRY(give_number(config, said, "--train-iters", (double)choice->train_iters));
        TRY(give(config, said, "--log-interval", "10"));
        TRY(give_number(config, said, "--eval-iters", fmin(10, ceil((double)choice->train_iters / 10))));
    }
    return 0;
}

int automatic_choose(const struct automatic_run *run) {
    struct config *config = run->config;
    struct run_choice choice = {.micro_batch_size = config->run.micro_batch_size,
                                .global_batch_size = config->run.global_batch_size,
                                .train_iters = config->run.train_iters,
                                .precision = config->run.bf16   ? DTYPE_BF16
                                             : config->run.fp16 ? DTYPE_F16
                                                                : DTYPE_F32,
                                .lr = config->run.lr};
    double tokens = 0;
    bool is_saved = false;
    if (!automatic_is_needed(run->open))
        return 0;
    int status = config->data.mock_data ? 0 : count_tokens(run, &tokens);
    TRY(comm_agree(run->mesh->all, status, "tokens counted"));
    choose(run, &choice, (double)census_parameters(config), tokens);
    TRY(comm_agree(run->mesh->all, take_saved(run, &choice, &is_saved), "choices of the checkpoint"));
    share(run, &choice);
    OWNED_BY(buffer_free) struct buffer said = {0};
    status = apply(run, &choice, is_saved, &said);
    if (status == 0 && said.length > 0)
        log_info("%s:%s; give a flag to choose it yourself%s",
                 is_saved ? "as in the checkpoint" : "chosen for this run", buffer_string(&said),
                 config->run.bf16 && run->open->precision ? " (--bf16=false for fp32)" : "");
    if (config->run.train_samples > 0)
        config->run.train_iters = 0;  // follows from the batch
    return status == 0 ? config_validate(config, run->mesh->size) : status;
}

int automatic_settle(const struct automatic_run *run, bool dumps) {
    bool is_needed = run->open && automatic_is_needed(run->open);
    struct phase *phase = is_needed ? phase_begin("choosing the batch size") : NULL;
    int status = is_needed ? automatic_choose(run) : 0;
    phase_end(phase);
    if (status == 0 && dumps) {
        OWNED_BY(buffer_free) struct buffer dump = {0};
        config_dump(run->config, !run->config->watch.log_arguments, &dump);
        fputs(buffer_string(&dump), stderr);
    }
    return status;
}
