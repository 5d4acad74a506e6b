// The command line, and the way of a flag's values to its row, its aliases' rows, or a note. An argument that begins
// with "--" is always a flag, never a value, so a missing value is noticed where it is missing and files can be read
// before the flags that override them.
#include "config/flag.h"
#include "config/flag_docs.h"
#include "config/flag_internal.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/redact.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void flag_put_off(struct flag_parse *parse) {
    complain(&parse->complaints, "%s", error_message());
    error_clear();
}

int flag_parse_end(struct flag_parse *parse) {
    flags_say_notes(&parse->notes);
    return complaints_report(&parse->complaints);
}

// The text of a note after its flag, e.g. " has no meaning here".
static const char *reason_of(const char *note) {
    return note + strcspn(note, " ");
}

// The flags of the note at `first` and of all later ones with the same reason; returns their number. 0 if an earlier
// note has that reason.
static int64_t gather_flags(const struct string_list *notes, int64_t first, struct buffer *out) {
    int64_t count = 0;
    buffer_clear(out);
    for (int64_t i = 0; i < notes->count; i++) {
        const char *note = notes->items[i], *reason = reason_of(note);
        if (strcmp(reason, reason_of(notes->items[first])) != 0)
            continue;
        if (i < first)
            return 0;
        buffer_append_string(out, count++ > 0 ? ", " : "");
        buffer_append(out, note, (size_t)(reason - note));
    }
    return count;
}

void flags_say_notes(struct string_list *notes) {
    struct buffer flags = {0};
    for (int64_t i = 0; i < notes->count; i++) {
        int64_t count = gather_flags(notes, i, &flags);
        if (count > 0)
            log_info("note: %s%s%s", count > 1 ? "each of " : "", buffer_string(&flags), reason_of(notes->items[i]));
    }
    buffer_free(&flags);
    string_list_free(notes);
}

static void note_once(struct flag_parse *parse, const char *name, const char *note) {
    size_t length = strcspn(name, "= ");
    for (int64_t i = 0; i < parse->notes.count; i++)
        if (flag_name_equal(name, length, parse->notes.items[i]))
            return;
    char *text = memory_printf("%.*s %s", (int)length, name, note);
    string_list_add(&parse->notes, text);
    free(text);
}

// Whether the value is one of those that follow the name's =, with | between them; 1 is 1.0.
static bool is_default_value(const char *known, const struct string_list *items) {
    size_t length = strcspn(known, " ");
    const char *equals = memchr(known, '=', length);
    bool same = false;
    for (const char *at = equals; at && *at && *at != ' ' && !same && items->count == 1;
         at += 1 + strcspn(at + 1, "| ")) {
        struct buffer expected = {0};
        buffer_append(&expected, at + 1, strcspn(at + 1, "| "));
        const char *value = items->items[0], *text = buffer_string(&expected);
        double given, usual;
        same = number_read_double(value, &given) && number_read_double(text, &usual) && given == usual;
        same = same || (*text && strcmp(text, value) == 0);
        buffer_free(&expected);
    }
    return same;
}

static int apply_name(struct flag_parse *parse, const struct flag_match *match, const struct string_list *items) {
    size_t length = strcspn(match->known, "= ");
    if (match->arity == ARITY_NONE && items->count && flag_truth(items->items[0]) == 0)
        return 0;
    if (!match->names->refused) {
        note_once(parse, match->known, match->names->message);
        return 0;
    }
    if (is_default_value(match->known, items))
        return 0;
    return error_set_code(EXIT_CODE_USAGE, "%.*s %s", (int)length, match->known, match->names->message);
}

static int apply_row(struct flag_parse *parse, const struct flag_table *table, const struct flag *flag,
                     const struct string_list *items, enum flag_source source) {
    if (source == FLAG_FROM_COMMAND && !flag_is_offered(table, flag))
        return error_set_code(EXIT_CODE_USAGE, "%s %s; leave it out", flag->name, table->refusal);
    char *base = (char *)parse->options + table->base;
    const struct flag_given *given = (struct flag_given *)(base + table->given);
    bool add = flag->repeats_add && *flag_source_of(given, flag) == source;
    TRY(flag_set_values(flag, base, items, add));
    flag_mark(table, parse->options, flag, source);
    return 0;
}

