// From prompts to tokens: cuts texts into context and continuation, as lm-evaluation-harness and, for the tasks of
// CORE, nanochat do. See internal.h, and docs/evaluate.md for the rules.
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "evaluate/detokenize.h"
#include "evaluate/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// Seeds of the two programs.
enum { HARNESS_SEED = 1234, CORE_ORDER_SEED = 1337 };

// ---- tokens ----

static void drop_first(struct token_list *ids, int64_t count) {
    ids->count -= count;
    if (ids->count > 0)
        memmove(ids->ids, ids->ids + count, sizeof *ids->ids * (size_t)ids->count);
}

// `bare`: without the ids that the tokenizer puts before a text.
static int encode(struct task_maker *maker, const char *text, size_t length, bool bare, struct token_list *ids) {
    ids->count = 0;
    TRY(tokenizer_encode(maker->encoder, text, length, ids));
    drop_first(ids, bare && ids->count >= maker->specials ? maker->specials : 0);
    return 0;
}

// The last `most` of the tokens a, b; the last `counting` of them count.
static int add_request(struct task_maker *maker, const struct token_list *a, const struct token_list *b,
                       int64_t counting, int64_t most, int64_t answer) {
    struct task_prepared *prepared = maker->prepared;
    int64_t count = a->count + b->count, skipped = count > most ? count - most : 0;
    // The first token has nothing before it.
    int64_t first = count - skipped - counting;
    first = first < 1 ? 1 : first;
    if (counting >= most && !maker->task->is_core)
        return bad_data("a continuation has %" PRId64 " tokens, but the model sees %" PRId64, counting, most - 1);
    prepared->cut += skipped > 0;
    MEMORY_GROW(prepared->requests, prepared->request_count, prepared->request_capacity);
    prepared->requests[prepared->request_count++] =
        (struct task_request){prepared->ids.count, (int32_t)(count - skipped), (int32_t)first, answer};
    for (int64_t i = skipped; i < count; i++)
        token_list_append(&prepared->ids, i < a->count ? a->ids[i] : b->ids[i - a->count]);
    return 0;
}

static int64_t count_characters(const char *text, size_t length) {
    int64_t count = 0;
    for (size_t at = 0; at < length; count++) {
        uint32_t character;
        at += utf8_decode((const unsigned char *)text + at, length - at, &character, NULL);
    }
    return count;
}

// `choice` is the text whose length acc_norm divides by.
static int64_t add_answer(struct task_prepared *prepared, const struct buffer *choice) {
    MEMORY_GROW(prepared->answers, prepared->answer_count, prepared->answer_capacity);
    prepared->answers[prepared->answer_count] = (struct task_answer){
        .characters = count_characters(buffer_string(choice), choice->length), .bytes = (int64_t)choice->length};
    return prepared->answer_count++;
}

// The harness encodes context and continuation together and cuts by the number of the context's tokens. White space at
// the end of the context belongs to the continuation. Where a token spans the cut and nothing is left of the
// continuation, it stops; here the continuation is then encoded alone.
static int add_pair(struct task_maker *maker, const struct buffer *context, const struct buffer *continuation,
                    int64_t answer) {
    struct token_list *before = &maker->ids[0], *whole = &maker->ids[1];
    const char *text = buffer_string(context);
    size_t length = (size_t)(text_trim_end(text, text + context->length) - text);
    OWNED_BY(buffer_free) struct buffer all = {0};
    prompt_append(&all, context);
    prompt_append(&all, continuation);
    before->count = 0;
    if (context->length > 0)
        TRY(encode(maker, text, length, false, before));
    TRY(encode(maker, buffer_string(&all), all.length, context->length == 0, whole));
    // A continuation without context that begins with the prefix gives it away as its context.
    bool has_prefix = context->length == 0 && whole->count > 0 && whole->ids[0] == maker->prefix;
    if (whole->count > before->count)
        drop_first(whole, before->count + has_prefix);
    else
        TRY(encode(maker, buffer_string(&all) + length, all.length - length, true, whole));
    if (before->count == 0)
        token_list_append(before, maker->prefix);
    if (whole->count == 0)
        return bad_data("a continuation has no tokens");
    return add_request(maker, before, whole, whole->count, maker->options->window + 1, answer);
}

