// bevatron checkpoint average, reshard and verify: commands on checkpoints of our own.
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/number.h"
#include "cli/commands.h"
#include "config/flag_rows.h"
#include "formats/average.h"
#include "formats/contents.h"
#include "store/checkpoint.h"
#include "store/folder.h"
#include "store/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- average ----

// bevatron checkpoint average: one model from the weights of several checkpoints, or the moving average of a run.

struct average_options {
    struct flag_given given;
    struct string_list input, ckpt_step;
    char *output, *dtype;
    int64_t last;
    bool ema;
};

#define FLAG_STRUCT struct average_options

static const struct flag average_rows[] = {
    LIST("--input", input, "DIR…", "--save folders or iter_… folders to read; they are not changed"),
    TEXT("--output", output, NULL, "DIR", "--save folder to write, which must not hold a checkpoint yet"),
    INT("--last", last, "1", 1, AVERAGE_MOST, "checkpoints to take from each --save folder, the newest ones"),
    LIST("--ckpt-step", ckpt_step, "N…", "iterations to take from each --save folder, instead of --last"),
    SWITCH("--ema", ema, "write the moving average that a run with --ema-decay keeps, instead of its weights"),
    CHOICE("--dtype", dtype, NULL, ONE_OF("fp32", "bf16", "fp16"),
           "dtype of the written tensors; default: that of the newest checkpoint"),
};

static int list_steps(struct average_list *list, const struct average_options *options, const char *folder) {
    for (int64_t i = 0; i < options->ckpt_step.count; i++) {
        int64_t step;
        if (!number_read_int(options->ckpt_step.items[i], &step) || step < 0)
            return error_set_code(EXIT_CODE_USAGE,
                                  "--ckpt-step %s is not an iteration; give whole numbers, e.g. "
                                  "--ckpt-step 900 1000",
                                  options->ckpt_step.items[i]);
        TRY(average_list_add_step(list, folder, step));
    }
    return 0;
}

static int list_inputs(struct average_list *list, const struct average_options *options) {
    for (int64_t i = 0; i < options->input.count; i++)
        TRY(options->ckpt_step.count > 0 ? list_steps(list, options, options->input.items[i])
                                         : average_list_add(list, options->input.items[i], options->last));
    if (list->count < 2 && !options->ema)
        return error_set_code(EXIT_CODE_USAGE,
                              "an average needs at least two checkpoints; give --last N, --ckpt-step A "
                              "B, or several folders with --input");
    return 0;
}

static enum dtype chosen_dtype(const char *name) {
    enum dtype dtype = DTYPE_F32;
    for (enum dtype i = DTYPE_F32; name && i <= DTYPE_F16; i++)
        dtype = strcmp(dtype_name(i), name) == 0 ? i : dtype;
    return dtype;
}

static int average(void *context) {
    const struct average_options *options = context;
    if (options->input.count == 0 || !options->output)
        return error_set_code(EXIT_CODE_USAGE,
                              "give the checkpoints with --input DIR and the target with --output DIR");
    if (options->ckpt_step.count > 0 && flag_is_given(&options->given, "--last"))
        return error_set_code(EXIT_CODE_USAGE, "--last and --ckpt-step exclude each other; give one of them");
    TRY(contents_check_free(options->output, "--output"));
    OWNED_BY(average_list_free) struct average_list list = {0};
    struct average average = {.list = &list,
                              .folder = options->output,
                              .has_dtype = options->dtype != NULL,
                              .dtype = chosen_dtype(options->dtype),
                              .is_ema = options->ema};
    int status = list_inputs(&list, options);
    if (status == 0)
        status = average_write(&average);
    log_status(NULL);  // the result starts on a new line
    if (status == 0)
        printf("the %s of %zu checkpoint%s → %s, iteration %" PRId64 "\n", options->ema ? "moving average" : "average",
               list.count, list.count == 1 ? "" : "s", options->output, average.iteration);
    return status;
}

const struct command cmd_checkpoint_average = {
    .flags = {.name = "checkpoint average",
              .argument_flag = "--input",
              .summary = "Averages the weights of several checkpoints of one model.",
              .epilogue =
                  "Every element is summed in double and rounded once; of 16-bit runs the fp32 master weights are "
                  "read. The result\nhas no optimizer; evaluate, generate, convert and train --finetune read "
                  "it.\nExamples:\n  bevatron checkpoint average --input run --last 5 --output run-average\n  bevatron "
                  "checkpoint average --input run --ckpt-step 800 900 1000 --output run-average\n  bevatron checkpoint "
                  "average --input run --ema --output run-ema\n"},
    .tables = {{FLAG_TABLE(average_rows)}},
    .options_bytes = sizeof(struct average_options),
    .run = average,
    .phase = "averaging checkpoints",
};

// ---- reshard ----

struct reshard_options {
    struct flag_given given;
    char *input, *output;
    int64_t ckpt_step, files;
};

#undef FLAG_STRUCT
#define FLAG_STRUCT struct reshard_options

static const struct flag reshard_rows[] = {
    TEXT("--input", input, NULL, "DIR", "--save folder to read; it is not changed"),
    TEXT("--output", output, NULL, "DIR", "--save folder to write, which must not hold a checkpoint yet"),
    INT("--files", files, "1", 0, 10000,
        "number of files for the model, and as many for the optimizer; 0 for one per 64 MiB"),
    INT("--ckpt-step", ckpt_step, "-1", -1, FLAG_ENDLESS, "iteration to read; -1 for the latest"),
};

