// Megatron's command line as ours; see migrate.h.
#include "config/migrate.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/number.h"
#include "config/config.h"
#include "config/flag_internal.h"
#include "config/flags.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the launcher ----

enum launcher_flag { NODES, PER_NODE, TASKS, TASKS_PER_NODE, LAUNCHER_FLAGS };

static const struct {
    const char *name;
    enum launcher_flag flag;
} launcher_flags[] = {{"--nnodes", NODES},
                      {"--nodes", NODES},
                      {"-N", NODES},
                      {"--num_nodes", NODES},
                      {"--nproc_per_node", PER_NODE},
                      {"--nproc-per-node", PER_NODE},
                      {"--num_gpus", PER_NODE},
                      {"--ntasks-per-node", TASKS_PER_NODE},
                      {"--npernode", TASKS_PER_NODE},
                      {"-n", TASKS},
                      {"-np", TASKS},
                      {"--np", TASKS},
                      {"--ntasks", TASKS}};

char *migrate_show(const char *text, struct string_list *names) {
    struct buffer out = {0};
    for (; *text; text++) {
        const char *end = *text == SHELL_MARK ? strchr(text, SHELL_MARK_END) : NULL;
        if (!end) {
            buffer_append_byte(&out, *text);
            continue;
        }
        char *name = memory_printf("%.*s", (int)(end - text - 2), text + 2);
        buffer_printf(&out, "${%s}", name);
        if (names)
            string_list_add(names, name);
        free(name);
        text = end;
    }
    char *shown = memory_string(buffer_string(&out));
    buffer_free(&out);
    return shown;
}

// The words before the program: torchrun's own flags win over those of the srun before it.
static void read_launcher(const struct string_list *words, int64_t end, struct migration *migration) {
    int64_t found[LAUNCHER_FLAGS] = {0};
    for (int64_t i = 0; i < end; i++) {
        const char *word = words->items[i], *equals = strchr(word, '=');
        size_t length = equals ? (size_t)(equals - word) : strlen(word);
        const char *name = strrchr(word, '/');
        migration->is_slurm = migration->is_slurm || strcmp(name ? name + 1 : word, "srun") == 0;
        for (size_t k = 0; k < sizeof launcher_flags / sizeof launcher_flags[0]; k++) {
            int64_t value;
            const char *text = equals ? equals + 1 : i + 1 < end ? words->items[i + 1] : "";
            if (strlen(launcher_flags[k].name) != length || memcmp(launcher_flags[k].name, word, length) != 0)
                continue;
            char *shown = migrate_show(text, NULL), *note = NULL;
            if (number_read_int(text, &value) && value > 0 && value <= MOST_RANKS)
                found[launcher_flags[k].flag] = value;
            else if (shell_is_marked(text))
                note = memory_printf("the launcher's %s is %s, which is not decided: --set its value",
                                     launcher_flags[k].name, shown);
            if (note)
                string_list_add(&migration->notes, note);
            free(shown);
            free(note);
        }
    }
    int64_t each = found[PER_NODE] ? found[PER_NODE] : found[TASKS_PER_NODE];
    migration->nodes = found[NODES] ? found[NODES] : each && found[TASKS] > each ? found[TASKS] / each : each ? 1 : 0;
    migration->ranks = each ? each * migration->nodes : found[TASKS];
}

static bool has_item(const struct string_list *list, const char *item, int64_t step) {
    for (int64_t i = 0; i < list->count; i += step)
        if (strcmp(list->items[i], item) == 0)
            return true;
    return false;
}

static void ask(struct migration *migration, const char *name, const char *flag) {
    if (has_item(&migration->asked, name, 2))
        return;
    string_list_add(&migration->asked, name);
    string_list_add(&migration->asked, flag);
}

// Values with marks: a text may keep ${NAME} for the shell that runs the printed command, unless it is an argument of
// the script. Everything else must be known. False if something is asked for.
static bool settle_marks(struct migration *migration, const struct flag_match *match, char **values, int count) {
    const struct flag *row = match->alias ? flag_find(match->table, match->alias->target) : match->flag;
    bool is_text = row && (row->type == FLAG_STRING || row->type == FLAG_STRING_LIST), is_settled = true;
    struct string_list names = {0};
    for (int i = 0; i < count; i++)
        free(migrate_show(values[i], &names));
    for (int64_t i = 0; i < names.count; i++) {
        const char *name = names.items[i];
        if (row ? !is_text || isdigit((unsigned char)*name) : match->names && match->names->refused) {
            ask(migration, name, row ? row->name : match->names->message);
            is_settled = false;
        } else if (row && !has_item(&migration->open, name, 1)) {
            string_list_add(&migration->open, name);
        }
    }
    string_list_free(&names);
    return is_settled;
}

