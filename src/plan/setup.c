// From flags to a step. See setup.h.
#include "plan/setup.h"

#include "base/environment.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/words.h"
#include "config/factors.h"
#include "model/choices.h"
#include <inttypes.h>
#include <string.h>

// ---- factors of the learning rate and the weight decay by names of parameters: --lr-mult and --wd-mult ----

static bool matches_any(const struct param_list *params, const struct factor *factor) {
    for (int i = 0; i < params->count; i++)
        if (factor_matches(factor, params->items[i]->name))
            return true;
    return false;
}

static int count_dots(const char *text, size_t length) {
    int dots = 0;
    for (size_t i = 0; i < length; i++)
        dots += text[i] == '.';
    return dots;
}

// The end of a name with that many dots; all of it if it has no more.
static const char *end_of_name(const char *name, int dots) {
    const char *at = name + strlen(name);
    while (at > name && (at[-1] != '.' || dots-- > 0))
        at--;
    return at;
}

// Megatron-LM's flag for the norms of queries and keys; see flags_synonyms.c.
static const char QK_NORMS[] = "*.[qk]_layernorm.*=1";

// Compares the part after the last wildcard with the ends of names.
static int refuse_factor(const struct param_list *params, const struct factor *factor, const char *flag,
                         const char *item) {
    if (strcmp(flag, "--wd-mult") == 0 && strcmp(item, QK_NORMS) == 0)
        return error_set_code(EXIT_CODE_USAGE,
                              "--apply-wd-to-qk-layernorm (--wd-mult '%s'): this model has no norms of queries and "
                              "keys; give --qk-layernorm as well, or leave it out",
                              item);
    const char *end = factor->pattern + factor->length, *tail = end;
    while (tail > factor->pattern && !strchr("*?]", tail[-1]))
        tail--;
    if (tail < end && *tail == '.')
        tail++;
    struct nearest nearest = nearest_begin(tail, (size_t)(end - tail));
    for (int i = 0; i < params->count; i++)
        nearest_consider(&nearest, end_of_name(params->items[i]->name, count_dots(tail, (size_t)(end - tail))));
    const char *example = params->count > 0 ? params->items[params->count / 2]->name : "none";
    return error_set_code(EXIT_CODE_USAGE, "%s %s matches no parameter; %s %s%s train --dry-run lists all", flag, item,
                          nearest.best ? "did you mean" : "one is called", nearest.best ? nearest.best : example,
                          nearest.best ? "?" : ";");
}

static int check_factors(const struct param_list *params, const struct string_list *items, const char *flag) {
    for (int64_t i = 0; i < items->count; i++) {
        struct factor factor;
        CHECK(factor_read(items->items[i], &factor));
        if (!matches_any(params, &factor))
            return refuse_factor(params, &factor, flag, items->items[i]);
    }
    return 0;
}

static int take_factors(const struct config *config, const struct param_list *all, struct param_list *own) {
    TRY(check_factors(all, &config->run.lr_mult, "--lr-mult"));
    TRY(check_factors(all, &config->run.wd_mult, "--wd-mult"));
    for (int i = 0; i < own->count; i++) {
        struct param *param = own->items[i];
        param_set_factors(
            own, param,
            (struct param_factors){.lr = factors_of(&config->run.lr_mult, param->name, 1),
                                   .decay = factors_of(&config->run.wd_mult, param->name, param->has_decay ? 1 : 0)});
    }
    return 0;
}

// ---- a step ----

static const double GB = 1e9;

static struct schedule_shape schedule_of(const struct setup *setup) {
    const struct config *config = setup->config;
    int64_t unit = config->run.micro_batch_size * mesh_count(setup->mesh, MESH_SAMPLES);
    int64_t micro_batches = setup->mode == STEP_TRAIN ? config->run.global_batch_size / unit : 1;
    bool has_halves =
        config->machine.pipeline_schedule && strcmp(config->machine.pipeline_schedule, "zero-bubble") == 0;
    struct schedule_shape shape = {.kind = config_chunks(config) > 1 ? SCHEDULE_INTERLEAVED : SCHEDULE_1F1B,
                                   .stages = setup->mesh->length[AXIS_PIPELINE],
                                   .chunks = (int)config_chunks(config),
                                   .micro_batches = micro_batches > 0 ? (int)micro_batches : 1,
                                   .group = (int)config->machine.microbatch_group_size_per_virtual_pipeline_stage,
                                   .has_ranges = config->run.fp8_format != NULL,
                                   .has_pairs = config->machine.overlap_moe_expert_parallel_comm};
    if (has_halves && config->machine.pipeline_model_parallel_size > 1)
        shape.kind = SCHEDULE_ZERO_BUBBLE;
    return shape;
}