static int apply_alias(struct flag_parse *parse, const struct flag_match *match, const struct string_list *items,
                       enum flag_source source) {
    const struct flag_table *table = match->table;
    // An alias of a switch can be switched off: then it gives no note.
    if (match->alias->value && items->count && flag_truth(items->items[0]) == 0)
        return 0;
    for (const struct flag_alias *alias = table->aliases; alias->name; alias++) {
        if (!flag_name_equal(match->alias->name, strlen(match->alias->name), alias->name))
            continue;
        struct string_list fixed = {0};
        if (alias->value)
            string_list_add(&fixed, alias->value);
        const struct flag *target = flag_find(table, alias->target);
        int status = apply_row(parse, table, target, alias->value ? &fixed : items, source);
        string_list_free(&fixed);
        if (status < 0)
            return error_context("%s%s%s", alias->name, alias->note ? " " : "", alias->note ? alias->note : "");
        if (alias->note)
            note_once(parse, alias->name, alias->note);
    }
    return 0;
}

// Files written by this program have marks in place of secrets, which --config treats as missing. Comparisons with a
// checkpoint's flags keep them.
static bool is_redacted(const struct flag_parse *parse, const struct string_list *items) {
    for (int64_t i = 0; parse->has_variables && i < items->count; i++)
        if (redact_is_marked(items->items[i]))
            return true;
    return false;
}

static const char *name_of(const struct flag_match *match) {
    return match->flag ? match->flag->name : match->alias ? match->alias->name : match->known;
}

int flag_apply(struct flag_parse *parse, const struct flag_match *match, const struct flag_values *values,
               enum flag_source source) {
    struct string_list words = {0};
    const struct string_list *items = &values->items;
    // In a file a list may be written as one text: "data-path: 0.3 a 0.7 b".
    bool has_phrases = match->flag && match->flag->has_phrases;
    if (match->arity == ARITY_MANY && source == FLAG_FROM_FILE && !values->quoted && !has_phrases &&
        items->count == 1) {
        string_list_add_words(&words, items->items[0]);
        items = &words;
    }
    int status = 0;
    if (is_redacted(parse, items) && source == FLAG_FROM_FILE)
        note_once(parse, name_of(match), "held a secret, which was not stored (" REDACT_MARK "); give the flag again");
    else if (match->flag)
        status = apply_row(parse, match->table, match->flag, items, source);
    else if (match->alias)
        status = apply_alias(parse, match, items, source);
    else
        status = apply_name(parse, match, items);
    string_list_free(&words);
    return status;
}

static bool is_flag(const char *argument) {
    return argument[0] == '-' && argument[1] == '-';
}

// BigScience's switches take 1.
static bool is_truth_word(const char *argument) {
    return strcasecmp(argument, "true") == 0 || strcasecmp(argument, "false") == 0 || strcmp(argument, "1") == 0;
}

// Collects the values after argv[i] and returns their number. A switch takes none, but many users write --bf16 True: if
// the command takes no other arguments, such a word can only be the switch's value.
static int take_values(const struct flag_command *command, enum flag_arity arity, int available, char **arguments,
                       struct string_list *items) {
    const char *name = arguments[-1];
    int taken = 0;
    if (arity == ARITY_NONE && (command->positional_name || available == 0 || !is_truth_word(arguments[0])))
        return 0;
    while (taken < available && !is_flag(arguments[taken]) && (arity == ARITY_MANY || taken == 0))
        string_list_add(items, arguments[taken++]);
    if (taken == 0 && available > 0)
        return error_set_code(EXIT_CODE_USAGE, "%s needs a value, and %s follows; write %s=VALUE if it begins with --",
                              name, arguments[0], name);
    if (taken == 0)
        return error_set_code(EXIT_CODE_USAGE, "%s needs a value", name);
    return taken;
}

int flag_parse_one(struct flag_parse *parse, int argc, char **argv) {
    const char *equals = strchr(argv[0], '=');
    size_t length = equals ? (size_t)(equals - argv[0]) : strlen(argv[0]);
    bool is_config = length == 8 && memcmp(argv[0], "--config", 8) == 0;
    struct flag_match match = {.arity = ARITY_ONE};
    if (!is_config && !flag_resolve(parse->command, argv[0], length, &match))
        return flag_unknown(parse->command, argv[0], length);
    struct flag_values values = {0};
    int taken = 0;
    if (equals)
        string_list_add(&values.items, equals + 1);
    else
        taken = take_values(parse->command, match.arity, argc - 1, argv + 1, &values.items);
    if (taken < 0 && match.flag && match.flag->help) {
        char *why = memory_string(error_message());
        error_set_code(EXIT_CODE_USAGE, "%s (%s)", why, match.flag->help);
        free(why);
    }
    // Files were read before the flags; their names are skipped here.
    if (taken >= 0 && !is_config && flag_apply(parse, &match, &values, FLAG_FROM_COMMAND) < 0)
        taken = -1;
    string_list_free(&values.items);
    return taken;
}

