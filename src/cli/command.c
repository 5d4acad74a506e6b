// Shared by the commands: failing, choosing a part, parsing and running. See commands.h.
#include "base/error.h"
#include "base/file_patience.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/words.h"
#include "base/phase.h"
#include "cli/commands.h"
#include "cli/session.h"
#include "config/flag_docs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int command_failed(void) {
    // A failure never exits with 0, even if its message was lost.
    if (error_exit_code() == EXIT_CODE_OK)
        error_set("the command failed without a message; please report it with the command line");
    log_error("bevatron: %s", error_message());
    return error_exit_code();
}

static void print_usage(const struct command_group *group, FILE *out) {
    fprintf(out, "usage: bevatron %s %s\n\n", group->name, group->usage);
    for (const struct command_part *part = group->parts; part->name; part++)
        fprintf(out, "  %-11s %s\n", part->name, part->summary);
    fprintf(out, "\n%s\n", group->ending);
}

static void print_man(const struct command_group *group) {
    struct buffer out = {0}, label = {0};
    man_begin(group->name, group->summary, &out);
    buffer_printf(&out, "\\fBbevatron %s\\fR ", group->name);
    man_text(group->usage, &out);
    buffer_append_string(&out, ".SH DESCRIPTION\n");
    man_text(group->summary, &out);
    man_text(group->ending, &out);
    buffer_append_string(&out, ".SH COMMANDS\n");
    for (const struct command_part *part = group->parts; part->name; part++) {
        buffer_clear(&label);
        man_page_name(group->name, &label);
        buffer_printf(&label, "-%s(1)", part->name);
        man_item(label.data, part->summary, &out);
    }
    buffer_append_string(&out, ".SH SEE ALSO\n\\fBbevatron\\fR(1)\n");
    fputs(buffer_string(&out), stdout);
    buffer_free(&label);
    buffer_free(&out);
}

// The group's own part of a completion script, or its name; its parts print theirs.
static int print_parts(const struct command_group *group, enum flag_text text, char *argument) {
    struct buffer out = {0};
    struct completion completion = {.shell = text, .command = group->name, .out = &out};
    if (text == FLAG_TEXT_NAME) {
        buffer_printf(&out, "%s\n", group->name);
    } else {
        completion_begin(&completion);
        for (const struct command_part *part = group->parts; part->name; part++)
            completion_part(&completion, part->name, part->summary);
        completion_end(&completion);
    }
    fputs(buffer_string(&out), stdout);
    buffer_free(&out);
    int exit_code = EXIT_CODE_OK;
    for (const struct command_part *part = group->parts; part->name && exit_code == EXIT_CODE_OK; part++) {
        char *argv[] = {(char *)(uintptr_t)part->name, argument, NULL};
        exit_code = command_part_run(part, 2, argv);
    }
    return exit_code;
}

const struct command_part *command_group_find(const struct command_group *group, const char *name) {
    struct nearest nearest = nearest_begin(name, strlen(name));
    for (const struct command_part *part = group->parts; part->name; part++) {
        if (strcmp(part->name, name) == 0)
            return part;
        nearest_consider(&nearest, part->name);
    }
    const char *remedy = command_remedy(group->name, name);
    if (!*name)
        error_set_code(EXIT_CODE_USAGE, "%s needs a command; `bevatron %s --help` lists them", group->name,
                       group->name);
    else if (remedy)
        error_set_code(EXIT_CODE_USAGE, "there is no command \"%s %s\"; %s", group->name, name, remedy);
    else
        error_set_code(EXIT_CODE_USAGE, "there is no command \"%s %s\"; %s%s%s`bevatron %s --help` lists them",
                       group->name, name, nearest.best ? "did you mean " : "", nearest.best ? nearest.best : "",
                       nearest.best ? "? " : "", group->name);
    return NULL;
}

