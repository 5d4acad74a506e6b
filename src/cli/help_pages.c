// Output of `bevatron help` for other programs: manual pages, completion scripts, the list of commands. Only a command
// knows its tables of flags, so each one is run with an argument that makes it print just its text.
#include "cli/help_pages.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/completion.h"
#include "config/flag_docs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Commands with flags or parts, which have pages of their own.
static bool has_page(const struct command_part *command) {
    return command->run && command->run != cmd_help && command->run != cmd_version;
}

static int ask(const struct command_part *command, const char *part, const char *argument) {
    char *argv[] = {(char *)(uintptr_t)command->name, (char *)(uintptr_t)(part ? part : argument),
                    part ? (char *)(uintptr_t)argument : NULL, NULL};
    return command->run(part ? 3 : 2, argv);
}

static int ask_all(const char *argument) {
    int exit_code = EXIT_CODE_OK;
    for (size_t i = 0; i < command_table_count && exit_code == EXIT_CODE_OK; i++)
        if (has_page(&command_table[i]))
            exit_code = ask(&command_table[i], NULL, argument);
    return exit_code;
}

int help_commands(void) {
    return ask_all("--help-names");
}

// The first existing place, relative to the program's own folder: where `make install` and packages put files, then the
// source tree of a program that was not installed.
static bool print_place(const char *name, const char *const *places) {
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0)
        return false;
    self[length] = '\0';
    char *end = strrchr(self, '/');
    for (; end && *places; places++) {
        char *path = memory_printf("%.*s/%s", (int)(end - self), self, *places), *full = realpath(path, NULL);
        if (full)
            printf("%s %s\n", name, full);
        bool is_found = full != NULL;
        free(full);
        free(path);
        if (is_found)
            return true;
    }
    return false;
}

int help_files(void) {
    bool is_any = print_place("examples", (const char *const[]){"../share/bevatron/examples", "../../examples", NULL});
    is_any |= print_place("docs", (const char *const[]){"../share/doc/bevatron/docs", "../../docs", NULL});
    is_any |= print_place("man", (const char *const[]){"../share/man", "share/man", NULL});
    if (is_any)
        return EXIT_CODE_OK;
    fprintf(stderr,
            "bevatron: found no examples or documents beside this program; unpack the whole package, or install "
            "it with `make install`\n");
    return EXIT_CODE_ERROR;
}

static void append_commands(struct buffer *out) {
    struct buffer label = {0};
    for (size_t i = 0; i < command_table_count; i++) {
        const struct command_part *command = &command_table[i];
        if (!command->run) {
            buffer_printf(out, ".SS %s\n", command->name);
            continue;
        }
        buffer_clear(&label);
        if (has_page(command))
            man_page_name(command->name, &label);
        else
            buffer_printf(&label, "bevatron %s", command->name);
        buffer_append_string(&label, has_page(command) ? "(1)" : "");
        man_item(label.data, command->summary, out);
    }
    buffer_free(&label);
}

static void append_exit_codes(struct buffer *out) {
    static const struct {
        enum exit_code code;
        const char *meaning;
    } codes[] = {
        {EXIT_CODE_OK, "done"},
        {EXIT_CODE_ERROR, "error"},
        {EXIT_CODE_USAGE, "wrong flags or arguments"},
        {EXIT_CODE_STOPPED, "stopped by a signal or a time limit after saving; run the same command again"},
        {EXIT_CODE_PEER_LOST, "another rank was lost"},
        {EXIT_CODE_HANG, "ranks waited for each other too long"},
        {EXIT_CODE_NOT_FINITE, "NaN or infinity that did not go away"},
        {EXIT_CODE_OUT_OF_MEMORY, "out of memory"},
        {EXIT_CODE_BAD_DATA, "bad data"},
        {EXIT_CODE_NO_CHECKPOINT, "no valid checkpoint"},
        {EXIT_CODE_NO_PROGRESS, "restarted without progress"},
    };
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        buffer_printf(out, ".TP\n\\fB%d\\fR\n%s\n", (int)codes[i].code, codes[i].meaning);
}

