// Prompts of tasks: renders documents and chooses the examples before them, as lm-evaluation-harness and, for the tasks
// of CORE, nanochat do. See internal.h, and docs/evaluate.md for the rules.
#include "base/error.h"
#include "base/memory.h"
#include "evaluate/internal.h"

#include <inttypes.h>
#include <string.h>

// The seed of nanochat's examples, to which a document's place is added.
enum { CORE_SEED = 1234 };

// ---- texts ----

const char *prompt_delimiter(const struct task_record *task) {
    return task->delimiter ? task->delimiter : " ";
}

void prompt_append(struct buffer *out, const struct buffer *text) {
    buffer_append(out, buffer_string(text), text->length);
}

int prompt_render(const struct task_maker *maker, const char *text, const struct json *document, int64_t element,
                  struct buffer *out) {
    OWNED_BY(buffer_free) struct buffer rendered = {0};
    TRY(template_render(text, document, element, &rendered));
    if (maker->task->filter)
        TRY(template_filter(maker->task->filter, &rendered));
    prompt_append(out, &rendered);
    return 0;
}

void prompt_texts_free(struct prompt_texts *texts) {
    for (int32_t i = 0; i < texts->count; i++)
        buffer_free(&texts->items[i]);
}

// A list of templates, each of which may stand for several texts.
static int render_list(const struct task_maker *maker, const char *const *list, const struct json *document,
                       struct prompt_texts *texts) {
    size_t bytes = 0;
    for (int i = 0; i < TASK_MOST_TEXTS && list[i]; i++) {
        int64_t elements;
        TRY(template_count(list[i], document, &elements));
        if (elements + texts->count > TASK_MOST_CHOICES)
            return bad_data("there are %" PRId64 " choices; %d are the most", elements, TASK_MOST_CHOICES);
        for (int64_t k = 0; k < elements; k++) {
            struct buffer *text = &texts->items[texts->count++];
            TRY(prompt_render(maker, list[i], document, k, text));
            bytes += text->length;
            if (bytes > TASK_MOST_BYTES)
                return bad_data("the choices have more than %d bytes", TASK_MOST_BYTES);
        }
    }
    return texts->count > 0 ? 0 : bad_data("its list of choices is empty");
}

// The number of the right choice of `count`.
static int find_gold(const struct task_maker *maker, const struct json *document, int32_t count, int32_t *gold) {
    const struct task_record *task = maker->task;
    OWNED_BY(buffer_free) struct buffer answer = {0};
    OWNED_BY(prompt_texts_free) struct prompt_texts labels = {0};
    TRY(prompt_render(maker, task->answer, document, 0, &answer));
    if (task->labels[0])
        TRY(render_list(maker, task->labels, document, &labels));
    else
        for (; labels.count < count; labels.count++)
            buffer_printf(&labels.items[labels.count], "%d", labels.count);
    for (*gold = 0; *gold < count && *gold < labels.count; ++*gold) {
        const struct buffer *label = &labels.items[*gold];
        if (label->length == answer.length && memcmp(buffer_string(label), buffer_string(&answer), answer.length) == 0)
            return 0;
    }
    return bad_data("the answer \"%.40s\" is none of the %d choices", buffer_string(&answer), count);
}

int prompt_make(const struct task_maker *maker, const struct json *document, struct prompt *prompt) {
    const struct task_record *task = maker->task;
    prompt->answers = 1;
    if (task->kind != TASK_ENDING) {
        TRY(render_list(maker, task->choices, document, &prompt->texts));
        prompt->answers = prompt->texts.count;
        TRY(find_gold(maker, document, prompt->answers, &prompt->gold));
    }
    if (task->kind != TASK_CONTEXTS)
        TRY(prompt_render(maker, task->context, document, 0, &prompt->context));
    if (task->kind != TASK_CHOICES)
        TRY(prompt_render(maker, task->continuation, document, 0, &prompt->continuation));
    for (int32_t i = 0; i < prompt->answers; i++) {
        prompt->left[i] = task->kind == TASK_CONTEXTS ? &prompt->texts.items[i] : &prompt->context;
        prompt->right[i] = task->kind == TASK_CHOICES ? &prompt->texts.items[i] : &prompt->continuation;
    }
    return 0;
}

void prompt_free(struct prompt *prompt) {
    prompt_texts_free(&prompt->texts);
    buffer_free(&prompt->context);
    buffer_free(&prompt->continuation);
}

// A document of the pool with its answer.
static int render_example(struct task_maker *maker, int64_t number, struct buffer *out) {
    OWNED_BY(prompt_free) struct prompt prompt = {0};
    if (prompt_make(maker, maker->pool->roots[number], &prompt) < 0)
        return documents_context(maker->pool, number);
    prompt_append(out, prompt.left[prompt.gold]);
    buffer_append_string(out, prompt_delimiter(maker->task));
    prompt_append(out, prompt.right[prompt.gold]);
    buffer_append_string(out, "\n\n");
    return 0;
}

int prompt_append_examples(struct task_maker *maker, struct buffer *out) {
    for (int64_t i = 0; i < maker->chosen_count; i++) {
        struct buffer *example = &maker->examples[maker->chosen[i]];
        if (example->length == 0)
            TRY(render_example(maker, maker->chosen[i], example));
        prompt_append(out, example);
        if (out->length > TASK_MOST_BYTES)
            return bad_data("the prompt has more than %d bytes; give a smaller --num-shots", TASK_MOST_BYTES);
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
    OWNED_BY(buffer_free) struct buffer name = {0};
    TRY(template_render(maker->task->group, root, 0, &name));
    for (*group = 0; *group < prepared->group_count; ++*group)
        if (strcmp(prepared->groups[*group], buffer_string(&name)) == 0)
            return 0;
    if (*group == TASK_MOST_GROUPS)
        return bad_data("there are more than %d groups", TASK_MOST_GROUPS);
    MEMORY_GROW(prepared->groups, prepared->group_count, prepared->group_capacity);
    prepared->groups[prepared->group_count++] = memory_string(buffer_string(&name));
    return 0;
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
    OWNED int64_t *others = memory_alloc(sizeof *others * (size_t)maker->pool->count);
    int64_t count = 0;
    for (int64_t i = 0; i < maker->pool->count; i++)
        if (!is_same_line(&maker->pool->lines[i], &maker->documents.lines[maker->order[place]]))
            others[count++] = i;
    if (count < shots)
        return too_few(maker);
    python_random_sample(&maker->random, count, shots, maker->chosen);
    for (int64_t i = 0; i < shots; i++)
        maker->chosen[i] = others[maker->chosen[i]];
    maker->chosen_count = shots;
    return 0;
}
