// One command of a shell script: its assignments, redirections and words, and the commands of the shell that the reader
// follows. All others are programs, none of which runs: those that start a Python program are noted. See shell.h.
#include "base/memory.h"
#include "shell/internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CALLS = 256 };

struct command_line {
    struct string_list words;
    char *output;    // file that it writes; NULL for none
    char *document;  // its here-document, expanded
    int64_t line;
};

// ---- parts ----

// The body of <<WORD. It begins after this line, or after the line's previous document.
static char *take_document(struct shell *shell, struct script_span word, bool strips) {
    const char *at = shell->documents ? shell->documents : shell->rest.at, *end = shell->rest.end;
    bool is_verbatim = *word.at == '\'' || *word.at == '"' || *word.at == '\\', has_ended = false;
    char *delimiter = shell_text(shell, word, false);
    struct buffer body = {0};
    while (!shell->documents && at < end && *at != '\n')
        at = shell_skip(shell, at, end);
    for (at += !shell->documents && at < end; at < end && !has_ended;) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        line_end = line_end ? line_end : end;
        while (strips && at < line_end && *at == '\t')
            at++;
        has_ended = shell_span_is((struct script_span){at, line_end}, delimiter);
        if (!has_ended)
            buffer_printf(&body, "%.*s\n", (int)(line_end - at), at);
        at = line_end + (line_end < end);
    }
    (void)shell_spend(shell, body.length / 8);
    shell->documents = at;
    const char *text = buffer_string(&body);
    struct script_span span = {text, text + body.length};
    bool expands = !is_verbatim && shell_spend(shell, body.length) && shell_is_active(shell);
    char *result = expands ? shell_text(shell, span, true) : memory_string(text);
    free(delimiter);
    buffer_free(&body);
    return result;
}

// A redirection at the position; false if there is none.
static bool take_redirection(struct shell *shell, struct command_line *command) {
    const char *p = shell->rest.at, *end = shell->rest.end;
    while (p < end && isdigit((unsigned char)*p))
        p++;
    p += end - p > 1 && *p == '&' && p[1] == '>';
    if (p >= end || (*p != '<' && *p != '>'))
        return false;
    const char *begin = p;
    while (p < end && p - begin < 3 && strchr("<>&|", *p))
        p++;
    bool is_document = p - begin == 2 && strncmp(begin, "<<", 2) == 0, strips = is_document && p < end && *p == '-';
    shell->rest.at = p + strips;
    // <(…) and >(…) are programs.
    if (shell_next(shell) == '(') {
        shell->rest.at = shell_skip_to(shell, shell->rest.at + 1, end, ')');
        return true;
    }
    struct script_span word = shell_peek(shell);
    shell->rest.at = word.end;
    if (is_document && word.end > word.at) {
        free(command->document);
        command->document = take_document(shell, word, strips);
    } else if (*begin == '>' && p[-1] != '&' && shell_is_active(shell)) {
        free(command->output);
        command->output = shell_text(shell, word, false);
    }
    return true;
}

// Items of an array, after its "(".
static void take_array(struct shell *shell, struct string_list *items) {
    for (;;) {
        while (shell_next(shell) == '\n')
            shell->rest.at++;
        struct script_span word = shell_peek(shell);
        if (word.at == word.end)
            break;
        shell->rest.at = word.end;
        if (shell_is_active(shell))
            shell_fields(shell, word, items);
    }
    if (!shell_take(shell, ")"))
        shell_fail(shell, "opens an array that is not closed");
}

// Whether a value is $(…) or `…` alone: then the variable is what the user is asked for.
static bool is_one_substitution(struct shell *shell, struct script_span value) {
    bool quoted = value.end - value.at > 2 && *value.at == '"';
    const char *p = value.at + quoted;
    return p < value.end && (*p == '$' || *p == '`') && shell_skip(shell, p, value.end) == value.end - quoted;
}