// Windows of the text: the first begins with the prefix, each later one sees as much as fits, and scores what is new.
static int add_rolling(struct task_maker *maker, const struct buffer *text, int64_t answer) {
    struct token_list *all = &maker->ids[1], *prefix = &maker->ids[0];
    int64_t window = maker->options->window;
    TRY(encode(maker, buffer_string(text), text->length, false, all));
    prefix->count = 0;
    token_list_append(prefix, maker->prefix);
    for (int64_t done = 0; done < all->count;) {
        int64_t end = all->count - done < window ? all->count : done + window;
        // Tokens end - window - 1 … end - 1, of which those from `done` on count.
        int64_t first = done == 0 ? 0 : end - window - 1 > 0 ? end - window - 1 : 0;
        struct token_list some = {.ids = all->ids + first, .count = end - first}, none = {0};
        TRY(add_request(maker, done == 0 ? prefix : &none, &some, end - done, window + 1, answer));
        done = end;
    }
    return 0;
}

// nanochat: all prompts are encoded whole, after the prefix.
static int encode_core(struct task_maker *maker, const struct buffer *text, struct token_list *ids) {
    struct token_list *own = &maker->ids[0];
    TRY(encode(maker, buffer_string(text), text->length, true, own));
    ids->count = 0;
    token_list_append(ids, maker->prefix);
    for (int64_t i = 0; i < own->count; i++)
        token_list_append(ids, own->ids[i]);
    return 0;
}

// How many tokens all lists have in common, from their beginning or from their end.
static int64_t common(const struct token_list *lists, int count, bool from_end) {
    int64_t length = 0;
    for (;; length++)
        for (int i = 0; i < count; i++) {
            const struct token_list *one = &lists[i], *zero = &lists[0];
            if (length == one->count || one->ids[from_end ? one->count - 1 - length : length] !=
                                            zero->ids[from_end ? zero->count - 1 - length : length])
                return length;
        }
}

// `texts` are all prompts of a document; an ending has two, without and with the continuation. What the choices have in
// common at their beginning does not count, of contexts only what they have in common at their end does.
static int add_core(struct task_maker *maker, const struct buffer *texts, int count, int64_t first_answer) {
    bool is_ending = maker->task->kind == TASK_ENDING, has_contexts = maker->task->kind == TASK_CONTEXTS;
    struct token_list lists[TASK_MOST_CHOICES] = {0}, none = {0};
    int status = 0;
    for (int i = 0; i < count && status == 0; i++)
        status = encode_core(maker, &texts[i], &lists[i]);
    int64_t shared = status == 0 ? common(lists, count, has_contexts) : 0;
    for (int i = is_ending; i < count && status == 0; i++) {
        int64_t counting = has_contexts ? shared : lists[i].count - shared;
        if (lists[i].count < 2 || (is_ending && counting == 0))
            status = bad_data("a continuation has no tokens");
        else
            status =
                add_request(maker, &none, &lists[i], counting, maker->options->window, first_answer + i - is_ending);
    }
    for (int i = 0; i < count; i++)
        token_list_free(&lists[i]);
    return status;
}

// ---- documents ----

static int64_t count_words(const char *text, size_t length) {
    int64_t words = 1;
    for (const char *at = text, *end = text + length; at < end;) {
        const char *next = text_skip_spaces(at, end);
        uint32_t character;
        words += next > at;
        at = next < end ? next + utf8_decode((const unsigned char *)next, (size_t)(end - next), &character, NULL) : end;
    }
    return words;
}

