// bevatron migrate: reads a script that starts Megatron-LM and prints the command of ours that does the same. Nothing
// of the script runs; see config/migrate.h.
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "config/config.h"
#include "config/flag_rows.h"
#include "config/migrate.h"
#include "shell/shell.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_SCRIPT_BYTES = 1 << 18, MOST_LINE = 100 };

struct migrate_options {
    struct flag_given given;
    struct string_list words;  // the script and its arguments
    struct string_list set;
    char *also;
    char *output;
    int64_t nproc;
};

#define FLAG_STRUCT struct migrate_options

static const struct flag rows[] = {
    GROUP("The script"),
    LIST("--set", set, "NAME=VALUE…", "values of variables, whatever the script says; LINE_12=true decides a condition",
         .repeats_add = true, .has_phrases = true),
    TEXT("--also", also, NULL, "FLAGS",
         "further flags of train for the command, in one text: --also=\"--bf16 --swiglu\""),
    INT("--nproc", nproc, NULL, 1, 1 << 24, "ranks to plan for, if the script does not say"),
    GROUP("The result"),
    TEXT("--output", output, NULL, "FILE",
         "write the command to FILE, or a file for --config if its name ends in .yaml"),
};

// ---- the command as text ----

static void put_line(struct buffer *out, size_t *width, const char *text) {
    if (*width + strlen(text) > MOST_LINE) {
        buffer_append_string(out, " \\\n   ");
        *width = 3;
    }
    buffer_printf(out, " %s", text);
    *width += 1 + strlen(text);
}

// Files that the script writes and a flag names: DeepSpeed's.
static const char *written_file(const struct shell_reading *reading, const char *name) {
    for (int64_t i = reading->files.count - 2; i >= 0; i -= 2)
        if (strcmp(reading->files.items[i], name) == 0)
            return reading->files.items[i + 1];
    return NULL;
}

static void put_files(const struct shell_reading *reading, const struct migration *migration, struct buffer *out) {
    for (int64_t i = 1; i < migration->words.count; i++) {
        const char *text = strcmp(migration->words.items[i - 1], "--deepspeed-config") == 0
                               ? written_file(reading, migration->words.items[i])
                               : NULL;
        if (!text || strncmp(text, "EOF\n", 4) == 0 || strstr(text, "\nEOF\n") || shell_is_marked(text))
            continue;
        buffer_append_string(out, "cat > ");
        migrate_quote(migration->words.items[i], false, out);
        buffer_printf(out, " <<'EOF'\n%sEOF\n", text);
    }
}

static void put_command(const struct migration *migration, struct buffer *out) {
    int64_t ranks = migration->ranks, nodes = migration->nodes;
    struct flag_table table = config_flag_table(0);
    bool is_list = false;
    size_t start = out->length;
    if (migration->is_slurm && ranks > 1 && nodes >= 1)
        buffer_printf(out, "srun --nodes=%" PRId64 " --ntasks-per-node=%" PRId64 " bevatron train", nodes,
                      ranks / nodes);
    else if (ranks > 1 && nodes > 1)
        buffer_printf(out, "mpirun -n %" PRId64 " bevatron train", ranks);
    else
        buffer_append_string(out, "bevatron train");
    size_t width = out->length - start;
    OWNED_BY(buffer_free) struct buffer word = {0};
    if (!migration->is_slurm && ranks > 1 && nodes <= 1) {
        buffer_printf(&word, "--nproc %" PRId64, ranks);
        put_line(out, &width, buffer_string(&word));
    }
    // A flag and its first value stay on one line.
    for (int64_t i = 0; i < migration->words.count; i++) {
        const char *text = migration->words.items[i];
        bool is_flag = strncmp(text, "--", 2) == 0;
        const struct flag *flag = is_flag ? flag_find(&table, text) : NULL;
        is_list = is_flag ? flag && flag->type == FLAG_STRING_LIST : is_list;
        buffer_clear(&word);
        migrate_quote(text, is_list, &word);
        if (is_flag && i + 1 < migration->words.count && strncmp(migration->words.items[i + 1], "--", 2) != 0) {
            buffer_append_byte(&word, ' ');
            migrate_quote(migration->words.items[++i], is_list, &word);
        }
        put_line(out, &width, buffer_string(&word));
    }
    buffer_append_byte(out, '\n');
}

// A text of a file for --config: marks are variables there, too.
static void put_quoted(const char *text, struct buffer *out) {
    buffer_append_byte(out, '"');
    for (const char *p = text; *p; p++) {
        const char *mark_end = *p == SHELL_MARK ? strchr(p, SHELL_MARK_END) : NULL;
        if (mark_end)
            buffer_printf(out, "${%.*s}", (int)(mark_end - p - 2), p + 2);
        else if (strncmp(p, "${", 2) == 0)
            buffer_append_string(out, "$$");
        else if (*p == '"' || *p == '\\')
            buffer_printf(out, "\\%c", *p);
        else if (*p == '\n')
            buffer_append_string(out, "\\n");
        else
            buffer_append_byte(out, *p);
        p = mark_end ? mark_end : p;
    }
    buffer_append_byte(out, '"');
}