// NAME=value, NAME+=value, NAME=(…), NAME[i]=value at the position; false if it is something else.
static bool take_assignment(struct shell *shell, bool keeps) {
    struct script_span word = shell_peek(shell);
    size_t length = shell_name_length(word.at, word.end);
    const char *p = word.at + length;
    const char *close = p < word.end && *p == '[' ? memchr(p, ']', (size_t)(word.end - p)) : NULL;
    p = close ? close + 1 : p;
    bool adds = p < word.end && *p == '+';
    p += adds;
    if (!length || p >= word.end || *p != '=')
        return false;
    struct string_list items = {0};
    bool is_array = ++p == word.end && p < shell->rest.end && *p == '(';
    char *name = memory_printf("%.*s", (int)length, word.at), *text = NULL;
    // NAME=<Specify path> is a place for a value, whatever a shell would make of it.
    const char *hole = p == word.end && p < shell->rest.end && *p == '<' && p[1] != '(' ? strpbrk(p, ">\n") : NULL;
    hole = hole && hole < shell->rest.end && *hole == '>' ? hole + 1 : NULL;
    shell->assigned = is_one_substitution(shell, (struct script_span){p, word.end}) ? name : NULL;
    shell->rest.at = hole ? hole : word.end + is_array;
    if (hole && shell_is_active(shell))
        text = shell_mark(shell, SHELL_UNKNOWN, name, "the script leaves it open");
    else if (is_array)
        take_array(shell, &items);
    else if (close)
        text = shell_mark(shell, SHELL_UNKNOWN, name, "an element of an array is assigned");
    else if (shell_is_active(shell))
        text = shell_text(shell, (struct script_span){p, word.end}, false);
    if (text)
        string_list_add(&items, text);
    if (shell_is_active(shell)) {
        if (keeps)
            shell_keep(shell, name, adds);
        shell_assign(shell, name, &items, adds);
        struct shell_variable *variable = shell_find(shell, name, length);
        variable->is_array = variable->is_array || is_array;
    }
    string_list_free(&items);
    shell->assigned = NULL;
    free(text);
    free(name);
    return true;
}

static enum truth follow(struct shell *shell, struct command_line *command);

// `local NAME`, without a value.
static void keep_local(struct shell *shell, struct script_span word) {
    size_t length = shell_name_length(word.at, word.end);
    char *name = memory_printf("%.*s", (int)length, word.at);
    if (length && word.at + length == word.end && strcmp(name, "local") != 0)
        shell_keep(shell, name, false);
    free(name);
}

enum truth shell_simple_command(struct shell *shell) {
    static const char *const declarations[] = {"export", "declare", "local", "readonly", "typeset"};
    struct command_line command = {.line = shell_line(shell)};
    bool takes_assignments = true, is_declaration = false, is_local = false;
    size_t kept = shell->kept_count;
    for (;;) {
        char next = shell_next(shell);
        if (!next || strchr("\n;|)", next) || (next == '&' && shell->rest.at[1] != '>'))
            break;
        if (take_redirection(shell, &command) ||
            (takes_assignments && take_assignment(shell, !is_declaration || is_local)))
            continue;
        struct script_span word = shell_peek(shell);
        if (word.at == word.end)
            break;
        shell->rest.at = word.end;
        for (size_t i = 0; takes_assignments && i < sizeof declarations / sizeof declarations[0]; i++)
            is_declaration = is_declaration || shell_span_is(word, declarations[i]);
        is_local = is_local || (is_declaration && shell_span_is(word, "local"));
        // A=1 before a command is of the command, whose words do not see it.
        if (takes_assignments && !is_declaration)
            shell_exchange(shell, kept, true);
        takes_assignments = is_declaration;
        if (shell_is_active(shell) && !is_declaration)
            shell_fields(shell, word, &command.words);
        else if (shell_is_active(shell) && is_local)
            keep_local(shell, word);
    }
    enum truth truth = TRUTH_YES;
    if (!takes_assignments)
        shell_exchange(shell, kept, false);
    if (shell_is_active(shell) && command.words.count)
        truth = follow(shell, &command);
    if (!takes_assignments && command.words.count)
        shell_restore(shell, kept, true);
    else if (!is_local)
        shell_drop(shell, kept);
    string_list_free(&command.words);
    free(command.output);
    free(command.document);
    return truth;
}

// ---- commands that the reader follows ----

static bool is_called(const char *path, const char *name) {
    const char *slash = strrchr(path, '/');
    return strcmp(slash ? slash + 1 : path, name) == 0;
}

