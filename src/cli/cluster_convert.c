// bevatron cluster convert: converts an INI file of ParallelCluster 2 to the short file of a cluster.
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/cluster_commands.h"
#include "cli/commands.h"
#include "cluster/ini.h"
#include "config/flag_rows.h"

#include <stdio.h>

enum { LARGEST_FILE = 1 << 20 };

struct ini_options {
    struct flag_given given;
    struct string_list files;
    char *output;
};

#define FLAG_STRUCT struct ini_options

static const struct flag ini_flags[] = {
    TEXT("--output", output, NULL, "FILE", "file to write, which must not exist; default: stdout"),
};

static int write_short(const struct ini_options *options, const struct buffer *text) {
    if (!options->output) {
        fputs(buffer_string(text), stdout);
        return 0;
    }
    if (file_exists(options->output))
        return error_set_code(EXIT_CODE_USAGE, "%s already exists; choose another --output", options->output);
    TRY(file_write_all(options->output, text->data, text->length));
    fprintf(stderr, "next: bevatron cluster prepare --config %s, which checks it against your account\n",
            options->output);
    return 0;
}

static int convert(void *given) {
    const struct ini_options *options = given;
    const char *path = options->files.items[0];
    struct buffer text = {0}, out = {0}, notes = {0};
    struct ini_document document = {0};
    int status = file_read_all(path, LARGEST_FILE, &text);
    if (status == 0)
        status = ini_parse(&document, buffer_string(&text), text.length, path);
    buffer_printf(&out, "# Converted from a configuration of ParallelCluster 2 by bevatron cluster convert.\n");
    if (status == 0)
        status = ini_convert(&document, path, &out, &notes);
    if (status == 0) {
        fputs(buffer_string(&notes), stderr);
        status = write_short(options, &out);
    }
    ini_free(&document);
    buffer_free(&text);
    buffer_free(&out);
    buffer_free(&notes);
    return status;
}

int cluster_convert(int argc, char **argv) {
    static const struct flag_table table = {FLAG_TABLE(ini_flags)};
    static const struct flag_command command = {
        .name = "cluster convert",
        .summary = "Converts an INI file of ParallelCluster 2 into the short file of a cluster, and says what has no "
                   "counterpart.",
        .tables = &table,
        .table_count = 1,
        .positional_name = "FILE.ini",
        .positional_minimum = 1,
        .positional_maximum = 1,
        .positional_offset = offsetof(struct ini_options, files),
        .epilogue = "Example:\n  bevatron cluster convert multi-queue.ini --output llm.yaml\n"};
    struct ini_options options;
    return command_run(&(struct command_call){.flags = &command, .options = &options, .run = convert}, argc, argv);
}
