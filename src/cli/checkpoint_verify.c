// bevatron checkpoint verify: verifies iter_… folders, all of a --save folder, or single safetensors files.

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "config/flag_rows.h"
#include "store/checkpoint.h"
#include "store/folder.h"
#include "store/safetensors.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct checkpoint_verify_options {
    struct flag_given given;
    struct string_list paths;
    bool json;
    bool sizes_only;
};

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
    char *why = memory_string(error_message());
    error_set_code(EXIT_CODE_NO_CHECKPOINT, "%s", why);
    free(why);
    return command_failed();
}

// All checkpoints are checked, even after an error; the exit code is the first error's.
static int verify_path(const char *path, const struct checkpoint_verify_options *options) {
    struct folder_list list = {0};
    if (file_is_folder(path) && folder_list_read(&list, path) < 0)
        return command_failed();
    if (list.count == 0)
        return verify_one(path, options);
    int exit_code = EXIT_CODE_OK;
    for (size_t i = 0; i < list.count; i++) {
        char *folder = checkpoint_path(path, list.iterations[i]);
        int hold = folder_hold(folder);
        // A checkpoint that a run has removed in the meantime is not damaged.
        int code = hold < 0 && !file_exists(folder) ? EXIT_CODE_OK : verify_one(folder, options);
        exit_code = exit_code == EXIT_CODE_OK ? code : exit_code;
        if (hold >= 0)
            close(hold);
        free(folder);
    }
    folder_list_free(&list);
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