static bool is_one_of(const char *const *names, const char *name) {
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), size = strlen(end);
    return length >= size && strcmp(text + length - size, end) == 0;
}

bool shell_is_python(const char *word) {
    return ends_with(word, ".py");
}

bool shell_is_llmc(const char *word) {
    return is_called(word, "train_gpt2cu") || is_called(word, "train_gpt2fp32cu") || is_called(word, "train_gpt2");
}

static void append_items(struct string_list *list, const struct string_list *items, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++)
        string_list_add(list, items->items[i]);
}

static void follow_string(struct shell *shell, const char *text, int64_t line) {
    string_list_add(&shell->texts, text);
    const char *kept = shell->texts.items[shell->texts.count - 1];
    (void)shell_follow_text(shell, (struct script_span){kept, kept + strlen(kept)}, line, NULL);
}

// Whether a word before the program's name starts programs: cp and sed take names of Python files, too. A word that is
// not decided may be anything.
static bool starts_programs(const struct string_list *words, int64_t count) {
    static const char *const launchers[] = {"python", "torchrun", "deepspeed", "accelerate",
                                            "srun",   "mpirun",   "mpiexec"};
    bool does = count == 0;
    for (int64_t i = 0; i < count && !does; i++) {
        const char *slash = strrchr(words->items[i], '/');
        does = shell_is_marked(words->items[i]);
        for (size_t k = 0; k < sizeof launchers / sizeof launchers[0]; k++)
            does = does || strncmp(slash ? slash + 1 : words->items[i], launchers[k], strlen(launchers[k])) == 0;
    }
    return does;
}

// A program: a Python program may be the training; bash -c and sbatch <<EOF have commands in a text.
static enum truth note_program(struct shell *shell, struct command_line *command) {
    const struct string_list *words = &command->words;
    struct shell_reading *reading = shell->reading;
    bool is_sbatch = is_called(words->items[0], "sbatch") || is_called(words->items[0], "bash");
    if (command->document && is_sbatch)
        follow_string(shell, command->document, command->line);
    for (int64_t i = 0; i < words->count; i++) {
        const char *word = words->items[i], *next = i + 1 < words->count ? words->items[i + 1] : "";
        if ((shell_is_python(word) || shell_is_llmc(word)) && reading->call_count < MOST_CALLS &&
            (shell->launcher.count || starts_programs(words, i))) {
            MEMORY_GROW(reading->calls, reading->call_count, reading->call_capacity);
            struct shell_call *call = &reading->calls[reading->call_count++];
            *call = (struct shell_call){.line = command->line, .is_sure = shell->doubt == 0};
            append_items(&call->words, &shell->launcher, 0, shell->launcher.count);
            append_items(&call->words, words, 0, words->count);
            return TRUTH_ASSUMED;
        }
        int64_t text = i + 1;
        while (text < words->count && words->items[text][0] == '-' && !ends_with(words->items[text], "c"))
            text++;
        if ((is_called(word, "bash") || is_called(word, "sh")) && next[0] == '-' && text + 1 < words->count) {
            append_items(&shell->launcher, words, 0, i);
            follow_string(shell, words->items[text + 1], command->line);
            string_list_free(&shell->launcher);
            return TRUTH_ASSUMED;
        }
        if (ends_with(word, ".sh") && reading->scripts.count < MOST_CALLS)
            string_list_add(&reading->scripts, word);
    }
    return TRUTH_ASSUMED;
}

static void shift(struct shell *shell, const struct string_list *words) {
    struct string_list old = shell->arguments;
    int64_t count = words->count > 1 ? strtol(words->items[1], NULL, 10) : 1;
    if (count < 1 || count > old.count)
        return;
    shell->arguments = (struct string_list){0};
    append_items(&shell->arguments, &old, count, old.count);
    string_list_free(&old);
}