// The same as a file for --config: "name: value", texts in double quotes as in JSON.
static void put_config(const struct migration *migration, struct buffer *out) {
    const struct string_list *words = &migration->words;
    for (int64_t i = 0; i < words->count; i++) {
        const char *name = words->items[i] + 2, *equals = strchr(name, '=');
        int64_t end = i + 1;
        while (end < words->count && strncmp(words->items[end], "--", 2) != 0)
            end++;
        int64_t count = end - i - 1;
        bool is_switch = equals ? strcmp(equals, "=false") == 0 : count == 0;
        buffer_printf(out, "%.*s: %s", (int)(equals ? equals - name : (int64_t)strlen(name)), name,
                      is_switch   ? (equals ? "false" : "true")
                      : count > 1 ? "["
                                  : "");
        if (equals && !is_switch)
            put_quoted(equals + 1, out);
        for (int64_t k = i + 1; k < end; k++) {
            buffer_append_string(out, k > i + 1 ? ", " : "");
            put_quoted(words->items[k], out);
        }
        buffer_append_string(out, count > 1 ? "]\n" : "\n");
        i = end - 1;
    }
}

// ---- what differs, as comments ----

// Ends the comment that begins at `start`: whatever a script's words hold, it stays one line.
static void end_comment(struct buffer *out, size_t start) {
    for (size_t i = start; i < out->length; i++)
        if ((unsigned char)out->data[i] < ' ')
            out->data[i] = '?';
    buffer_append_byte(out, '\n');
}

// One comment with all items, or one for each.
static void put_comments(struct buffer *out, const char *before, const struct string_list *items, bool each) {
    size_t start = out->length;
    for (int64_t i = 0; i < items->count; i++) {
        buffer_printf(out, "%s%s", i && !each ? ", " : before, items->items[i]);
        if (each || i + 1 == items->count) {
            end_comment(out, start);
            start = out->length;
        }
    }
}

static void put_notes(const struct migrate_options *options, const struct shell_reading *reading,
                      const struct migration *migration, struct buffer *out) {
    buffer_printf(out, "# %s, line %" PRId64, options->words.items[0], migration->call->line);
    end_comment(out, 0);
    if (!migration->call->is_sure)
        buffer_append_string(out, "# note: the script runs this only under a condition that cannot be decided\n");
    for (size_t i = 0; i < reading->call_count && i < 8; i++)
        if (&reading->calls[i] != migration->call)
            buffer_printf(out, "# note: line %" PRId64 " starts another program, which is left out\n",
                          reading->calls[i].line);
    put_comments(out, "# note: taken as unset (--set NAME=VALUE): ", &reading->assumed, false);
    put_comments(out, "# note: set before this command: ", &migration->open, false);
    put_comments(out, "# note: other scripts are not read: ", &reading->scripts, false);
    put_comments(out, "# note: ", &migration->notes, true);
    put_comments(out, "# left out: ", &migration->refused, true);
}

static int ask_for_names(const struct migrate_options *options, const struct shell_reading *reading,
                         const struct migration *migration) {
    OWNED_BY(buffer_free) struct buffer text = {0}, arguments = {0};
    for (int64_t i = 0; i + 1 < migration->asked.count; i += 2) {
        const char *name = migration->asked.items[i], *cause = shell_cause(reading, name);
        bool is_argument = *name >= '0' && *name <= '9';
        if (is_argument)
            buffer_printf(&arguments, "%s%s", arguments.length ? ", " : "", name);
        else
            buffer_printf(&text, "\n  --set %s=… for %s%s%s", name, migration->asked.items[i + 1], cause ? ": " : "",
                          cause ? cause : "");
    }
    int status = 0;
    // The script's arguments first: they decide others.
    if (arguments.length)
        status = error_set_code(EXIT_CODE_USAGE, "%s needs its arguments (%s); give them after its name",
                                options->words.items[0], buffer_string(&arguments));
    else if (text.length)
        status = error_set_code(EXIT_CODE_USAGE, "the script does not decide these; give their values:%s",
                                buffer_string(&text));
    return status;
}

// ---- the dry run ----

// A file that the script would write, in memory: its name here, to be freed, or NULL.
static char *place_in_memory(const char *text) {
    int descriptor = memfd_create("script", MFD_CLOEXEC);
    if (descriptor < 0 || write(descriptor, text, strlen(text)) != (ssize_t)strlen(text))
        return NULL;
    return memory_printf("/proc/self/fd/%d", descriptor);
}

