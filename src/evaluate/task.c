// Tasks of the user's own: a JSON object per line, whose members are those of struct task_record. See internal.h.
#include "base/error.h"
#include "base/memory.h"
#include "base/words.h"
#include "evaluate/internal.h"

#include <stddef.h>
#include <string.h>

static const struct metric_row {
    const char *name;
    unsigned kinds;  // a bit for each kind that has it
} metric_rows[METRIC_COUNT] = {
    [METRIC_ACC] = {"acc", 1u << TASK_CHOICES | 1u << TASK_CONTEXTS | 1u << TASK_ENDING},
    [METRIC_ACC_NORM] = {"acc_norm", 1u << TASK_CHOICES | 1u << TASK_CONTEXTS},
    [METRIC_ACC_BYTES] = {"acc_bytes", 1u << TASK_CHOICES | 1u << TASK_CONTEXTS},
    [METRIC_PERPLEXITY] = {"perplexity", 1u << TASK_ENDING},
    [METRIC_WORD_PERPLEXITY] = {"word_perplexity", 1u << TASK_ROLLING},
    [METRIC_BYTE_PERPLEXITY] = {"byte_perplexity", 1u << TASK_ROLLING},
    [METRIC_BITS_PER_BYTE] = {"bits_per_byte", 1u << TASK_ROLLING},
    [METRIC_CENTERED] = {"centered", 1u << TASK_CHOICES | 1u << TASK_CONTEXTS | 1u << TASK_ENDING},
};

static const char *const kind_names[TASK_KINDS] = {
    [TASK_CHOICES] = "choices", [TASK_CONTEXTS] = "contexts", [TASK_ENDING] = "ending", [TASK_ROLLING] = "rolling"};

const char *task_metric_name(enum task_metric metric) {
    return metric_rows[metric].name;
}

// ---- members of a record ----