static const struct flag *find_letter(const struct flag_command *command, char letter,
                                      const struct flag_table **table) {
    const struct flag *flag;
    for (size_t t = 0; t < command->table_count; t++) {
        *table = &command->tables[t];
        for (size_t i = 0; (flag = flag_at(&(*table)->rows, i)); i++)
            if (flag->letter == letter)
                return flag;
    }
    return NULL;
}

static int unknown_letter(const struct flag_command *command, const char *argument) {
    struct buffer letters = {0};
    const struct flag *flag;
    if (flag_is_synonym(command, argument, 2))
        return flag_unknown(command, argument, 2);
    for (size_t t = 0; t < command->table_count; t++)
        for (size_t i = 0; (flag = flag_at(&command->tables[t].rows, i)); i++)
            if (flag->letter)
                buffer_printf(&letters, " -%c", flag->letter);
    error_set_code(EXIT_CODE_USAGE, "unknown flag %s; flags begin with two dashes%s%s%s%s", argument,
                   letters.length ? ", except" : "", buffer_string(&letters), command->flag_remedy ? "; " : "",
                   command->flag_remedy ? command->flag_remedy : "");
    buffer_free(&letters);
    return -1;
}

// "-b 8" or "-b8" at argv[0]; returns how many further arguments it used.
static int parse_letter(struct flag_parse *parse, int argc, char **argv) {
    struct flag_match match = {.arity = ARITY_ONE};
    match.flag = find_letter(parse->command, argv[0][1], &match.table);
    if (!match.flag)
        return unknown_letter(parse->command, argv[0]);
    struct flag_values values = {0};
    int taken = 0;
    if (argv[0][2])
        string_list_add(&values.items, argv[0] + 2);
    else
        taken = take_values(parse->command, match.arity, argc - 1, argv + 1, &values.items);
    if (taken >= 0 && flag_apply(parse, &match, &values, FLAG_FROM_COMMAND) < 0)
        taken = -1;
    string_list_free(&values.items);
    return taken;
}

static void parse_files(struct flag_parse *parse, int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *path = NULL;
        if (strncmp(argv[i], "--config=", 9) == 0)
            path = argv[i] + 9;
        else if (strcmp(argv[i], "--config") == 0 && i + 1 < argc && !is_flag(argv[i + 1]))
            path = argv[i + 1];
        if (path && flag_parse_file(parse, path) < 0)
            flag_put_off(parse);
    }
}

// Values of an unknown flag are not separate errors.
static int count_values(int argc, char **argv) {
    int count = 0;
    while (count + 1 < argc && !is_flag(argv[count + 1]))
        count++;
    return count;
}

// Whether an argument overrides a value in the syntax of Hydra (NeMo): training.model.num_layers=24. *name is the last
// part.
static bool is_override(const struct flag_command *command, const char *argument, const char **name) {
    size_t length = strcspn(argument, "=");
    struct flag_match match;
    *name = argument + strspn(argument, "+");
    for (const char *p = *name; p < argument + length; p++)
        if (*p == '.')
            *name = p + 1;
    return argument[length] == '=' && *name < argument + length &&
           flag_resolve(command, *name, (size_t)(argument + length - *name), &match);
}

static int refuse_argument(const struct flag_command *command, const char *argument) {
    const char *remedy = command->argument_remedy ? command->argument_remedy(argument) : NULL;
    const char *name;
    if (is_override(command, argument, &name))
        return error_set_code(EXIT_CODE_USAGE, "unexpected argument \"%s\": a flag overrides the file; write --%s",
                              argument, name);
    if (!remedy && command->argument_flag)
        return error_set_code(EXIT_CODE_USAGE, "unexpected argument \"%s\": %s takes only flags; did you mean %s %s?",
                              argument, command->name, command->argument_flag, argument);
    return error_set_code(EXIT_CODE_USAGE, "unexpected argument \"%s\": %s takes only flags%s%s", argument,
                          command->name, remedy ? "; " : "", remedy ? remedy : "");
}