static struct batch_form largest_batch(const struct setup *setup) {
    const struct config *config = setup->config;
    bool is_generating = setup->mode == STEP_GENERATE;
    enum config_form family = config->model.form;
    struct batch_form form = {.B = is_generating ? 1 : config->run.micro_batch_size,
                              .T = is_generating ? config->model.max_position_embeddings : config->run.seq_length,
                              .fields = BATCH_BIT(TOKENS)};
    if (family == CONFIG_T5) {
        form.S = is_generating ? config->model.max_position_embeddings : config->run.decoder_seq_length;
        form.fields |= BATCH_BIT(DECODER_TOKENS);
    }
    if (family == CONFIG_ICT)
        form.fields |= BATCH_CONTEXT;
    if (!is_generating)
        form.fields |= BATCH_BIT(LABELS) | (family == CONFIG_GPT ? 0 : BATCH_BIT(LENGTHS)) |
                       (config->data.reset_attention_mask ? BATCH_BIT(DOCUMENT_STARTS) : 0);
    return form;
}

struct step_options setup_options(const struct setup *setup) {
    const struct config *config = setup->config;
    enum dtype dtype = config->run.bf16 ? DTYPE_BF16 : config->run.fp16 ? DTYPE_F16 : DTYPE_F32;
    struct step_options options = {
        .device = setup->device,
        .mesh = setup->mesh,
        .mode = setup->mode,
        .model = {.config = config, .mesh = setup->mesh},
        .optimizer = {.rule = optimizer_find(config->run.optimizer), .config = config, .dtype = dtype},
        .take_factors = config->run.lr_mult.count + config->run.wd_mult.count > 0 ? take_factors : NULL,
        .dtype = dtype,
        .seed = (uint64_t)config->run.seed,
        .largest = largest_batch(setup),
        .schedule = schedule_of(setup),
        .grows = config_batch_varies(config),
        .expert_layers = config_routed_layers(&config->model),
        .depths = (int)config->model.mtp_num_layers,
        .depth_factor = config->model.mtp_num_layers > 0
                            ? config->model.mtp_loss_scaling_factor / (double)config->model.mtp_num_layers
                            : 0,
        // Otherwise all micro-batches have as many tokens that count.
        .counts_tokens_alike =
            config->run.calculate_per_token_loss && (config->data.eod_mask_loss || config->model.form == CONFIG_T5),
        .decoder_chunk = INT64_MAX,
        .splits_rows = choices_splits_rows(config, setup->mesh),
        .recomputes = config->machine.recompute_granularity != NULL,
        .only_trains = setup->mode == STEP_TRAIN && config->run.eval_iters == 0 && !config->watch.eval_tasks,
        .keeps_scores = setup->mode == STEP_TRAIN && config->watch.eval_tasks,
        .records = !config->machine.no_cuda_graph,
        .divides_optimizer = config->machine.use_distributed_optimizer,
        .overlaps_reduction = config->machine.overlap_grad_reduce,
        .overlaps_gather = config->machine.overlap_param_gather,
        .rounds_sums = config->run.bf16 && config->run.grad_reduce_in_bf16,
        .watches_gradients = !config->watch.no_check_for_nan_in_loss_and_grad,
        .bucket_elements = config->machine.ddp_bucket_size,
        .bucket_count = config->machine.ddp_num_buckets};
    if (config->model.form == CONFIG_T5)
        options.decoder_chunk = config_split_stage(config) * config_chunks(config);
    return options;
}