static int add_rolling_document(struct task_maker *maker, const struct json *root, struct task_document *document) {
    OWNED_BY(buffer_free) struct buffer text = {0}, counted = {0};
    const char *other = maker->task->counted ? maker->task->counted : maker->task->context;
    TRY(prompt_render(maker, maker->task->context, root, 0, &text));
    TRY(template_render(other, root, 0, &counted));
    document->words = (double)count_words(buffer_string(&counted), counted.length);
    document->bytes = (double)counted.length;
    document->answers = 1;
    return add_rolling(maker, &text, add_answer(maker->prepared, &counted));
}

// `before` is what stands before the question: description and examples.
static int add_choices(struct task_maker *maker, const struct json *root, const struct buffer *before,
                       struct task_document *document) {
    const struct task_record *task = maker->task;
    bool is_ending = task->kind == TASK_ENDING;
    OWNED_BY(prompt_free) struct prompt prompt = {0};
    OWNED_BY(prompt_texts_free) struct prompt_texts wholes = {0};
    TRY(prompt_make(maker, root, &prompt));
    document->answers = prompt.answers;
    document->gold = prompt.gold;
    if (task->is_core && is_ending) {
        struct buffer *first = &wholes.items[wholes.count++];
        prompt_append(first, before);
        prompt_append(first, &prompt.context);
        buffer_append_string(first, prompt_delimiter(task));
        TRY(template_filter("strip", first));
    }
    for (int32_t i = 0; i < prompt.answers; i++) {
        OWNED_BY(buffer_free) struct buffer left = {0}, right = {0};
        int64_t answer = add_answer(maker->prepared, is_ending ? &prompt.continuation : &prompt.texts.items[i]);
        prompt_append(&left, before);
        prompt_append(&left, prompt.left[i]);
        // An ending of the harness brings its own space.
        buffer_append_string(&right, is_ending && !task->is_core ? "" : prompt_delimiter(task));
        prompt_append(&right, prompt.right[i]);
        if (task->is_core) {
            prompt_append(&wholes.items[wholes.count], &left);
            prompt_append(&wholes.items[wholes.count++], &right);
        } else
            TRY(add_pair(maker, &left, &right, answer));
    }
    return task->is_core ? add_core(maker, wholes.items, wholes.count, document->first_answer) : 0;
}

static int add_document(struct task_maker *maker, int64_t place, int64_t *of_group) {
    struct task_prepared *prepared = maker->prepared;
    const struct json *root = maker->documents.roots[maker->order[place]];
    struct task_document document = {.first_answer = prepared->answer_count,
                                     .line = maker->documents.lines[maker->order[place]].number};
    OWNED_BY(buffer_free) struct buffer before = {0};
    if (maker->task->group)
        TRY(prompt_find_group(maker, root, &document.group));
    if (maker->options->limit > 0 && of_group[document.group]++ >= maker->options->limit)
        return 0;
    TRY(prompt_choose_examples(maker, place, document.group));
    if (maker->task->description)
        TRY(template_render(maker->task->description, root, 0, &before));
    TRY(prompt_append_examples(maker, &before));
    TRY(maker->task->kind == TASK_ROLLING ? add_rolling_document(maker, root, &document)
                                          : add_choices(maker, root, &before, &document));
    MEMORY_GROW(prepared->documents, prepared->document_count, prepared->document_capacity);
    prepared->documents[prepared->document_count++] = document;
    return 0;
}

// ---- a task ----

char *prepared_path(const struct task_record *task, const char *folder, const char *split) {
    const char *data = task->data ? task->data : task->name;
    return split ? memory_printf("%s/%s/%s.jsonl", folder, data, split) : memory_printf("%s/%s.jsonl", folder, data);
}

void prepared_choose_shots(struct task_prepared *prepared, const struct tasks_options *options) {
    bool is_own = options->shots < 0 || prepared->task->has_fixed_shots;
    prepared->shots = is_own ? prepared->task->shots : options->shots;
}

bool prepared_has_apart(const struct task_prepared *prepared) {
    const struct task_record *task = prepared->task;
    return prepared->shots > 0 && task->shots_split && (!task->split || strcmp(task->split, task->shots_split) != 0);
}

