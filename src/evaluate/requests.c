// From prompts to tokens: cuts texts into context and continuation, as lm-evaluation-harness and, for the tasks of
// CORE, nanochat do. See internal.h, and docs/evaluate.md for the rules.
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "data/bad_data.h"
#include "evaluate/detokenize.h"
#include "evaluate/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// Seeds of the two programs.
enum { HARNESS_SEED = 1234, CORE_ORDER_SEED = 1337 };

// ---- tokens ----

// `bare`: without the ids that the tokenizer puts before a text.
static int encode(struct task_maker *maker, const char *text, size_t length, bool bare, struct token_list *ids) {
    ids->count = 0;
    TRY(tokenizer_encode(maker->encoder, text, length, ids));
    int64_t drop = bare && ids->count >= maker->specials ? maker->specials : 0;
    ids->count -= drop;
    if (ids->count > 0)
        memmove(ids->ids, ids->ids + drop, sizeof *ids->ids * (size_t)ids->count);
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
    if (prepared->request_count == prepared->request_capacity) {
        prepared->request_capacity = 2 * prepared->request_capacity + 1024;
        prepared->requests =
            memory_realloc(prepared->requests, sizeof *prepared->requests * (size_t)prepared->request_capacity);
    }
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
    if (prepared->answer_count == prepared->answer_capacity) {
        prepared->answer_capacity = 2 * prepared->answer_capacity + 1024;
        prepared->answers =
            memory_realloc(prepared->answers, sizeof *prepared->answers * (size_t)prepared->answer_capacity);
    }
    prepared->answers[prepared->answer_count] =
        (struct task_answer){.characters = choice ? count_characters(buffer_string(choice), choice->length) : 0,
                             .bytes = choice ? (int64_t)choice->length : 0};
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
    struct buffer all = {0};
    buffer_append(&all, text, context->length);
    buffer_append(&all, buffer_string(continuation), continuation->length);
    int status;
    if (context->length == 0) {
        before->count = 0;
        status = encode(maker, buffer_string(&all), all.length, true, whole);
        // A continuation that begins with the prefix gives it away as its context.
        if (status == 0 && (whole->count == 0 || whole->ids[0] != maker->prefix))
            token_list_append(before, maker->prefix);
        else if (status == 0) {
            token_list_append(before, maker->prefix);
            memmove(whole->ids, whole->ids + 1, sizeof *whole->ids * (size_t)--whole->count);
        }
    } else {
        status = encode(maker, text, length, false, before);
        if (status == 0)
            status = encode(maker, buffer_string(&all), all.length, false, whole);
        if (status == 0 && whole->count <= before->count)
            status = encode(maker, buffer_string(&all) + length, all.length - length, true, whole);
        else if (status == 0) {
            whole->count -= before->count;
            memmove(whole->ids, whole->ids + before->count, sizeof *whole->ids * (size_t)whole->count);
        }
        // Only white space without a token of its own.
        if (status == 0 && before->count == 0)
            token_list_append(before, maker->prefix);
    }
    buffer_free(&all);
    if (status == 0 && whole->count == 0)
        status = bad_data("a continuation has no tokens");
    return status < 0 ? -1 : add_request(maker, before, whole, whole->count, maker->options->window + 1, answer);
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
    enum task_kind kind = maker->task->kind;
    struct token_list *lists = memory_alloc(sizeof *lists * (size_t)count), none = {0};
    int status = 0;
    for (int i = 0; i < count && status == 0; i++)
        status = encode_core(maker, &texts[i], &lists[i]);
    int64_t shared = status == 0 ? common(lists, count, kind == TASK_CONTEXTS) : 0;
    for (int i = kind == TASK_ENDING; i < count && status == 0; i++) {
        int64_t counting = kind == TASK_CONTEXTS ? shared : lists[i].count - shared;
        if (lists[i].count < 2 || (kind == TASK_ENDING && counting == 0))
            status = bad_data("a continuation has no tokens");
        else
            status = add_request(maker, &none, &lists[i], counting, maker->options->window,
                                 first_answer + i - (kind == TASK_ENDING));
    }
    for (int i = 0; i < count; i++)
        token_list_free(&lists[i]);
    free(lists);
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
    struct buffer text = {0}, counted = {0};
    const char *other = maker->task->counted ? maker->task->counted : maker->task->context;
    int status = prompt_render(maker, maker->task->context, root, 0, &text);
    if (status == 0)
        status = template_render(other, root, 0, &counted);
    document->words = (double)count_words(buffer_string(&counted), counted.length);
    document->bytes = (double)counted.length;
    document->answers = 1;
    if (status == 0)
        status = add_rolling(maker, &text, add_answer(maker->prepared, NULL));
    buffer_free(&text);
    buffer_free(&counted);
    return status;
}

// The whole prompt of one choice, for CORE.
static void join(struct buffer *out, const struct buffer *a, const char *delimiter, const struct buffer *b) {
    buffer_append(out, buffer_string(a), a->length);
    buffer_append_string(out, delimiter);
    buffer_append(out, buffer_string(b), b->length);
}

static int strip(struct buffer *text) {
    return template_filter("strip", text);
}