// Runs the part that argv[1] names, or lists the parts.
static int run_group(const struct command_group *group, int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    enum flag_text text = flag_text_asked(name);
    if (text == FLAG_TEXT_MAN)
        print_man(group);
    else if (text >= FLAG_TEXT_NAME)
        return print_parts(group, text, argv[1]);
    else if (text != FLAG_TEXT_NONE)
        print_usage(group, stdout);
    if (text != FLAG_TEXT_NONE)
        return EXIT_CODE_OK;
    const struct command_part *part = command_group_find(group, name);
    if (part)
        return command_part_run(part, argc - 1, argv + 1);
    if (*name)
        (void)command_failed();
    print_usage(group, stderr);
    return EXIT_CODE_USAGE;
}

int command_part_run(const struct command_part *part, int argc, char **argv) {
    return part->main    ? part->main(argc, argv)
           : part->group ? run_group(part->group, argc, argv)
                         : command_run(part->command, argc, argv);
}

struct flag_command command_flags(const struct command *command, struct flag_table tables[2]) {
    struct flag_command flags = command->flags;
    memcpy(tables, command->tables, sizeof command->tables);
    flags.tables = tables;
    flags.table_count = tables[0].rows.count > 0 ? 1 : 0;
    if (command->shared) {
        struct flag_table *place = &tables[flags.table_count++];
        *place = command->shared(command->shared_at);
        place->offered = command->offered ? command->offered : place->offered;
    }
    if (command->tables[1].rows.count > 0)
        flags.table_count = 2;
    return flags;
}

static int run_each(const struct command *command, const char *options) {
    const struct string_list *items =
        (const struct string_list *)(const void *)(options + command->flags.positional_offset);
    int exit_code = EXIT_CODE_OK;
    for (int64_t i = 0; i < items->count; i++) {
        if (command->run_each(options, items->items[i]) == 0)
            continue;
        int code = command_failed();
        exit_code = exit_code == EXIT_CODE_OK ? code : exit_code;
    }
    return exit_code;
}

int command_run(const struct command *command, int argc, char **argv) {
    struct flag_table tables[2];
    const struct flag_command flags = command_flags(command, tables);
    struct session session;
    // Ranks first: notes about the flags are printed by rank 0 alone.
    if (command->run_ranks && session_start(&session) < 0)
        return command_failed();
    void *options = memory_alloc(command->options_bytes);
    int status = flags_parse(&flags, options, argc, argv);
    bool shows_phase = command->phase && !(command->is_in_the_way && (isatty(STDIN_FILENO) || isatty(STDOUT_FILENO)));
    struct phase *phase = status == 0 && shows_phase ? phase_begin(command->phase) : NULL;
    struct file_patience patience = {0};
    file_patience_begin(&patience);
    if (status == 0)
        status = command->run_each    ? run_each(command, options)
                 : command->run_ranks ? command->run_ranks(options, &session)
                                      : command->run(options);
    else if (status == FLAGS_HELP)
        status = EXIT_CODE_OK;
    file_patience_end(&patience);
    phase_end(phase);
    int exit_code = status >= 0 ? status : command->run_ranks ? session_failed(&session) : command_failed();
    if (command->run_ranks)
        session_close(&session);
    flags_free(&flags, options);
    free(options);
    return exit_code;
}

int command_check(const struct command *command, const struct command_reader *reader, int argc, char **argv) {
    struct flag_table tables[2];
    struct flag_command flags = command_flags(command, tables);
    void *options = memory_alloc(command->options_bytes);
    flags.flag_remedy = reader->flag_remedy;
    int status = flags_parse(&flags, options, argc, argv);
    if (status == 0 && reader->read)
        reader->read(reader->context, &flags, options);
    flags_free(&flags, options);
    free(options);
    return status;
}

void command_print_verdict(const char *kind, const char *name, const char *error) {
    struct buffer text = {0};
    struct json_writer json = {.out = &text};
    json_begin_object(&json);
    json_put_string(&json, kind, name);
    json_put_bool(&json, "is_whole", !error);
    json_put_string(&json, "error", error);
    json_end_object(&json);
    puts(buffer_string(&text));
    buffer_free(&text);
}