// Variables that a command sets from its input, or by arithmetic.
static void set_unknown(struct shell *shell, const struct string_list *words) {
    bool is_printf = strcmp(words->items[0], "printf") == 0, is_let = strcmp(words->items[0], "let") == 0;
    bool has_target = is_printf && words->count > 2 && strcmp(words->items[1], "-v") == 0;
    int64_t end = !is_printf ? words->count : has_target ? 3 : 0;
    for (int64_t i = is_printf ? 2 : 1; i < end; i++) {
        const char *word = words->items[i];
        size_t length = shell_name_length(word, word + strlen(word));
        struct string_list items = {0};
        if (!length || (word[length] && !is_let))
            continue;
        char *name = memory_printf("%.*s", (int)length, word);
        char *mark = shell_mark(shell, SHELL_UNKNOWN, name, is_let ? "changed by let" : "read from input");
        string_list_add(&items, mark);
        shell_assign(shell, name, &items, false);
        free(mark);
        free(name);
    }
}

static void unset(struct shell *shell, const struct string_list *words) {
    for (int64_t i = 1; i < words->count; i++) {
        const char *name = words->items[i];
        struct string_list none = {0};
        if (!shell_find(shell, name, strlen(name)))
            continue;
        shell_assign(shell, name, &none, false);
        struct shell_variable *variable = shell_find(shell, name, strlen(name));
        variable->is_set = variable->is_fixed;
    }
}

static enum truth test(struct shell *shell, struct string_list *words) {
    struct string_list inner = {words->items + 1, words->count - 1};
    shell_empty_unset(shell, words);
    inner.count -= inner.count && strcmp(words->items[0], "[") == 0;
    return shell_test(shell, &inner, false);
}

static enum truth follow(struct shell *shell, struct command_line *command) {
    static const struct {
        const char *name;
        enum leaving leaving;
    } exits[] = {
        {"exit", LEAVING_SCRIPT}, {"return", LEAVING_FUNCTION}, {"break", LEAVING_LOOP}, {"continue", LEAVING_ROUND}};
    static const char *const setters[] = {"read", "mapfile", "readarray", "getopts", "printf", "let", "unset", NULL};
    struct string_list *words = &command->words;
    const char *name = words->items[0];
    if (!shell_spend(shell, 256))
        return TRUTH_MAYBE;
    for (size_t i = shell->function_count; i-- > 0;)
        if (shell_span_is(shell->functions[i].name, name)) {
            struct string_list arguments = {words->items + 1, words->count - 1};
            return shell_follow_text(shell, shell->functions[i].body, shell->functions[i].line, &arguments);
        }
    // Whether it is left under a condition that is not decided is not known: then what follows is read.
    for (size_t i = 0; i < sizeof exits / sizeof exits[0]; i++)
        if (strcmp(name, exits[i].name) == 0 && !shell->doubt) {
            shell->leaving = exits[i].leaving;
            shell->loops = words->count > 1 ? strtol(words->items[1], NULL, 10) : 1;
            if (shell->leaving == LEAVING_SCRIPT)
                shell->reading->exit_line = command->line;
        }
    if (strcmp(name, "[") == 0 || strcmp(name, "test") == 0)
        return test(shell, words);
    if (strcmp(name, "true") == 0 || strcmp(name, ":") == 0 || strcmp(name, "echo") == 0)
        return TRUTH_YES;
    if (strcmp(name, "false") == 0)
        return TRUTH_NO;
    if (strcmp(name, "shift") == 0) {
        shift(shell, words);
    } else if (strcmp(name, "unset") == 0 && !shell->doubt) {
        unset(shell, words);
    } else if (is_one_of(setters, name)) {
        set_unknown(shell, words);
    } else if (strcmp(name, "eval") == 0) {
        struct buffer text = {0};
        for (int64_t i = 1; i < words->count; i++)
            buffer_printf(&text, "%s ", words->items[i]);
        follow_string(shell, buffer_string(&text), command->line);
        buffer_free(&text);
    } else if (strcmp(name, "set") == 0 && words->count > 1 && strcmp(words->items[1], "--") == 0) {
        string_list_free(&shell->arguments);
        append_items(&shell->arguments, words, 2, words->count);
    } else if (strcmp(name, "cat") == 0 && command->output && command->document) {
        string_list_add(&shell->reading->files, command->output);
        string_list_add(&shell->reading->files, command->document);
    } else {
        return note_program(shell, command);
    }
    return TRUTH_ASSUMED;
}
