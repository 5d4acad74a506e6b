// bevatron checkpoint reshard: the same checkpoint in another number of files.
#include "cli/checkpoint.h"

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/owner.h"
#include "cli/commands.h"
#include "config/flag.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct options {
    struct flag_given given;
    char *input, *output;
    int64_t ckpt_step, files;
};

#define OFFSET(member) offsetof(struct options, member)

static const struct flag rows[] = {
    {.name = "--input",
     .type = FLAG_STRING,
     .offset = OFFSET(input),
     .value_name = "DIR",
     .help = "a folder of --save; it is not changed"},
    {.name = "--output",
     .type = FLAG_STRING,
     .offset = OFFSET(output),
     .value_name = "DIR",
     .help = "where the checkpoint is written, as a folder of --save that holds none yet"},
    {.name = "--files",
     .type = FLAG_INT,
     .offset = OFFSET(files),
     .initial = "1",
     .minimum = 0,
     .maximum = 10000,
     .help = "files for the model, and as many for the optimizer; 0 for one per 64 MiB"},
    {.name = "--ckpt-step",
     .type = FLAG_INT,
     .offset = OFFSET(ckpt_step),
     .initial = "-1",
     .minimum = -1,
     .maximum = FLAG_ENDLESS,
     .help = "iteration of the input; -1 for the latest"},
};

static int reshard(void *context) {
    const struct options *options = context;
    if (!options->input || !options->output)
        return error_set_code(EXIT_CODE_USAGE, "give the checkpoint with --input DIR and where to write it with "
                                               "--output DIR");
    TRY(owner_check_free(options->output, "--output"));
    char *path = NULL;
    int64_t iteration = 0;
    struct checkpoint_find find = {
        .folder = options->input, .flag = "--input", .step = options->ckpt_step, .skip_checksums = true};
    TRY(checkpoint_find(&find, &path, &iteration));
    int status = checkpoint_rewrite(path, options->output, options->files);
    if (status == 0)
        printf("%s → %s, iteration %" PRId64 "\n", path, options->output, iteration);
    free(path);
    return status;
}

int checkpoint_reshard(int argc, char **argv) {
    const struct flag_table table = {.flags = rows, .count = sizeof rows / sizeof rows[0], .given = OFFSET(given)};
    const struct flag_command command = {
        .name = "checkpoint reshard",
        .argument_flag = "--input",
        .summary = "Writes a checkpoint once more in another number of files.",
        .tables = &table,
        .table_count = 1,
        .epilogue = "No layout of ranks needs this: files hold whole tensors, and every run reads what its ranks need "
                    "of any checkpoint. It is for programs that want one file, and for file systems that are faster "
                    "with many.\n"
                    "Example:\n  bevatron checkpoint reshard --input run --output run-in-one --files 1\n",
    };
    struct options options;
    return command_run(
        &(struct command_call){
            .flags = &command, .options = &options, .run = reshard, .phase = "resharding the checkpoint"},
        argc, argv);
}