// Matmuls of experts in fp8, on the device that `text` describes.
static int check_experts8(const struct config *config, const struct device *device, const char *text) {
    bool is_blockwise = strcmp(config->run.fp8_recipe, "blockwise") == 0,
         is_mx = strcmp(config->run.fp8_recipe, "mxfp8") == 0;
    if (!device_multiplies_groups8(device, SCALING_TENSOR))
        return error_set("%s has no fp8 matmuls of experts; they need compute capability 9.0 (H100, H200) and a build "
                         "for it; leave out --fp8-format",
                         text);
    if (is_blockwise && !device_multiplies_groups8(device, SCALING_VECTOR128))
        return error_set("%s has no fp8 matmuls of experts by blocks of 128; give --fp8-format hybrid --fp8-recipe "
                         "delayed, or --device cpu, which emulates them",
                         text);
    if (is_mx && !device_multiplies_groups8(device, SCALING_VECTOR32))
        return error_set("%s has no mxfp8 matmuls of experts; give --fp8-recipe blockwise, or --fp8-format hybrid "
                         "--fp8-recipe delayed, or --device cpu, which emulates them",
                         text);
    return 0;
}

static int check_device(const struct setup *setup, const struct step_options *options) {
    enum { MOST_SAMPLES = 65535 };  // attention's kernels have them along the shortest side of a grid
    const struct device *behind = device_behind(setup->device);
    bool is_gpu = !behind || !behind->ops->is_host_memory;
    char text[128];
    device_describe(setup->device, text, sizeof text);
    if (!device_supports(setup->device, options->dtype))
        return error_set("%s cannot train in %s; leave out --bf16/--fp16 or choose another --device", text,
                         dtype_name(options->dtype));
    if (is_gpu && options->largest.B > MOST_SAMPLES)
        return error_set_code(EXIT_CODE_USAGE,
                              "--micro-batch-size %" PRId64
                              " is above %d, the most that attention takes on a GPU; give "
                              "less, and the rest becomes further micro-batches",
                              options->largest.B, MOST_SAMPLES);
    if (setup->config->run.fp4_format && !device_supports_scaling(setup->device, SCALING_VECTOR16))
        return error_set("%s has no fp4 matmuls; they need compute capability 10.0 (B200) and CUDA 12.9; give "
                         "--fp8-format hybrid instead of --fp4-format, or --device cpu, which emulates them",
                         text);
    if (setup->config->run.fp8_format && !device_supports(setup->device, DTYPE_E4M3))
        return error_set(
            "%s has no fp8; leave out --fp8-format or use a GPU of compute capability 8.9 or later (L4, H100)", text);
    if (setup->config->run.fp8_format && strcmp(setup->config->run.fp8_recipe, "blockwise") == 0 &&
        !device_supports_scaling(setup->device, SCALING_BLOCK128))
        return error_set(
            "%s has no fp8 matmuls by blocks of 128; they need compute capability 9.0 (H100, H200) and CUDA "
            "12.9; give --fp8-format hybrid --fp8-recipe delayed",
            text);
    if (setup->config->run.fp8_format && strcmp(setup->config->run.fp8_recipe, "mxfp8") == 0 &&
        !device_supports_scaling(setup->device, SCALING_VECTOR32))
        return error_set("%s has no mxfp8 matmuls; they need compute capability 10.0 (B200) and CUDA 12.9; give "
                         "--fp8-format hybrid --fp8-recipe delayed",
                         text);
    if (is_gpu)
        TRY(config_check_whole_blocks(setup->config));
    if (setup->config->run.fp8_format && setup->config->model.num_experts > 0)
        return check_experts8(setup->config, setup->device, text);
    return 0;
}

void setup_log_ranks(const struct config *config, const struct mesh *mesh) {
    log_info("using world size: %d, data-parallel size: %" PRId64 ", context-parallel size: %" PRId64
             ", tensor-model-parallel size: %" PRId64 ", pipeline-model-parallel size: %" PRId64
             ", expert-model-parallel size: %" PRId64,
             mesh->size, config->machine.data_parallel_size, config->machine.context_parallel_size,
             config->machine.tensor_model_parallel_size, config->machine.pipeline_model_parallel_size,
             config->machine.expert_model_parallel_size);
}

