// Prompts of tasks: renders documents and chooses the examples before them, as lm-evaluation-harness and, for the tasks
// of CORE, nanochat do. See internal.h, and docs/evaluate.md for the rules.
#include "base/error.h"
#include "base/memory.h"
#include "data/bad_data.h"
#include "evaluate/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// The seed of nanochat's examples, to which a document's place is added.
enum { CORE_SEED = 1234, MOST_PROMPT_BYTES = 1 << 26 };

// ---- texts ----

const char *prompt_delimiter(const struct task_record *task) {
    return task->delimiter ? task->delimiter : " ";
}

int prompt_render(const struct task_maker *maker, const char *text, const struct json *document, int64_t element,
                  struct buffer *out) {
    struct buffer rendered = {0};
    int status = template_render(text, document, element, &rendered);
    if (status == 0 && maker->task->filter)
        status = template_filter(maker->task->filter, &rendered);
    buffer_append(out, buffer_string(&rendered), rendered.length);
    buffer_free(&rendered);
    return status;
}

int prompt_render_list(const struct task_maker *maker, const char *const *list, const struct json *document,
                       struct buffer *texts, int32_t *count) {
    *count = 0;
    for (int i = 0; i < TASK_MOST_TEXTS && list[i]; i++) {
        int64_t elements;
        TRY(template_count(list[i], document, &elements));
        if (elements + *count > TASK_MOST_CHOICES)
            return bad_data("there are %" PRId64 " choices; %d are the most", elements, TASK_MOST_CHOICES);
        for (int64_t k = 0; k < elements; k++) {
            buffer_clear(&texts[*count]);
            TRY(prompt_render(maker, list[i], document, k, &texts[(*count)++]));
        }
    }
    return *count > 0 ? 0 : bad_data("there are no choices");
}

void prompt_free_texts(struct buffer *texts) {
    for (int i = 0; i < TASK_MOST_CHOICES; i++)
        buffer_free(&texts[i]);
    free(texts);
}

int prompt_find_gold(const struct task_maker *maker, const struct json *document, int32_t count, int32_t *gold) {
    const struct task_record *task = maker->task;
    struct buffer answer = {0}, *labels = memory_alloc(sizeof *labels * TASK_MOST_CHOICES);
    int32_t label_count = 0;
    int status = template_render(task->answer, document, 0, &answer);
    if (status == 0 && task->labels[0])
        status = prompt_render_list(maker, task->labels, document, labels, &label_count);
    *gold = -1;
    char *end = answer.data;
    for (int32_t i = 0; i < label_count && *gold < 0; i++)
        if (labels[i].length == answer.length && memcmp(labels[i].data, answer.data, answer.length) == 0)
            *gold = i;
    if (status == 0 && !task->labels[0] && answer.length > 0 && answer.length <= 4 && answer.data[0] >= '0' &&
        answer.data[0] <= '9')
        *gold = (int32_t)strtol(answer.data, &end, 10);
    if (status == 0 && (*gold < 0 || *gold >= count || (!task->labels[0] && *end != '\0')))
        status = bad_data("the answer \"%.40s\" is none of the %d choices", buffer_string(&answer), count);
    buffer_free(&answer);
    prompt_free_texts(labels);
    return status;
}

// A document of the pool with its answer.
static int render_example(struct task_maker *maker, int64_t number, struct buffer *out) {
    const struct task_record *task = maker->task;
    const struct json *document = maker->pool->roots[number];
    struct buffer *texts = memory_alloc(sizeof *texts * TASK_MOST_CHOICES);
    int32_t count = 0, gold = 0;
    int status = 0;
    if (task->kind != TASK_ENDING) {
        status = prompt_render_list(maker, task->choices, document, texts, &count);
        if (status == 0)
            status = prompt_find_gold(maker, document, count, &gold);
    }
    if (status == 0 && task->kind == TASK_CONTEXTS)
        buffer_append(out, buffer_string(&texts[gold]), texts[gold].length);
    else if (status == 0)
        status = prompt_render(maker, task->context, document, 0, out);
    buffer_append_string(out, prompt_delimiter(task));
    if (status == 0 && task->kind == TASK_CHOICES)
        buffer_append(out, buffer_string(&texts[gold]), texts[gold].length);
    else if (status == 0)
        status = prompt_render(maker, task->continuation, document, 0, out);
    buffer_append_string(out, "\n\n");
    if (status < 0)
        (void)documents_context(maker->pool, number);
    prompt_free_texts(texts);
    return status;
}

int prompt_append_examples(struct task_maker *maker, struct buffer *out) {
    for (int64_t i = 0; i < maker->chosen_count; i++) {
        struct buffer *example = &maker->examples[maker->chosen[i]];
        if (example->length == 0)
            TRY(render_example(maker, maker->chosen[i], example));
        buffer_append(out, buffer_string(example), example->length);
        if (out->length > MOST_PROMPT_BYTES)
            return bad_data("the prompt has more than %d bytes; give a smaller --num-shots", MOST_PROMPT_BYTES);
    }
    return 0;
}

