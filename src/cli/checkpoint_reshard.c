// bevatron checkpoint reshard: rewrites a checkpoint in another number of files.
#include "cli/checkpoint.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/commands.h"
#include "config/flag_rows.h"
#include "formats/average.h"
#include "formats/contents.h"
#include "store/checkpoint.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct reshard_options {
    struct flag_given given;
    char *input, *output;
    int64_t ckpt_step, files;
};

#define FLAG_STRUCT struct reshard_options

static const struct flag rows[] = {
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
    char *path = NULL;
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
    free(path);
    return status;
}

int checkpoint_reshard(int argc, char **argv) {
    const struct flag_table table = {FLAG_TABLE(rows)};
    const struct flag_command command = {
        .name = "checkpoint reshard",
        .argument_flag = "--input",
        .summary = "Copies a checkpoint into a different number of files.",
        .tables = &table,
        .table_count = 1,
        .epilogue = "Training never needs this: every layout of ranks reads every checkpoint. Use it for programs that "
                    "want one file,\nand for file systems that are faster with many.\nExample:\n  bevatron checkpoint "
                    "reshard --input run --output run-in-one --files 1\n",
    };
    struct reshard_options options;
    return command_run(
        &(struct command_call){
            .flags = &command, .options = &options, .run = reshard, .phase = "resharding the checkpoint"},
        argc, argv);
}