// `before` is what stands before the question: description and examples.
static int add_choices(struct task_maker *maker, const struct json *root, const struct buffer *before,
                       struct task_document *document) {
    const struct task_record *task = maker->task;
    struct buffer *texts = maker->texts, continuation = {0}, context = {0}, *prompts = NULL;
    const char *delimiter = prompt_delimiter(task);
    int status = 0;
    if (task->kind != TASK_ENDING) {
        status = prompt_render_list(maker, task->choices, root, texts, &document->answers);
        if (status == 0)
            status = prompt_find_gold(maker, root, document->answers, &document->gold);
    } else
        document->answers = 1;
    buffer_append(&context, buffer_string(before), before->length);
    if (status == 0 && task->kind != TASK_CONTEXTS)
        status = prompt_render(maker, task->context, root, 0, &context);
    if (status == 0 && task->kind != TASK_CHOICES)
        status = prompt_render(maker, task->continuation, root, 0, &continuation);
    int count = task->is_core ? document->answers + (task->kind == TASK_ENDING) : 0;
    if (status == 0 && count > 0)
        prompts = memory_alloc(sizeof *prompts * (size_t)count);
    for (int32_t i = 0; i < document->answers && status == 0; i++) {
        bool is_context = task->kind == TASK_CONTEXTS;
        const struct buffer *choice = task->kind == TASK_ENDING ? &continuation : &texts[i];
        struct buffer whole = {0}, scored = {0};
        int64_t answer = add_answer(maker->prepared, choice);
        if (is_context)
            join(&whole, before, "", &texts[i]);
        const struct buffer *left = is_context ? &whole : &context, *right = is_context ? &continuation : choice;
        if (task->is_core)
            join(&prompts[count - document->answers + i], left, delimiter, right);
        else {
            // An ending brings its own space.
            join(&scored, &(struct buffer){0}, task->kind == TASK_ENDING ? "" : delimiter, right);
            status = add_pair(maker, left, &scored, answer);
        }
        buffer_free(&whole);
        buffer_free(&scored);
    }
    if (status == 0 && task->is_core && task->kind == TASK_ENDING) {
        join(&prompts[0], &context, delimiter, &(struct buffer){0});
        status = strip(&prompts[0]);
    }
    if (status == 0 && task->is_core)
        status = add_core(maker, prompts, count, document->first_answer);
    for (int i = 0; i < count && prompts; i++)
        buffer_free(&prompts[i]);
    free(prompts);
    buffer_free(&context);
    buffer_free(&continuation);
    return status;
}

static int add_document(struct task_maker *maker, int64_t place, int64_t *of_group) {
    struct task_prepared *prepared = maker->prepared;
    const struct json *root = maker->documents.roots[maker->order[place]];
    struct task_document document = {.first_answer = prepared->answer_count,
                                     .line = maker->documents.lines[maker->order[place]].number};
    struct buffer before = {0};
    if (maker->task->group)
        TRY(prompt_find_group(maker, root, &document.group));
    if (maker->options->limit > 0 && of_group[document.group]++ >= maker->options->limit)
        return 0;
    int status = prompt_choose_examples(maker, place, document.group);
    if (status == 0 && maker->task->description)
        status = template_render(maker->task->description, root, 0, &before);
    if (status == 0)
        status = prompt_append_examples(maker, &before);
    if (status == 0)
        status = maker->task->kind == TASK_ROLLING ? add_rolling_document(maker, root, &document)
                                                   : add_choices(maker, root, &before, &document);
    buffer_free(&before);
    if (prepared->document_count == prepared->document_capacity) {
        prepared->document_capacity = 2 * prepared->document_capacity + 256;
        prepared->documents =
            memory_realloc(prepared->documents, sizeof *prepared->documents * (size_t)prepared->document_capacity);
    }
    prepared->documents[prepared->document_count++] = document;
    return status;
}

// ---- a task ----

char *prepared_path(const struct task_record *task, const char *folder, const char *split) {
    const char *data = task->data ? task->data : task->name;
    return split ? memory_printf("%s/%s/%s.jsonl", folder, data, split) : memory_printf("%s/%s.jsonl", folder, data);
}

static int read_documents(struct task_maker *maker) {
    const struct task_record *task = maker->task;
    char *path = prepared_path(task, maker->options->folder, task->split);
    int status = documents_read(&maker->documents, path);
    free(path);
    maker->pool = &maker->documents;
    bool is_apart = task->shots_split && (!task->split || strcmp(task->split, task->shots_split) != 0);
    if (status == 0 && maker->prepared->shots > 0 && is_apart) {
        path = prepared_path(task, maker->options->folder, task->shots_split);
        status = documents_read(&maker->apart, path);
        free(path);
        maker->pool = &maker->apart;
    }
    TRY(status);
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
    maker->texts = memory_alloc(sizeof *maker->texts * TASK_MOST_CHOICES);
    int64_t *of_group = memory_alloc(sizeof *of_group * (TASK_MOST_GROUPS + 1));
    int status = 0;
    for (int64_t place = 0; place < maker->count && status == 0; place++) {
        if (maker->options->limit > 0 && !maker->task->group && place >= maker->options->limit)
            break;
        status = add_document(maker, place, of_group);
        if (status < 0)
            (void)documents_context(&maker->documents, maker->order[place]);
    }
    free(of_group);
    return status;
}

int prepared_make(struct task_prepared *prepared, const struct tasks_options *options) {
    const struct task_record *task = prepared->task;
    prepared->shots = options->shots < 0 || task->has_fixed_shots ? task->shots : options->shots;
    struct task_maker maker = {.prepared = prepared, .task = task, .options = options};
    int status = make(&maker);
    for (int64_t i = 0; maker.examples && i < maker.pool->count; i++)
        buffer_free(&maker.examples[i]);
    free(maker.examples);
    free(maker.pool_groups);
    free(maker.chosen);
    free(maker.order);
    if (maker.texts)
        prompt_free_texts(maker.texts);
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
