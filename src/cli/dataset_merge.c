// bevatron dataset merge: joins datasets into one: those of a folder, in the order of their names as in Megatron's
// merge_datasets.py, or those named, in that order.
#include "cli/dataset.h"

#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "cli/commands.h"
#include "config/flag_rows.h"
#include "data/index/index.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dataset_merge_options {
    struct flag_given given;
    struct string_list prefixes;
    char *input;
    char *output_prefix;
};

#define FLAG_STRUCT struct dataset_merge_options

static const struct flag rows[] = {
    TEXT("--input", input, NULL, "FOLDER", "join all datasets of this folder, in order of their names"),
    TEXT("--output-prefix", output_prefix, NULL, "PREFIX", "write PREFIX.bin and PREFIX.idx", .required = true),
};

static int compare_strings(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// The names of all .bin and .idx files of a folder, without extension; a pair gives two equal names.
static int list_names(const char *folder, struct string_list *found) {
    DIR *stream = opendir(folder);
    if (!stream)
        return error_set("cannot list %s: %s; give a folder of datasets", folder, strerror(errno));
    for (struct dirent *entry; (errno = 0, entry = readdir(stream));) {
        char *dot = strrchr(entry->d_name, '.');
        if (!dot || dot == entry->d_name || (strcmp(dot, ".idx") != 0 && strcmp(dot, ".bin") != 0))
            continue;
        *dot = 0;
        string_list_add(found, entry->d_name);
    }
    int error = errno;
    closedir(stream);
    if (error != 0)
        return error_set("cannot list all of %s: %s; check the disk", folder, strerror(error));
    if (found->count == 0)
        return error_set("there is no dataset (.bin with .idx) in %s", folder);
    qsort(found->items, (size_t)found->count, sizeof *found->items, compare_strings);
    return 0;
}

// Adds the datasets of a folder. A .bin or .idx alone stays in the list, so that index_open reports it.
static int list_folder(const char *folder, struct string_list *prefixes) {
    struct string_list found = {0};
    int result = list_names(folder, &found);
    for (int64_t i = 0; i < found.count; i++) {
        if (i > 0 && strcmp(found.items[i], found.items[i - 1]) == 0)
            continue;
        char *prefix = file_join(folder, found.items[i]);
        string_list_add(prefixes, prefix);
        free(prefix);
    }
    string_list_free(&found);
    return result;
}

// The tokenizer's record, if all datasets have the same.
static void common_tokenizer(const struct string_list *prefixes, struct buffer *record) {
    struct buffer other = {0};
    index_tokenizer_read(prefixes->items[0], record);
    for (int64_t i = 1; i < prefixes->count; i++) {
        buffer_clear(&other);
        index_tokenizer_read(prefixes->items[i], &other);
        if (strcmp(buffer_string(&other), buffer_string(record)) != 0)
            buffer_clear(record);
    }
    buffer_free(&other);
}

static int run_merge(void *context) {
    struct dataset_merge_options *options = context;
    interrupt_watch();
    if (options->input && options->prefixes.count > 0)
        return error_set_code(EXIT_CODE_USAGE, "give either --input FOLDER or the datasets by name, not both");
    if (!options->input && options->prefixes.count == 0)
        return error_set_code(EXIT_CODE_USAGE, "nothing to merge; give --input FOLDER or the datasets by name");
    if (options->input)
        TRY(list_folder(options->input, &options->prefixes));
    TRY(index_files_check_output(options->output_prefix, INDEX_REMOVE_FIRST));
    TRY(index_merge(options->output_prefix, options->prefixes.items, options->prefixes.count));
    struct buffer tokenizer = {0};
    common_tokenizer(&options->prefixes, &tokenizer);
    int status = index_sums_write(options->output_prefix, options->output_prefix, buffer_string(&tokenizer));
    buffer_free(&tokenizer);
    TRY(status);
    struct index_reader *reader;
    TRY(index_open(&reader, options->output_prefix));
    log_status(NULL);  // the result starts on a new line
    printf("merged %" PRId64 " datasets into %s: %" PRId64 " documents, %" PRId64 " tokens (%s)\n",
           options->prefixes.count, options->output_prefix, reader->document_count, reader->token_count,
           index_dtype_name(reader->dtype));
    index_close(reader);
    return 0;
}

int dataset_merge(int argc, char **argv) {
    const struct flag_table table = {FLAG_TABLE(rows)};
    const struct flag_command command = {
        .name = "dataset merge",
        .summary = "Joins datasets of the same dtype into one; documents keep their order.",
        .epilogue =
            "Example:\n"
            "  bevatron dataset merge data/part1_text_document data/part2_text_document --output-prefix data/all\n",
        .tables = &table,
        .table_count = 1,
        .positional_name = "PREFIX…",
        .positional_minimum = 0,
        .positional_maximum = INT32_MAX,
        .positional_offset = OFFSET(prefixes),
    };
    struct dataset_merge_options options;
    return command_run(
        &(struct command_call){
            .flags = &command, .options = &options, .run = run_merge, .phase = "joining the datasets"},
        argc, argv);
}