enum member_type { MEMBER_TEXT, MEMBER_TEMPLATE, MEMBER_TEMPLATES, MEMBER_COUNT, MEMBER_REAL, MEMBER_SWITCH };
static const struct task_member {
    const char *name;
    size_t offset;
    enum member_type type;
    unsigned kinds;  // that need it
} members[] = {
#define MEMBER(name, type, kinds)                                                                                      \
    { #name, offsetof(struct task_record, name), MEMBER_##type, kinds }
#define ALL (1u << TASK_KINDS) - 1
    MEMBER(name, TEXT, ALL),
    {"kind", offsetof(struct task_record, kind_name), MEMBER_TEXT, ALL},
    MEMBER(address, TEXT, 0),
    MEMBER(data, TEXT, 0),
    MEMBER(split, TEXT, 0),
    MEMBER(shots_split, TEXT, 0),
    MEMBER(filter, TEXT, 0),
    MEMBER(description, TEMPLATE, 0),
    MEMBER(context, TEMPLATE, 1u << TASK_CHOICES | 1u << TASK_ENDING | 1u << TASK_ROLLING),
    MEMBER(continuation, TEMPLATE, 1u << TASK_CONTEXTS | 1u << TASK_ENDING),
    MEMBER(counted, TEMPLATE, 0),
    MEMBER(choices, TEMPLATES, 1u << TASK_CHOICES | 1u << TASK_CONTEXTS),
    MEMBER(answer, TEMPLATE, 1u << TASK_CHOICES | 1u << TASK_CONTEXTS),
    MEMBER(labels, TEMPLATES, 0),
    MEMBER(group, TEMPLATE, 0),
    MEMBER(delimiter, TEXT, 0),
    MEMBER(shots, COUNT, 0),
    MEMBER(draws_one_more, SWITCH, 0),
    MEMBER(takes_first_shots, SWITCH, 0),
    MEMBER(has_fixed_shots, SWITCH, 0),
    MEMBER(is_core, SWITCH, 0),
    MEMBER(baseline, REAL, 0),
#undef ALL
#undef MEMBER
};
enum { MEMBERS = sizeof members / sizeof members[0] };

static int take_text(const struct json *value, enum member_type type, const char **text) {
    if (value->type != JSON_STRING || strlen(value->string) != value->length)
        return bad_data("it must be a text without NUL");
    *text = value->string;
    return type == MEMBER_TEXT ? 0 : template_check(*text);
}

static int take_templates(const struct json *value, const char **texts) {
    size_t count = value->type == JSON_ARRAY ? value->count : 1;
    const struct json *items = value->type == JSON_ARRAY ? value->items : value;
    if (count == 0 || count > TASK_MOST_TEXTS)
        return bad_data("it must be a template, or an array of 1 to %d", TASK_MOST_TEXTS);
    for (size_t i = 0; i < count; i++)
        TRY(take_text(&items[i], MEMBER_TEMPLATE, &texts[i]));
    return 0;
}

static int take_member(const struct task_member *member, const struct json *value, struct task_record *task) {
    void *place = (char *)task + member->offset;
    switch (member->type) {
    case MEMBER_TEXT:
    case MEMBER_TEMPLATE:
        return take_text(value, member->type, place);
    case MEMBER_TEMPLATES:
        return take_templates(value, place);
    case MEMBER_COUNT:
        if (value->type != JSON_NUMBER || value->number < 0 || value->number > TASK_MOST_SHOTS ||
            value->number != (double)(int64_t)value->number)
            return bad_data("it must be a whole number from 0 to %d", TASK_MOST_SHOTS);
        *(int64_t *)place = (int64_t)value->number;
        return 0;
    case MEMBER_REAL:
        if (value->type != JSON_NUMBER || !(value->number >= 0 && value->number < 100))
            return bad_data("it must be a percentage from 0 to below 100");
        *(double *)place = value->number;
        return 0;
    case MEMBER_SWITCH:
        if (value->type != JSON_TRUE && value->type != JSON_FALSE)
            return bad_data("it must be true or false");
        *(bool *)place = value->type == JSON_TRUE;
        return 0;
    }
    return 0;
}

static int take_metrics(const struct json *value, struct task_record *task) {
    if (value->type != JSON_ARRAY)
        return bad_data("it must be an array of names");
    for (size_t i = 0; i < value->count; i++) {
        const char *name = value->items[i].type == JSON_STRING ? value->items[i].string : "";
        int metric = 0;
        while (metric < METRIC_COUNT && strcmp(metric_rows[metric].name, name) != 0)
            metric++;
        if (metric == METRIC_COUNT)
            return bad_data("the metric \"%s\" is not known", name);
        task->metrics |= 1u << metric;
    }
    return 0;
}

static int take(const struct json *root, struct task_record *task) {
    const char *repeated = json_repeated(root);
    if (repeated)
        return bad_data("\"%s\" stands there twice", repeated);
    for (size_t i = 0; i < root->count; i++) {
        const char *key = root->keys[i].string;
        struct nearest nearest = nearest_begin(key, root->keys[i].length);
        const struct task_member *member = members;
        for (; member < members + MEMBERS && strcmp(member->name, key) != 0; member++)
            nearest_consider(&nearest, member->name);
        bool is_metrics = strcmp(key, "metrics") == 0;
        if (!is_metrics && member == members + MEMBERS)
            return bad_data("a task has no member \"%s\"%s%s%s", key, nearest.best ? "; did you mean " : "",
                            nearest.best ? nearest.best : "", nearest.best ? "?" : "");
        if ((is_metrics ? take_metrics(&root->items[i], task) : take_member(member, &root->items[i], task)) < 0)
            return error_context("\"%s\"", key);
    }
    return 0;
}

static bool is_given(const struct task_member *member, const struct task_record *task) {
    return *(const char *const *)((const char *)task + member->offset) != NULL;
}

// Names become parts of paths and of lists.
static int check_name(const char *name) {
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.+");
    return length > 0 && name[length] == '\0' && name[0] != '.'
               ? 0
               : bad_data("the name of a task consists of letters, digits, _, -, + and ., and does not begin with a .");
}

static int check(struct task_record *task) {
    int kind = 0;
    while (kind < TASK_KINDS && (!task->kind_name || strcmp(kind_names[kind], task->kind_name) != 0))
        kind++;
    if (kind == TASK_KINDS)
        return bad_data("\"kind\" must be choices, contexts, ending or rolling");
    task->kind = (enum task_kind)kind;
    for (const struct task_member *member = members; member < members + MEMBERS; member++)
        if (member->kinds >> kind & 1 && !is_given(member, task))
            return bad_data("a task of this kind needs \"%s\"", member->name);
    TRY(check_name(task->name));
    struct buffer nothing = {0};
    int status = task->filter ? template_filter(task->filter, &nothing) : 0;
    buffer_free(&nothing);
    TRY(status);
    for (int metric = 0; metric < METRIC_COUNT; metric++)
        if (task->metrics >> metric & 1 && !(metric_rows[metric].kinds >> kind & 1))
            return bad_data("a task of this kind has no metric \"%s\"", metric_rows[metric].name);
    if (kind == TASK_ROLLING && (task->is_core || task->shots > 0))
        return bad_data("a rolling task has no examples, and is not one of CORE's kinds");
    // Examples from the same documents must not include the one that is asked about.
    task->draws_one_more |= !task->shots_split;
    if (task->metrics == 0)
        for (int metric = 0; metric < METRIC_CENTERED; metric++)
            if (metric_rows[metric].kinds >> kind & 1)
                task->metrics |= 1u << metric;
    return 0;
}

int task_records_take(struct task_record **tasks, const struct documents *documents) {
    enum { MOST_TASKS = 1000 };
    if (documents->count > MOST_TASKS)
        return bad_data("%s has more than %d tasks", documents->path, MOST_TASKS);
    *tasks = memory_alloc(sizeof **tasks * (size_t)(documents->count + 1));
    for (int64_t i = 0; i < documents->count; i++) {
        struct task_record *task = &(*tasks)[i];
        int status = take(documents->roots[i], task);
        if (status == 0)
            status = check(task);
        for (int64_t k = 0; status == 0 && k < i; k++)
            if (strcmp((*tasks)[k].name, task->name) == 0)
                status = bad_data("there is another task \"%s\" above", task->name);
        if (status < 0)
            return documents_context(documents, i);
    }
    return 0;
}