static int print_program_page(void) {
    struct buffer out = {0};
    man_begin("", "pretrains language models", &out);
    buffer_append_string(&out, "\\fBbevatron\\fR \\fICOMMAND\\fR [\\fIflags\\fR]\n.SH DESCRIPTION\n");
    man_text("Bevatron extracts and tokenizes text, trains GPT, Llama, BERT, T5 and related models on CPUs, on NVIDIA "
             "GPUs or on a cluster, evaluates them, generates text, and exports them to Hugging Face and llama.cpp. "
             "Flag names, dataset files and log lines are Megatron-LM's.",
             &out);
    buffer_append_string(&out, ".PP\n");
    man_text("Results go to standard output, everything else to standard error. `--flag value` and `--flag=value` are "
             "the same. Every command has `--help` and `--config FILE`.",
             &out);
    buffer_append_string(&out, ".SH COMMANDS\n");
    append_commands(&out);
    buffer_append_string(&out, ".SH EXIT STATUS\n");
    append_exit_codes(&out);
    buffer_append_string(&out, ".SH EXAMPLES\n");
    man_verbatim("bevatron help train\n"
                 "bevatron help presets\n"
                 "bevatron train --preset gpt2-124m --mock-data --tokenizer-type NullTokenizer --vocab-size 1000 \\\n"
                 "    --micro-batch-size 1 --train-iters 10 --lr 6e-4\n",
                 &out);
    buffer_append_string(&out, ".SH FILES\n");
    man_item("share/doc/bevatron", "documents, beginning with README.md", &out);
    man_item("share/bevatron/examples", "configurations and scripts", &out);
    buffer_append_string(&out, ".PP\n");
    man_text("Both are beside the `bin` folder of the program; `bevatron help files` prints where.", &out);
    fputs(buffer_string(&out), stdout);
    buffer_free(&out);
    return EXIT_CODE_OK;
}

int help_man(const char *name, const char *part) {
    if (!name)
        return print_program_page();
    const struct command_part *command = command_find(name);
    if (command && has_page(command))
        return ask(command, part, "--help-man");
    fprintf(stderr, "bevatron: no manual page for \"%s\"; `bevatron help commands` lists the commands\n", name);
    return EXIT_CODE_USAGE;
}

// The commands, and for `help` also its topics, as parts of the program.
static void print_commands(enum flag_text shell, const char *command) {
    struct buffer out = {0};
    struct completion completion = {.shell = shell, .command = command, .out = &out};
    completion_begin(&completion);
    for (size_t i = 0; i < command_table_count; i++)
        if (command_table[i].run)
            completion_part(&completion, command_table[i].name, command_table[i].summary);
    for (const struct command_part *topic = help_topics; *command && topic->name; topic++)
        completion_part(&completion, topic->name, topic->summary);
    completion_end(&completion);
    fputs(buffer_string(&out), stdout);
    buffer_free(&out);
}

int help_completion(const char *name) {
    static const struct {
        const char *name, *argument;
        enum flag_text text;
    } shells[] = {{"bash", "--help-bash", FLAG_TEXT_BASH},
                  {"zsh", "--help-zsh", FLAG_TEXT_ZSH},
                  {"fish", "--help-fish", FLAG_TEXT_FISH}};
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++) {
        if (!name || strcmp(shells[i].name, name) != 0)
            continue;
        fputs(completion_opening(shells[i].text), stdout);
        print_commands(shells[i].text, "");
        print_commands(shells[i].text, "help");
        int exit_code = ask_all(shells[i].argument);
        fputs(completion_closing(shells[i].text), stdout);
        return exit_code;
    }
    fprintf(stderr, "bevatron: help --completion needs the name of a shell: bash, zsh or fish\n");
    return EXIT_CODE_USAGE;
}