static int reshard(void *context) {
    const struct reshard_options *options = context;
    if (!options->input || !options->output)
        return error_set_code(EXIT_CODE_USAGE, "give the checkpoint with --input DIR and the target with --output DIR");
    TRY(contents_check_free(options->output, "--output"));
    OWNED char *path = NULL;
    int64_t iteration = 0;
    int hold = -1;
    struct checkpoint_find find = {
        .folder = options->input, .flag = "--input", .step = options->ckpt_step, .skip_checksums = true, .hold = &hold};
    TRY(checkpoint_find(&find, &path, &iteration));
    int status = checkpoint_rewrite(path, options->output, options->files);
    log_status(NULL);  // the result starts on a new line
    if (status == 0)
        printf("%s → %s, iteration %" PRId64 "\n", path, options->output, iteration);
    if (hold >= 0)
        close(hold);
    return status;
}

static const struct flag_synonym reshard_synonyms[] = {
    {"--tensor-model-parallel-size --pipeline-model-parallel-size --target-tensor-parallel-size --tp --pp", NULL,
     "leave it out: every layout of ranks reads every checkpoint; give the layout to train"},
    {0},
};

const struct command cmd_checkpoint_reshard = {
    .flags = {.name = "checkpoint reshard",
              .argument_flag = "--input",
              .summary = "Copies a checkpoint into a different number of files.",
              .epilogue =
                  "Training never needs this: every layout of ranks reads every checkpoint. Use it for programs that "
                  "want one file,\nand for file systems that are faster with many.\nExample:\n  bevatron checkpoint "
                  "reshard --input run --output run-in-one --files 1\n"},
    .tables = {{FLAG_TABLE(reshard_rows), .synonyms = reshard_synonyms}},
    .options_bytes = sizeof(struct reshard_options),
    .run = reshard,
    .phase = "resharding the checkpoint",
};

// ---- verify ----

// bevatron checkpoint verify: verifies iter_… folders, all of a --save folder, or single safetensors files.

struct checkpoint_verify_options {
    struct flag_given given;
    struct string_list paths;
    bool json;
    bool sizes_only;
};

#undef FLAG_STRUCT
#define FLAG_STRUCT struct checkpoint_verify_options

static const struct flag verify_rows[] = {
    SWITCH("--sizes-only", sizes_only, "compare sizes only, without reading the files"),
    SWITCH("--json", json, "print one JSON object per checkpoint"),
};

static void print_verdict(const char *path, const char *error, const struct checkpoint_verify_options *options) {
    if (options->json)
        command_print_verdict("path", path, error);
    else if (!error)
        printf("%s: whole%s\n", path, options->sizes_only ? " (sizes only)" : "");
}

// A single file has no manifest: only its own structure can be checked.
static int verify_one(const char *path, const struct checkpoint_verify_options *options) {
    int result = 0;
    bool is_unread = false;
    if (file_is_folder(path)) {
        result = checkpoint_verify(path, options->sizes_only);
        is_unread = result == CHECKPOINT_UNREAD;
    } else {
        struct safetensors file;
        result = safetensors_open(&file, path);
        if (result == 0)
            safetensors_close(&file);
    }
    print_verdict(path, result < 0 ? error_message() : NULL, options);
    if (result == 0)
        return EXIT_CODE_OK;
    if (is_unread)
        return command_failed();
    OWNED char *why = memory_string(error_message());
    error_set_code(EXIT_CODE_NO_CHECKPOINT, "%s", why);
    return command_failed();
}

// All checkpoints are checked, even after an error; the exit code is the first error's.
static int verify_path(const char *path, const struct checkpoint_verify_options *options) {
    OWNED_BY(folder_list_free) struct folder_list list = {0};
    if (file_is_folder(path) && folder_list_read(&list, path) < 0)
        return command_failed();
    if (list.count == 0)
        return verify_one(path, options);
    int exit_code = EXIT_CODE_OK;
    for (size_t i = 0; i < list.count; i++) {
        OWNED char *folder = checkpoint_path(path, list.iterations[i]);
        int hold = folder_hold(folder);
        // A checkpoint that a run has removed in the meantime is not damaged.
        int code = hold < 0 && !file_exists(folder) ? EXIT_CODE_OK : verify_one(folder, options);
        exit_code = exit_code == EXIT_CODE_OK ? code : exit_code;
        if (hold >= 0)
            close(hold);
    }
    return exit_code;
}

static int verify_paths(void *context) {
    const struct checkpoint_verify_options *options = context;
    int exit_code = EXIT_CODE_OK;
    for (int64_t i = 0; i < options->paths.count; i++) {
        int code = verify_path(options->paths.items[i], options);
        exit_code = exit_code == EXIT_CODE_OK ? code : exit_code;
    }
    return exit_code;
}

const struct command cmd_checkpoint_verify = {
    .flags = {.name = "checkpoint verify",
              .summary = "Compares every file of a checkpoint with the size and SHA-256 in its manifest.",
              .positional_name = "PATH…",
              .positional_minimum = 1,
              .positional_maximum = INT32_MAX,
              .positional_offset = OFFSET(paths),
              .epilogue =
                  "PATH is an iter_… folder, a --save folder (all its checkpoints), or a .safetensors file (its "
                  "structure only).\nThe exit code is 216 if something is damaged, 1 if a file "
                  "cannot be read.\nExample:\n  bevatron checkpoint "
                  "verify run/iter_0001000\n"},
    .tables = {{FLAG_TABLE(verify_rows)}},
    .options_bytes = sizeof(struct checkpoint_verify_options),
    .run = verify_paths,
};