// ---- the choice of examples ----

static bool is_same_line(const struct document_line *a, const struct document_line *b) {
    return a->length == b->length && memcmp(a->at, b->at, a->length) == 0;
}

// Drops those equal to the document, and those beyond the number that is wanted.
static int64_t leave_out(struct task_maker *maker, int64_t document, int64_t count, int64_t wanted) {
    int64_t kept = 0;
    for (int64_t i = 0; i < count && kept < wanted; i++)
        if (!is_same_line(&maker->pool->lines[maker->chosen[i]], &maker->documents.lines[document]))
            maker->chosen[kept++] = maker->chosen[i];
    return kept;
}

static int too_few(const struct task_maker *maker) {
    return bad_data("%s has %" PRId64 " documents, too few for %" PRId64 " examples; give a smaller --num-shots",
                    maker->pool->path, maker->pool->count, maker->prepared->shots);
}

// nanochat: a generator for each document, and all others of its list to choose from.
static int choose_core(struct task_maker *maker, int64_t place) {
    int64_t shots = maker->prepared->shots;
    if (shots >= maker->count)
        return too_few(maker);
    python_random_seed(&maker->random, (uint32_t)(CORE_SEED + place));
    python_random_sample(&maker->random, maker->count - 1, shots, maker->chosen);
    for (int64_t i = 0; i < shots; i++)
        maker->chosen[i] = maker->order[maker->chosen[i] + (maker->chosen[i] >= place)];
    maker->chosen_count = shots;
    return 0;
}

int prompt_find_group(struct task_maker *maker, const struct json *root, int32_t *group) {
    struct task_prepared *prepared = maker->prepared;
    struct buffer name = {0};
    int status = template_render(maker->task->group, root, 0, &name);
    for (*group = 0; *group < prepared->group_count; ++*group)
        if (strcmp(prepared->groups[*group], buffer_string(&name)) == 0)
            break;
    if (status == 0 && *group == TASK_MOST_GROUPS)
        status = bad_data("there are more than %d groups", TASK_MOST_GROUPS);
    if (status == 0 && *group == prepared->group_count) {
        prepared->groups = memory_realloc(prepared->groups, sizeof(char *) * (size_t)(prepared->group_count + 1));
        prepared->groups[prepared->group_count++] = memory_string(buffer_string(&name));
    }
    buffer_free(&name);
    return status;
}

static int find_pool_groups(struct task_maker *maker) {
    if (maker->pool_groups || !maker->task->group)
        return 0;
    maker->pool_groups = memory_alloc(sizeof *maker->pool_groups * (size_t)maker->pool->count);
    for (int64_t i = 0; i < maker->pool->count; i++)
        if (prompt_find_group(maker, maker->pool->roots[i], &maker->pool_groups[i]) < 0)
            return documents_context(maker->pool, i);
    return 0;
}

// The first of the split; those of the document's group if there are groups.
static int choose_first(struct task_maker *maker, int32_t group) {
    TRY(find_pool_groups(maker));
    maker->chosen_count = 0;
    for (int64_t i = 0; i < maker->pool->count && maker->chosen_count < maker->prepared->shots; i++)
        if (!maker->pool_groups || maker->pool_groups[i] == group)
            maker->chosen[maker->chosen_count++] = i;
    return maker->chosen_count < maker->prepared->shots ? too_few(maker) : 0;
}

// The harness: one generator for all documents, in order.
int prompt_choose_examples(struct task_maker *maker, int64_t place, int32_t group) {
    int64_t shots = maker->prepared->shots, drawn = shots + maker->task->draws_one_more;
    if (shots == 0)
        return 0;
    if (maker->task->is_core)
        return choose_core(maker, place);
    if (maker->task->takes_first_shots)
        return choose_first(maker, group);
    if (drawn > maker->pool->count)
        return too_few(maker);
    python_random_sample(&maker->random, maker->pool->count, drawn, maker->chosen);
    maker->chosen_count = maker->task->draws_one_more ? leave_out(maker, maker->order[place], drawn, shots) : shots;
    if (maker->chosen_count == shots)
        return 0;
    // Copies of the document were among them: a draw from the pool without all copies.
    int64_t *others = memory_alloc(sizeof *others * (size_t)maker->pool->count), count = 0;
    for (int64_t i = 0; i < maker->pool->count; i++)
        if (!is_same_line(&maker->pool->lines[i], &maker->documents.lines[maker->order[place]]))
            others[count++] = i;
    if (count >= shots)
        python_random_sample(&maker->random, count, shots, maker->chosen);
    for (int64_t i = 0; count >= shots && i < shots; i++)
        maker->chosen[i] = others[maker->chosen[i]];
    free(others);
    maker->chosen_count = shots;
    return count >= shots ? 0 : too_few(maker);
}