static void parse_flags(struct flag_parse *parse, int argc, char **argv, struct string_list *positional) {
    bool flags_ended = false;
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        int taken = 0;
        if (!flags_ended && strcmp(argument, "--") == 0)
            flags_ended = true;
        else if (!flags_ended && is_flag(argument))
            taken = flag_parse_one(parse, argc - i, argv + i);
        else if (!flags_ended && argument[0] == '-' && isalpha((unsigned char)argument[1]))
            taken = parse_letter(parse, argc - i, argv + i);
        else if (!positional)
            taken = refuse_argument(parse->command, argument);
        else
            string_list_add(positional, argument);
        if (taken < 0) {
            flag_put_off(parse);
            taken = positional ? 0 : count_values(argc - i, argv + i);
        }
        i += taken;
    }
}

// Length of the first clause of a help text, enough for a message.
static int first_clause(const char *help) {
    size_t length = strcspn(help, ";:");
    const char *bracket = strstr(help, " (");
    return (int)(bracket && (size_t)(bracket - help) < length ? (size_t)(bracket - help) : length);
}

static void check_complete(struct flag_parse *parse, const struct string_list *positional) {
    const struct flag_command *command = parse->command;
    struct complaints *complaints = &parse->complaints;
    for (size_t t = 0; t < command->table_count; t++) {
        const struct flag_table *table = &command->tables[t];
        const struct flag_given *given =
            (const struct flag_given *)((const char *)parse->options + table->base + table->given);
        const struct flag *flag;
        for (size_t i = 0; (flag = flag_at(&table->rows, i)); i++)
            if (flag->required && given->source[i] == FLAG_FROM_DEFAULT)
                complain(complaints, "%s needs %s (%.*s); see `bevatron %s --help`", command->name, flag->name,
                         first_clause(flag->help), flag->help, command->name);
    }
    if (positional && positional->count < command->positional_minimum)
        complain(complaints, "%s needs %s; see `bevatron %s --help`", command->name, command->positional_name,
                 command->name);
    if (positional && positional->count > command->positional_maximum)
        complain(complaints, "unexpected argument \"%s\"; see `bevatron %s --help`",
                 positional->items[command->positional_maximum], command->name);
}

enum flag_text flag_text_asked(const char *argument) {
    static const struct {
        const char *name;
        enum flag_text text;
    } known[] = {{"--help", FLAG_TEXT_HELP},       {"-h", FLAG_TEXT_HELP},         {"--help-all", FLAG_TEXT_ALL},
                 {"--help-names", FLAG_TEXT_NAME}, {"--help-man", FLAG_TEXT_MAN},  {"--help-bash", FLAG_TEXT_BASH},
                 {"--help-zsh", FLAG_TEXT_ZSH},    {"--help-fish", FLAG_TEXT_FISH}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(argument, known[i].name) == 0)
            return known[i].text;
    return FLAG_TEXT_NONE;
}

// Help wins over everything else on the line, errors included: the user may be looking for the correct flag.
static enum flag_text find_text(int argc, char **argv) {
    enum flag_text text = FLAG_TEXT_NONE;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0 && text == FLAG_TEXT_NONE; i++)
        text = flag_text_asked(argv[i]);
    return text;
}

static void print_text(const struct flag_command *command, enum flag_text text) {
    struct buffer out = {0};
    if (text == FLAG_TEXT_NAME)
        buffer_printf(&out, "%s\n", command->name);
    else if (text == FLAG_TEXT_MAN)
        flags_man(command, &out);
    else if (text > FLAG_TEXT_MAN)
        flags_completion(command, text, &out);
    else
        flags_help(command, text == FLAG_TEXT_ALL, &out);
    fputs(buffer_string(&out), stdout);
    buffer_free(&out);
}

int flags_read(const struct flag_command *command, void *options, struct flag_line line) {
    int argc = line.argc;
    char **argv = line.argv;
    flags_set_defaults(command, options);
    enum flag_text text = find_text(argc, argv);
    if (text != FLAG_TEXT_NONE) {
        print_text(command, text);
        return FLAGS_HELP;
    }
    struct string_list *positional = NULL;
    if (command->positional_name)
        positional = (struct string_list *)((char *)options + command->positional_offset);
    struct flag_parse parse = {.command = command, .options = options};
    parse_files(&parse, argc, argv);
    parse_flags(&parse, argc, argv, positional);
    // A misspelt flag is not also reported as missing.
    if (parse.complaints.count == 0)
        check_complete(&parse, positional);
    *line.notes = parse.notes;
    return complaints_report(&parse.complaints);
}

int flags_parse(const struct flag_command *command, void *options, int argc, char **argv) {
    struct string_list notes = {0};
    int status = flags_read(command, options, (struct flag_line){.argc = argc, .argv = argv, .notes = &notes});
    flags_say_notes(&notes);
    return status;
}