void setup_describe_memory(const struct step_memory *memory, struct buffer *out) {
    buffer_printf(out,
                  "%.2f GB (weights %.2f, gradients %.2f, optimizer %.2f, activations %.2f, scratch %.2f, buffers "
                  "%.2f)",
                  (double)memory->total / GB, (double)memory->weights / GB, (double)memory->gradients / GB,
                  (double)memory->optimizer / GB, (double)memory->activations / GB, (double)memory->scratch / GB,
                  (double)memory->buffers / GB);
    if (memory->hosted)
        buffer_printf(out, " + %.2f GB of optimizer states in host memory", (double)memory->hosted / GB);
    if (memory->offloaded)
        buffer_printf(out, " + %.2f GB of " STEP_OFFLOADED, (double)memory->offloaded / GB);
    if (memory->copies)
        buffer_printf(out, " + %.2f GB for the device's own copies in fp32", (double)memory->copies / GB);
    if (memory->device_own > memory->copies)
        buffer_printf(out, " + %.2f GB for operands of matmuls", (double)(memory->device_own - memory->copies) / GB);
}

// Memory may be refused although enough is free.
static const char *why_refused(size_t asked, size_t room) {
    return room >= asked ? ", but in pieces, or the driver keeps some of it" : "";
}

static void append_sharers(const struct step_room *room, struct buffer *out) {
    if (room->sharers > 1)
        buffer_printf(out, " for each of the %d ranks here", room->sharers);
    buffer_append_string(out, "; ");
}

// Frees the text.
static int fail_with(struct error_note *cause, struct buffer *text) {
    (void)error_give(cause);
    (void)error_context("%s", buffer_string(text));
    buffer_free(text);
    return -1;
}

// The error of a rank whose smaller layout has no room. The device's own message, which is the last word, is the cause.
static int explain_refusal(const struct setup *setup, const struct step_room *room) {
    struct error_note *cause = error_take();
    size_t usable = room->bytes > room->reserve ? room->bytes - room->reserve : 0;
    struct buffer text = {0};
    buffer_printf(&text, "no room for the %s, %.2f GB", room->lack, (double)room->lack_bytes / GB);
    if (strcmp(room->lack, STEP_HOSTED_STATES) == 0) {
        buffer_append_string(&text, "; give a smaller --optimizer-offload-fraction, or split the optimizer among more "
                                    "ranks (--use-distributed-optimizer)");
        return fail_with(cause, &text);
    }
    if (strcmp(room->lack, STEP_OFFLOADED) == 0) {
        buffer_append_string(&text, "; give a smaller --cpu-offloading-num-layers, or share sequences among more ranks "
                                    "(--context-parallel-size)");
        return fail_with(cause, &text);
    }
    buffer_append_string(&text, ": the step needs ");
    setup_describe_memory(&room->needed, &text);
    if (room->reserve > 0)
        buffer_printf(&text, ", %.2f GB are kept for libraries,", (double)room->reserve / GB);
    buffer_printf(&text, " and %.2f GB are free%s", (double)room->bytes / GB, why_refused(room->needed.total, usable));
    append_sharers(room, &text);
    memory_remedies(setup, room->needed.total, usable, &text);
    return fail_with(cause, &text);
}

// All ranks get the error of the one that speaks.
static int refuse(const struct setup *setup, const struct step_room *room) {
    if (!room->lack)
        error_clear();
    int status = room->lack ? explain_refusal(setup, room) : 0;
    return setup->mesh->all ? comm_agree(setup->mesh->all, status, "memory of the step") : status;
}

// The system overcommits host memory: what was taken may be more than there is, which shows only when it is used.
// The first rank of each machine says so.
static void warn_if_scarce(const void *context, const struct step_room *room) {
    const struct setup *setup = context;
    const struct group *all = setup->mesh->all;
    size_t needed = room->needed.total + room->needed.device_own + room->needed.hosted + room->needed.offloaded;
    if (!room->is_host || needed <= room->bytes)
        return;
    for (int i = 0; all && i < group_rank(all); i++)
        if (group_is_neighbour(all, i))
            return;
    OWNED_BY(buffer_free) struct buffer text = {0};
    append_sharers(room, &text);
    memory_remedies(setup, room->needed.total, room->bytes, &text);
    log_warn("the step needs %.2f GB, but only %.2f GB of host memory is available%s; the OOM killer may end this run",
             (double)needed / GB, (double)room->bytes / GB, buffer_string(&text));
}

