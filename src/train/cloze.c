// Scoring the last words of texts. See evaluate.h.
#include "train/evaluate.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include "train/generate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_FILE = 1 << 30 };

// A text in two parts: the given context and the tokens to predict.
struct question {
    struct token_list given, asked;
};

static bool is_blank(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static int encode_strict(struct tokenizer_encoder *encoder, const char *text, size_t length,
                         struct question *question) {
    while (length > 0 && is_blank(text[length - 1]))
        length--;
    size_t word = length;
    while (word > 0 && !is_blank(text[word - 1]))
        word--;
    size_t end = word, begin = 0;
    while (end > 0 && is_blank(text[end - 1]))
        end--;
    while (begin < end && is_blank(text[begin]))
        begin++;
    TRY(tokenizer_encode(encoder, text + begin, end - begin, &question->given));
    char *last = memory_printf(" %.*s", (int)(length - word), text + word);
    int status = tokenizer_encode(encoder, last, strlen(last), &question->asked);
    free(last);
    return status;
}

static int encode_loosely(struct tokenizer_encoder *encoder, const char *text, size_t length,
                          struct question *question) {
    TRY(tokenizer_encode(encoder, text, length, &question->given));
    if (question->given.count > 0)
        token_list_append(&question->asked, question->given.ids[--question->given.count]);
    return 0;
}

// 1 or 0. If a text is too long for the model, its beginning is left out.
static int is_right(const struct cloze *cloze, const struct question *question, float *logits) {
    struct step *step = cloze->step;
    int64_t room = step_window(step) - question->asked.count + 1;
    int64_t count = question->given.count < room ? question->given.count : room;
    int64_t vocabulary = step_vocabulary(step);
    step_forget(step);
    step_logits(step, question->given.ids + question->given.count - count, count, logits);
    for (int64_t i = 0; i < question->asked.count; i++) {
        TRY(logits_check(logits, vocabulary));
        if (logits_likeliest(logits, vocabulary) != question->asked.ids[i])
            return 0;
        if (i + 1 < question->asked.count)
            step_logits(step, &question->asked.ids[i], 1, logits);
    }
    return 1;
}

struct examination {
    const struct cloze *cloze;
    struct tokenizer_encoder *encoder;
    struct question question;
    float *logits;  // (V)
    struct cloze_result *result;
};

static int examine(struct examination *e, const char *line, size_t length, int64_t number) {
    OWNED struct json *root = NULL;
    if (json_parse(&root, line, length, "the line") < 0)
        return error_context("%s:%" PRId64, e->cloze->path, number);
    const struct json *text = root->type == JSON_OBJECT ? json_member(root, e->cloze->key) : NULL;
    int status = text && text->type == JSON_STRING
                     ? 0
                     : bad_data("there is no text in the member \"%s\"; name the one that holds it with --json-keys",
                                e->cloze->key);
    e->question.given.count = e->question.asked.count = 0;
    if (status == 0)
        status = e->cloze->is_strict ? encode_strict(e->encoder, text->string, text->length, &e->question)
                                     : encode_loosely(e->encoder, text->string, text->length, &e->question);
    if (status == 0 && (e->question.given.count == 0 || e->question.asked.count == 0 ||
                        e->question.asked.count > step_window(e->cloze->step)))
        status = bad_data("the text has no word after another one to ask for");
    if (status < 0)
        return error_context("%s:%" PRId64, e->cloze->path, number);
    int right = is_right(e->cloze, &e->question, e->logits);
    if (right < 0)
        return error_context("%s:%" PRId64, e->cloze->path, number);
    e->result->texts++;
    e->result->right += right;
    e->result->cut += e->question.given.count + e->question.asked.count > step_window(e->cloze->step) + 1;
    return 0;
}

static int examine_all(struct examination *e, const struct buffer *file) {
    const char *at = buffer_string(file), *end = at + file->length;
    int64_t most = e->cloze->max_samples > 0 ? e->cloze->max_samples : INT64_MAX;
    struct progress progress;
    progress_begin(&progress, "evaluating", "bytes", (double)file->length);
    int status = 0;
    for (int64_t number = 1; at < end && status == 0 && e->result->texts < most; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
        size_t length = (size_t)(stop - at);
        if (strspn(at, " \t\r") < length)
            status = examine(e, at, length, number);
        at = newline ? newline + 1 : end;
        progress_update(&progress, (double)(at - buffer_string(file)), NULL);
    }
    progress_end(&progress, NULL);
    if (status == 0 && e->result->texts == 0)
        status = error_set_code(EXIT_CODE_BAD_DATA, "%s has no texts", e->cloze->path);
    return status;
}

int cloze_run(const struct cloze *cloze, struct cloze_result *result) {
    *result = (struct cloze_result){0};
    OWNED_BY(buffer_free) struct buffer file = {0};
    struct examination e = {.cloze = cloze, .result = result};
    int status = file_read_all(cloze->path, LARGEST_FILE, &file);
    if (status == 0)
        status = tokenizer_encoder_create(&e.encoder, cloze->tokenizer);
    if (status == 0) {
        e.logits = memory_alloc(sizeof(float) * (size_t)step_vocabulary(cloze->step));
        status = examine_all(&e, &file);
    }
    if (status == 0 && result->cut > 0)
        log_warn("%" PRId64 " of %" PRId64 " texts of %s are longer than the model's %" PRId64
                 " positions: their beginnings were left out",
                 result->cut, result->texts, cloze->path, step_window(cloze->step));
    result->accuracy = result->texts > 0 ? (double)result->right / (double)result->texts : 0;
    free(e.logits);
    token_list_free(&e.question.given);
    token_list_free(&e.question.asked);
    tokenizer_encoder_free(e.encoder);
    return status;
}