static void add_row(struct migration *migration, const struct flag *row, const char *fixed, char **values, int count) {
    struct string_list *words = &migration->words;
    bool is_switch = row->type == FLAG_BOOL || row->type == FLAG_BOOL_OFF;
    const char *value = fixed ? fixed : count ? values[0] : "true";
    if (is_switch && flag_truth(value) == 0) {
        char *off = memory_printf("%s=false", row->name);
        string_list_add(words, off);
        free(off);
        return;
    }
    // A value that begins with -- stays in the flag's word.
    bool is_one = !fixed && !is_switch && count == 1 && strncmp(value, "--", 2) == 0;
    char *whole = is_one ? memory_printf("%s=%s", row->name, value) : memory_string(row->name);
    string_list_add(words, whole);
    free(whole);
    if (fixed && !is_switch)
        string_list_add(words, fixed);
    for (int i = 0; i < count && !fixed && !is_switch && !is_one; i++)
        string_list_add(words, values[i]);
}

static void add_words(struct migration *migration, const struct flag_match *match, char **values, int count) {
    if (match->flag)
        add_row(migration, match->flag, NULL, values, count);
    for (const struct flag_alias *alias = match->alias; alias && alias->name; alias++)
        if (strcmp(alias->name, match->alias->name) == 0)
            add_row(migration, flag_find(match->table, alias->target), alias->value, values, count);
}

// The first of the texts becomes all of them, with spaces between.
static void join(char **texts, int count) {
    struct buffer joined = {0};
    for (int i = 0; i < count; i++)
        buffer_printf(&joined, "%s%s", i ? " " : "", texts[i]);
    free(texts[0]);
    texts[0] = memory_string(buffer_string(&joined));
    buffer_free(&joined);
}

// One flag at argv[0], whose values may have marks; `shown` is the same without. Returns how many further words belong
// to it.
static int migrate_flag(struct migration *migration, struct flag_parse *parse, int argc, char **argv, char **shown) {
    struct flag_match match = {0};
    char *equals = strchr(argv[0], '=');
    int available = 0;
    while (available + 1 < argc && strncmp(argv[available + 1], "--", 2) != 0)
        available++;
    (void)flag_resolve(parse->command, argv[0], strcspn(argv[0], "="), &match);
    int count = match.arity == ARITY_MANY ? available : match.arity == ARITY_ONE && available ? 1 : 0;
    char *value = equals ? equals + 1 : NULL, **values = equals ? &value : argv + 1;
    // A text that the script's shell splits: one value was meant.
    int joined = 0;
    while (match.flag && match.flag->type == FLAG_STRING && !equals && joined + 2 <= available &&
           !shell_is_marked(argv[joined + 2]))
        joined++;
    if (joined) {
        join(argv + 1, joined + 1);
        join(shown + 1, joined + 1);
    }
    if (!settle_marks(migration, &match, values, equals ? 1 : count))
        return (equals ? 0 : count) + joined;
    int64_t notes = parse->notes.count;
    int taken = flag_parse_one(parse, argc, shown);
    if (taken < 0) {
        string_list_add(&migration->refused, error_message());
        error_clear();
        return available;
    }
    add_words(migration, &match, values, equals ? 1 : taken);
    for (int64_t i = notes; i < parse->notes.count; i++)
        string_list_add(&migration->notes, parse->notes.items[i]);
    return taken + joined;
}

// A word that is neither a flag nor its value: a variable that may hold flags, or a mistake.
static void migrate_word(struct migration *migration, const char *word) {
    struct string_list names = {0};
    char *shown = migrate_show(word, &names);
    bool is_one = names.count == 1 && word[0] == SHELL_MARK && strchr(word, SHELL_MARK_END)[1] == '\0';
    char *message = NULL;
    if (is_one && word[1] == SHELL_UNSET)
        message = memory_printf("%s holds no flags, because the script never sets %s", shown, names.items[0]);
    if (message)
        string_list_add(&migration->notes, message);
    else if (names.count)
        ask(migration, names.items[0], "the flags");
    free(message);
    if (!names.count && *word) {
        message = memory_printf("unexpected word \"%s\"", word);
        string_list_add(&migration->refused, message);
        free(message);
    }
    string_list_free(&names);
    free(shown);
}

static void name_model(struct migration *migration, const char *script) {
    static const char *const models[] = {"bert", "t5", "ict"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        char *name = memory_printf("pretrain_%s.py", models[i]);
        if (strstr(script, name)) {
            string_list_add(&migration->words, "--model");
            string_list_add(&migration->words, models[i]);
        }
        free(name);
    }
}

