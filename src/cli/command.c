// What commands have in common: failing, choosing a part, parsing and running. See commands.h.
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/phase.h"
#include "cli/commands.h"

#include <stdio.h>
#include <string.h>

int command_failed(void) {
    // A failure never counts as done, even where its message was lost on the way.
    if (error_exit_code() == EXIT_CODE_OK)
        error_set("the command failed without saying why; please report it with the command line");
    log_error("bevatron: %s", error_message());
    return error_exit_code();
}

static void print_usage(const struct command_group *group, FILE *out) {
    fprintf(out, "usage: bevatron %s %s\n\n", group->name, group->usage);
    for (size_t i = 0; i < group->count; i++)
        fprintf(out, "  %-11s %s\n", group->parts[i].name, group->parts[i].summary);
    fprintf(out, "\n%s\n", group->ending);
}

int command_group_run(const struct command_group *group, int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < group->count; i++)
        if (strcmp(group->parts[i].name, name) == 0)
            return group->parts[i].run(argc - 1, argv + 1);
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_usage(group, stdout);
        return EXIT_CODE_OK;
    }
    struct nearest nearest = nearest_begin(name, strlen(name));
    for (size_t i = 0; i < group->count; i++)
        nearest_consider(&nearest, group->parts[i].name);
    if (*name && nearest.best)
        fprintf(stderr, "bevatron: there is no command \"%s %s\"; did you mean %s?\n", group->name, name, nearest.best);
    else if (*name)
        fprintf(stderr, "bevatron: there is no command \"%s %s\"\n", group->name, name);
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
    if (status == 0 && call->run_each)
        exit_code = run_each(call);
    else if (status == 0)
        status = call->run(call->options);
    phase_end(phase);
    if (status < 0)
        exit_code = command_failed();
    flags_free(call->flags, call->options);
    return exit_code;
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