static void warn_if_shrunk(const struct step_room *room) {
    if (room->shrunk_from > 0)
        log_warn(
            "cannot allocate %.2f GB, %.2f GB are free%s; falling back to recomputing activations, which takes %.2f GB",
            (double)room->shrunk_from / GB, (double)room->bytes / GB,
            why_refused(room->shrunk_from + room->reserve, room->bytes), (double)room->needed.total / GB);
}

int setup_open(struct step **step, const struct setup *setup, const struct step_options *options) {
    struct step_room room;
    *step = NULL;
    if (setup->mode == STEP_GENERATE)
        TRY(config_check_writing(setup->config));
    TRY(check_device(setup, options));
    struct step_options told = *options;
    told.tell_room = warn_if_scarce;
    told.room_context = setup;
    int status = step_open(step, &told, &room);
    warn_if_shrunk(&room);
    return room.is_refused ? refuse(setup, &room) : status;
}

int setup_step(struct step **step, const struct setup *setup) {
    struct step_options options = setup_options(setup);
    return setup_open(step, setup, &options);
}

// Measured on an H200 (2026-11-17): a step of gpt2-124M takes 108 ms with 50,304 rows and 217 ms with 50,305.
static void warn_if_unaligned(const struct step *step, const struct config *config) {
    enum { ALIGNED_ROWS = 8 };
    char remedy[128] = "";
    if (config->data.tokenizer_type && strcmp(config->data.tokenizer_type, "NullTokenizer") == 0 &&
        config->data.null_tokenizer_eod_id < 0 && config->data.vocab_size % ALIGNED_ROWS == 0)
        snprintf(remedy, sizeof remedy,
                 ", or --null-tokenizer-eod-id %" PRId64 ": without it NullTokenizer adds an id to --vocab-size",
                 config->data.vocab_size - 1);
    bool is_fast = step_device(step)->ops->is_host_memory || step_values(step).dtype == DTYPE_F32;
    for (int i = 0; i < step_params(step)->count && !is_fast; i++) {
        const struct param *param = step_params(step)->items[i];
        int64_t rows = shard_local_size(&param->shard, 0);
        if (!strstr(param->name, "word_embeddings.weight") || rows % ALIGNED_ROWS == 0)
            continue;
        log_warn("a rank has %" PRId64 " rows of the vocabulary, not a multiple of %d: matmuls of the output layer are "
                 "about 5 times slower; give --make-vocab-size-divisible-by 128%s",
                 rows, ALIGNED_ROWS, remedy);
        return;
    }
}

void setup_log(const struct step *step, const struct config *config) {
    const struct step_memory *memory = step_memory(step);
    int ranks = step_mesh(step)->size;
    char text[128];
    device_describe(step_device(step), text, sizeof text);
    log_info("training in %s on %s, %d rank%s", dtype_name(step_values(step).dtype), text, ranks,
             ranks == 1 ? "" : "s");
    log_info(" > number of parameters on (tensor, pipeline) model parallel rank (0, 0): %" PRId64,
             param_list_elements(step_params(step)));
    log_info(" > memory: weights %.3f GB, gradients %.3f GB, optimizer %.3f GB, activations %.3f GB",
             (double)memory->weights / GB, (double)memory->gradients / GB, (double)memory->optimizer / GB,
             (double)(memory->activations + memory->scratch) / GB);
    if (memory->hosted)
        log_info(" > optimizer states in host memory: %.3f GB", (double)memory->hosted / GB);
    if (memory->offloaded)
        log_info(" > " STEP_OFFLOADED ": %.3f GB", (double)memory->offloaded / GB);
    if (memory->offloaded && step_device(step)->ops->is_host_memory)
        log_warn("--cpu-offloading saves no memory on a CPU; leave it out");
    if (memory->hosted && step_device(step)->ops->is_host_memory)
        log_warn("--optimizer-cpu-offload saves no memory on a CPU; leave it out");
    warn_if_unaligned(step, config);
    if (memory->copies)
        log_info(" > memory for copies in fp32: %.3f GB", (double)memory->copies / GB);
}
