// Shared by the commands: failing, choosing a part, parsing and running. See commands.h.
#include "base/error.h"
#include "base/file_patience.h"
#include "base/json.h"
#include "base/log.h"
#include "base/words.h"
#include "base/phase.h"
#include "cli/commands.h"
#include "config/flag_docs.h"

#include <stdio.h>
#include <string.h>

int command_failed(void) {
    // A failure never exits with 0, even if its message was lost.
    if (error_exit_code() == EXIT_CODE_OK)
        error_set("the command failed without a message; please report it with the command line");
    log_error("bevatron: %s", error_message());
    return error_exit_code();
}

static void print_usage(const struct command_group *group, FILE *out) {
    fprintf(out, "usage: bevatron %s %s\n\n", group->name, group->usage);
    for (size_t i = 0; i < group->count; i++)
        fprintf(out, "  %-11s %s\n", group->parts[i].name, group->parts[i].summary);
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
    for (size_t i = 0; i < group->count; i++) {
        buffer_clear(&label);
        man_page_name(group->name, &label);
        buffer_printf(&label, "-%s(1)", group->parts[i].name);
        man_item(label.data, group->parts[i].summary, &out);
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
        for (size_t i = 0; i < group->count; i++)
            completion_part(&completion, group->parts[i].name, group->parts[i].summary);
        completion_end(&completion);
    }
    fputs(buffer_string(&out), stdout);
    buffer_free(&out);
    int exit_code = EXIT_CODE_OK;
    for (size_t i = 0; i < group->count && exit_code == EXIT_CODE_OK; i++) {
        char *argv[] = {(char *)(uintptr_t)group->parts[i].name, argument, NULL};
        exit_code = group->parts[i].run(2, argv);
    }
    return exit_code;
}

// Prints the text requested by the group's first argument; FLAG_TEXT_NONE is none.
static int print_text(const struct command_group *group, enum flag_text text, char *argument) {
    if (text == FLAG_TEXT_MAN)
        print_man(group);
    else if (text >= FLAG_TEXT_NAME)
        return print_parts(group, text, argument);
    else
        print_usage(group, stdout);
    return EXIT_CODE_OK;
}

int command_group_check(const struct command_group *group, const char *name) {
    struct nearest nearest = nearest_begin(name, strlen(name));
    for (size_t i = 0; i < group->count; i++) {
        if (strcmp(group->parts[i].name, name) == 0)
            return 0;
        nearest_consider(&nearest, group->parts[i].name);
    }
    if (!*name)
        return error_set_code(EXIT_CODE_USAGE, "%s needs a command; `bevatron %s --help` lists them", group->name,
                              group->name);
    const char *remedy = command_remedy(group->name, name);
    if (remedy)
        return error_set_code(EXIT_CODE_USAGE, "there is no command \"%s %s\"; %s", group->name, name, remedy);
    return error_set_code(EXIT_CODE_USAGE, "there is no command \"%s %s\"; %s%s%s`bevatron %s --help` lists them",
                          group->name, name, nearest.best ? "did you mean " : "", nearest.best ? nearest.best : "",
                          nearest.best ? "? " : "", group->name);
}

int command_group_run(const struct command_group *group, int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < group->count; i++)
        if (strcmp(group->parts[i].name, name) == 0)
            return group->parts[i].run(argc - 1, argv + 1);
    enum flag_text text = flag_text_asked(name);
    if (text != FLAG_TEXT_NONE)
        return print_text(group, text, argv[1]);
    if (*name && command_group_check(group, name) < 0)
        (void)command_failed();
    print_usage(group, stderr);
    return EXIT_CODE_USAGE;
}

static int run_each(const struct command_call *call) {
    const char *options = call->options;
    const struct string_list *items = (const struct string_list *)(options + call->flags->positional_offset);
    int exit_code = EXIT_CODE_OK;
    for (int64_t i = 0; i < items->count; i++) {
        if (call->run_each(options, items->items[i]) == 0)
            continue;
        int code = command_failed();
        exit_code = exit_code == EXIT_CODE_OK ? code : exit_code;
    }
    return exit_code;
}

int command_run(const struct command_call *call, int argc, char **argv) {
    int exit_code = EXIT_CODE_OK;
    int status = flags_parse(call->flags, call->options, argc, argv);
    struct phase *phase = status == 0 && call->phase ? phase_begin(call->phase) : NULL;
    struct file_patience patience = {0};
    file_patience_begin(&patience);
    if (status == 0 && call->run_each)
        exit_code = run_each(call);
    else if (status == 0)
        status = call->run(call->options);
    file_patience_end(&patience);
    phase_end(phase);
    if (status < 0)
        exit_code = command_failed();
    flags_free(call->flags, call->options);
    return exit_code;
}

int command_check(const struct flag_command *command, void *options, int argc, char **argv) {
    int status = flags_parse(command, options, argc, argv);
    flags_free(command, options);
    return status;
}

void command_print_verdict(const char *kind, const char *name, const char *error) {
    struct buffer text = {0};
    struct json_writer json = {.out = &text};
    json_begin_object(&json);
    json_key(&json, kind);
    json_cstring(&json, name);
    json_key(&json, "is_whole");
    json_bool(&json, !error);
    json_key(&json, "error");
    json_cstring(&json, error);
    json_end_object(&json);
    puts(buffer_string(&text));
    buffer_free(&text);
}