static int dry_run(const struct migrate_options *options, const struct shell_reading *reading,
                   const struct migration *migration) {
    OWNED_BY(string_list_free) struct string_list words = {0};
    char number[32];
    int64_t ranks = options->nproc ? options->nproc : migration->ranks;
    string_list_add(&words, "train");
    string_list_add(&words, "--dry-run");
    if (ranks > 0) {
        (void)snprintf(number, sizeof number, "%" PRId64, ranks);
        string_list_add(&words, "--nproc");
        string_list_add(&words, number);
    }
    for (int64_t i = 0; i < migration->words.count; i++) {
        bool is_file = i > 0 && strcmp(migration->words.items[i - 1], "--deepspeed-config") == 0;
        const char *text = is_file ? written_file(reading, migration->words.items[i]) : NULL;
        OWNED char *word = text ? place_in_memory(text) : migrate_show(migration->words.items[i], NULL);
        string_list_add(&words, word ? word : "");
    }
    fflush(stdout);
    OWNED char **argv = memory_alloc(((size_t)words.count + 1) * sizeof *argv);
    memcpy(argv, words.items, (size_t)words.count * sizeof *argv);
    return cmd_train((int)words.count, argv);
}

static int write_result(const struct migrate_options *options, const struct buffer *text) {
    if (!options->output)
        return fputs(buffer_string(text), stdout) < 0 ? error_set("cannot write to stdout") : 0;
    return file_write_all(options->output, text->data, text->length);
}

static bool is_config_name(const char *name) {
    size_t length = name ? strlen(name) : 0;
    return (length > 5 && strcmp(name + length - 5, ".yaml") == 0) ||
           (length > 4 && strcmp(name + length - 4, ".yml") == 0);
}

static int migrate_reading(const struct migrate_options *options, const struct shell_reading *reading) {
    OWNED_BY(migration_free) struct migration migration = {0};
    const struct shell_call *call = migrate_choose(reading);
    OWNED_BY(buffer_free) struct buffer text = {0};
    char line[64] = "";
    if (reading->exit_line)
        (void)snprintf(line, sizeof line, " before it exits in line %" PRId64, reading->exit_line);
    if (!call)
        return error_set_code(EXIT_CODE_USAGE,
                              "%s starts no Python program%s; name the script whose last lines start the training",
                              options->words.items[0], line);
    migrate_call(call, &migration);
    if (options->also)
        migrate_add(&migration, options->also);
    put_notes(options, reading, &migration, &text);
    put_files(reading, &migration, &text);
    if (is_config_name(options->output))
        put_config(&migration, &text);
    else
        put_command(&migration, &text);
    int status = write_result(options, &text);
    if (status == 0)
        status = ask_for_names(options, reading, &migration);
    if (status == 0)
        status = dry_run(options, reading, &migration);
    if (status == 0 && migration.refused.count)
        status = error_set_code(EXIT_CODE_USAGE,
                                "%" PRId64 " flags were left out, as the comments say: the run would be another",
                                migration.refused.count);
    return status;
}

static int run_migration(void *context) {
    struct migrate_options *options = context;
    OWNED_BY(buffer_free) struct buffer text = {0};
    OWNED_BY(shell_reading_free) struct shell_reading reading = {0};
    struct string_list arguments = {options->words.items + 1, options->words.count - 1};
    const char *name = options->words.items[0];
    TRY(file_read_all(name, MOST_SCRIPT_BYTES, &text));
    if (migrate_is_settings(name))
        TRY(migrate_read_settings(name, &text, &reading));
    else
        TRY(shell_read(&(struct shell_input){.name = name,
                                             .text = buffer_string(&text),
                                             .length = text.length,
                                             .arguments = &arguments,
                                             .set = &options->set},
                       &reading));
    return migrate_reading(options, &reading);
}

const struct command cmd_migrate = {
    .flags = {.name = "migrate",
              .positional_name = "SCRIPT [ARGUMENT…]",
              .positional_minimum = 1,
              .positional_maximum = 1000,
              .positional_offset = OFFSET(words),
              .summary =
                  "Reads a shell script that starts Megatron-LM or llm.c, or settings of NeMo (.yaml), torchtitan "
                  "(.toml) or nanoGPT (.py), and prints the command of bevatron that does the same, a note for every "
                  "flag that differs, and what `train --dry-run` says to it. Runs nothing of the file.",
              .epilogue = "Examples:\n"
                          "  bevatron migrate train_gpt3_175b_distributed.sh ckpt logs vocab.json "
                          "merges.txt data_text_document\n"
                          "  bevatron migrate train.sh --set NNODES=4 --set GPUS_PER_NODE=8 --output train.yaml\n"},
    .tables = {{FLAG_TABLE(rows)}},
    .options_bytes = sizeof(struct migrate_options),
    .run = run_migration,
};