static int64_t find_script(const struct string_list *words) {
    // Words of a launcher may be called like llm.c's programs: a Python program comes first.
    for (int64_t i = 0; i < words->count; i++)
        if (shell_is_python(words->items[i]))
            return i;
    for (int64_t i = 0; i < words->count; i++)
        if (shell_is_llmc(words->items[i]))
            return i;
    return words->count;
}

// The ranks of the printed command: those of the launcher, if the layout divides them, otherwise the next number of
// nodes, or of ranks, that it does.
static void settle_ranks(struct migration *migration, const struct config *config) {
    // A product of sizes that no machine has is left to the dry run.
    int64_t ranks = migration->ranks, each = migration->nodes ? ranks / migration->nodes : 0;
    int64_t least = config_model_ranks(config) > MOST_RANKS ? 0 : config_least_ranks(config);
    if (least < 1 || least > MOST_RANKS || (ranks ? ranks % least == 0 : least == 1))
        return;
    migration->ranks = (ranks / least + 1) * least;
    if (each && migration->nodes > 1 && migration->ranks % each)
        migration->ranks *= each;
    migration->nodes = each ? (migration->ranks + each - 1) / each : 0;
    char number[32];
    (void)snprintf(number, sizeof number, "%" PRId64, ranks);
    char *note = memory_printf("the script starts %s ranks, and its layout needs a multiple of %" PRId64
                               ": planned for %" PRId64,
                               ranks ? number : "an unknown number of", least, migration->ranks);
    string_list_add(&migration->notes, note);
    free(note);
}

void migrate_call(const struct shell_call *call, struct migration *migration) {
    *migration = (struct migration){.call = call};
    struct string_list ours = {0};
    int64_t script = find_script(&call->words);
    bool is_llmc = script < call->words.count && shell_is_llmc(call->words.items[script]);
    if (is_llmc)
        migrate_llmc(&call->words, script, &ours);
    const struct string_list *given = is_llmc ? &ours : &call->words;
    read_launcher(&call->words, script, migration);
    name_model(migration, script < call->words.count ? call->words.items[script] : "");
    struct config trial;
    config_defaults(&trial);
    struct flag_parse parse = {.command = config_command(), .options = &trial};
    struct string_list shown = {0};
    for (int64_t i = script + 1; i < given->count; i++) {
        char *word = migrate_show(given->items[i], NULL);
        string_list_add(&shown, word);
        free(word);
    }
    char **words = given->items + script + 1;
    int count = (int)shown.count;
    for (int i = 0; i < count; i++)
        if (strncmp(words[i], "--", 2) == 0)
            i += migrate_flag(migration, &parse, count - i, words + i, shown.items + i);
        else
            migrate_word(migration, words[i]);
    string_list_free(&shown);
    settle_ranks(migration, &trial);
    string_list_free(&parse.notes);
    string_list_free(&ours);
    config_free(&trial);
}

const struct shell_call *migrate_choose(const struct shell_reading *reading) {
    const struct shell_call *best = NULL;
    int best_score = -1;
    for (size_t i = 0; i < reading->call_count; i++) {
        const struct shell_call *call = &reading->calls[i];
        int64_t script = find_script(&call->words);
        const char *path = script < call->words.count ? call->words.items[script] : "";
        const char *slash = strrchr(path, '/');
        int score = (strstr(slash ? slash : path, "train") ? 2 : 0) + call->is_sure;
        if (score > best_score)
            best = call;
        best_score = score > best_score ? score : best_score;
    }
    return best;
}

void migration_free(struct migration *migration) {
    string_list_free(&migration->words);
    string_list_free(&migration->notes);
    string_list_free(&migration->refused);
    string_list_free(&migration->asked);
    string_list_free(&migration->open);
    *migration = (struct migration){0};
}

void migrate_add(struct migration *migration, const char *flags) {
    string_list_add_words(&migration->words, flags);
}

void migrate_quote(const char *word, bool splits, struct buffer *out) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./,:=+@%-";
    const char *end = strchr(word, SHELL_MARK_END);
    bool is_bare = (*word && word[strspn(word, plain)] == '\0') || (splits && *word == SHELL_MARK && end && !end[1]);
    buffer_append_string(out, is_bare ? "" : "\"");
    for (; *word; word++) {
        end = *word == SHELL_MARK ? strchr(word, SHELL_MARK_END) : NULL;
        if (end) {
            buffer_printf(out, "${%.*s}", (int)(end - word - 2), word + 2);
            word = end;
        } else {
            buffer_append_string(out, strchr("\"\\`$", *word) ? "\\" : "");
            buffer_append_byte(out, *word);
        }
    }
    buffer_append_string(out, is_bare ? "" : "\"");
}