static int read_split(const struct task_maker *maker, const char *split, struct documents *documents) {
    OWNED char *path = prepared_path(maker->task, maker->options->folder, split);
    return documents_read(documents, path);
}

static int read_documents(struct task_maker *maker) {
    const struct task_record *task = maker->task;
    TRY(read_split(maker, task->split, &maker->documents));
    maker->pool = &maker->documents;
    if (prepared_has_apart(maker->prepared)) {
        maker->pool = &maker->apart;
        TRY(read_split(maker, task->shots_split, &maker->apart));
    }
    maker->count = maker->documents.count;
    maker->order = memory_alloc(sizeof *maker->order * (size_t)maker->count);
    for (int64_t i = 0; i < maker->count; i++)
        maker->order[i] = i;
    // nanochat's tasks are shuffled first, then cut.
    if (task->is_core) {
        python_random_seed(&maker->random, CORE_ORDER_SEED);
        python_random_shuffle(&maker->random, maker->order, maker->count);
        if (maker->options->limit > 0 && maker->options->limit < maker->count)
            maker->count = maker->options->limit;
    }
    python_random_seed(&maker->random, HARNESS_SEED);
    maker->examples = memory_alloc(sizeof *maker->examples * (size_t)maker->pool->count);
    maker->chosen = memory_alloc(sizeof *maker->chosen * (size_t)(maker->prepared->shots + 1));
    return 0;
}

// The prefix is what the tokenizer puts before every text, else the end of a document.
static int find_prefix(struct task_maker *maker) {
    TRY(tokenizer_encoder_create(&maker->encoder, maker->options->tokenizer));
    TRY(tokenizer_encode(maker->encoder, "", 0, &maker->ids[0]));
    maker->specials = maker->ids[0].count;
    maker->prefix = maker->specials > 0 ? maker->ids[0].ids[0] : tokenizer_eod(maker->options->tokenizer);
    return maker->prefix >= 0 ? 0
                              : error_set_code(EXIT_CODE_USAGE,
                                               "a text without context is scored after the end-of-document token, and "
                                               "this tokenizer has none; name it with --eod-token");
}

static int make(struct task_maker *maker) {
    TRY(find_prefix(maker));
    TRY(read_documents(maker));
    OWNED int64_t *of_group = memory_alloc(sizeof *of_group * (TASK_MOST_GROUPS + 1));
    for (int64_t place = 0; place < maker->count; place++) {
        if (maker->options->limit > 0 && !maker->task->group && place >= maker->options->limit)
            break;
        if (add_document(maker, place, of_group) < 0)
            return documents_context(&maker->documents, maker->order[place]);
    }
    return 0;
}

int prepared_make(struct task_prepared *prepared, const struct tasks_options *options) {
    const struct task_record *task = prepared->task;
    struct task_maker maker = {.prepared = prepared, .task = task, .options = options};
    prepared_choose_shots(prepared, options);
    int status = make(&maker);
    for (int64_t i = 0; maker.examples && i < maker.pool->count; i++)
        buffer_free(&maker.examples[i]);
    free(maker.examples);
    free(maker.pool_groups);
    free(maker.chosen);
    free(maker.order);
    token_list_free(&maker.ids[0]);
    token_list_free(&maker.ids[1]);
    tokenizer_encoder_free(maker.encoder);
    documents_free(&maker.documents);
    documents_free(&maker.apart);
    if (status == 0 && prepared->cut > 0)
        log_info("%s: %" PRId64 " of %" PRId64 " prompts are longer than the model's %" PRId64
                 " positions: their beginnings are left out",
                 task->name, prepared->cut, prepared->request_count, options->window);
    return status < 0 ? error_context("task %s", task->name) : 0;
}

void prepared_free(struct task_prepared *prepared) {
    token_list_free(&prepared->ids);
    for (int64_t i = 0; i < prepared->group_count; i++)
        free(prepared->groups[i]);
    free(prepared->groups);
    free(prepared->requests);
    free(prepared->answers);
    free(prepared->documents);
}
