// Facts about one run except curves, as JSON: configuration, starts, events, samples, ranks. All of it is read from the
// run's files on request.
#include "report/board/line_reader.h"
#include "report/board/internal.h"
#include "report/board/store.h"

#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Writes the members that a line has, in this order.
static void write_members(struct json_writer *w, const struct json *root, const char *const *keys) {
    json_begin_object(w);
    for (; *keys; keys++) {
        const struct json *value = json_member(root, *keys);
        if (!value)
            continue;
        json_key(w, *keys);
        json_value(w, value);
    }
    json_end_object(w);
}

static void write_marks(struct json_writer *w, const struct board_run *run, enum run_mark_kind kind,
                        const char *const *keys) {
    json_begin_array(w);
    for (int i = 0; i < run->marks[kind].count; i++) {
        OWNED struct json *root = run_read_mark(run, &run->marks[kind].items[i]);
        if (root)
            write_members(w, root, keys);
    }
    json_end_array(w);
}

// The value of the last start that has one.
static void write_config(struct json_writer *w, const struct board_run *run) {
    const struct run_marks *starts = &run->marks[RUN_MARK_START];
    json_key(w, "config");
    for (int i = starts->count; i-- > 0;) {
        OWNED struct json *root = run_read_mark(run, &starts->items[i]);
        const struct json *config = json_member(root, "config");
        bool is_object = config && config->type == JSON_OBJECT;
        if (is_object)
            json_value(w, config);
        if (is_object)
            return;
    }
    json_null(w);
}

// A number of an object, NaN if there is none.
static double number_or_nan(const struct json *object, const char *key) {
    const struct json *value = json_member(object, key);
    return value && value->type == JSON_NUMBER ? value->number : (double)NAN;
}

// One number of each rank, as an array.
static void write_rank_numbers(struct json_writer *w, const struct json *ranks, struct buffer *text,
                               double (*number)(const struct json *rank)) {
    json_begin_array(w);
    for (size_t i = 0; i < ranks->count; i++) {
        buffer_clear(text);
        number_append(text, number(&ranks->items[i]), 6);
        json_number(w, buffer_string(text));
    }
    json_end_array(w);
}

static double rank_of(const struct json *rank) {
    return number_or_nan(rank, "rank");
}

// All ranks take equally long for a step: the others wait for a slow one, whose own time is longer.
static double own_time_of(const struct json *rank) {
    double wait = number_or_nan(rank, "wait_ms");
    return number_or_nan(rank, "step_ms") - (isnan(wait) ? 0 : wait);
}

// One line about ranks, in short form: each rank's own time of a step.
static void write_rank_row(struct json_writer *w, const struct json *root, struct buffer *text) {
    const struct json *ranks = json_member(root, "ranks"), *iteration = json_member(root, "iteration");
    if (!ranks || ranks->type != JSON_ARRAY)
        return;
    json_begin_object(w);
    json_key(w, "iteration");
    if (iteration && iteration->type == JSON_NUMBER)
        json_value(w, iteration);
    else
        json_null(w);
    json_key(w, "ranks");
    write_rank_numbers(w, ranks, text, rank_of);
    json_key(w, "own_ms");
    write_rank_numbers(w, ranks, text, own_time_of);
    json_end_object(w);
}

static void write_ranks(struct json_writer *w, const struct board_run *run) {
    const struct run_marks *marks = &run->marks[RUN_MARK_RANKS];
    OWNED_BY(buffer_free) struct buffer text = {0};
    OWNED struct json *last = marks->count > 0 ? run_read_mark(run, &marks->items[marks->count - 1]) : NULL;
    json_key(w, "ranks");
    if (last)
        json_value(w, last);
    else
        json_null(w);
    // Lines of thousands of ranks are long: then the history is shorter.
    enum { MOST_BYTES = 4 << 20 };
    int first = marks->count;
    for (size_t bytes = 0; first > 0; first--) {
        bytes += marks->items[first - 1].bytes;
        if (bytes > MOST_BYTES)
            break;
    }
    json_key(w, "rank_history");
    json_begin_array(w);
    for (int i = first; i < marks->count; i++) {
        OWNED struct json *root = run_read_mark(run, &marks->items[i]);
        if (root)
            write_rank_row(w, root, &text);
    }
    json_end_array(w);
}

// A text of an event file.
struct event_text {
    char *tag;
    struct buffer text;
    int64_t step;
    double time;
    bool is_alone;  // no other text has its tag
};
struct event_texts {
    struct event_text *items;
    size_t count;
};

static void keep_text(void *owner, const struct event_value *value) {
    struct event_texts *texts = owner;
    if (value->kind != EVENT_TEXT || !value->tag)
        return;
    texts->items = memory_realloc(texts->items, (texts->count + 1) * sizeof texts->items[0]);
    struct event_text *text = &texts->items[texts->count++];
    *text = (struct event_text){.step = value->step, .time = value->time, .is_alone = true};
    // PyTorch's writer appends this to the user's name.
    static const char suffix[] = "/text_summary";
    size_t length = value->tag_bytes, own = sizeof suffix - 1;
    if (length > own && memcmp(value->tag + length - own, suffix, own) == 0)
        length -= own;
    text->tag = memory_printf("%.*s", (int)length, value->tag);
    buffer_append(&text->text, value->text, value->text_bytes);
}

static struct event_texts read_texts(const struct board_run *run) {
    struct event_texts texts = {0};
    const struct run_marks *marks = &run->marks[RUN_MARK_TEXT];
    for (int i = 0; i < marks->count; i++) {
        const struct run_mark *mark = &marks->items[i];
        OWNED_BY(buffer_free) struct buffer bytes = {0};
        uint64_t length = 0;
        if (run_read_bytes(run, mark->file, mark->begin, mark->bytes, &bytes) == 0) {
            const unsigned char *frame = (const unsigned char *)bytes.data;
            if (event_frame_check(frame, mark->bytes, &length) == EVENT_FRAME_WHOLE)
                (void)event_read(frame + EVENT_FRAME_HEAD, (size_t)length, keep_text, &texts);
        }
    }
    for (size_t i = 0; i < texts.count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(texts.items[i].tag, texts.items[k].tag) == 0)
                texts.items[i].is_alone = texts.items[k].is_alone = false;
    return texts;
}

// Texts written once are the configuration; texts written repeatedly are samples.
static void write_texts(struct json_writer *w, const struct board_run *run) {
    struct event_texts texts = read_texts(run);
    bool has_config = false;
    for (size_t i = 0; i < texts.count; i++)
        has_config = has_config || texts.items[i].is_alone;
    json_key(w, "config");
    if (has_config) {
        json_begin_object(w);
        for (size_t i = 0; i < texts.count; i++) {
            if (!texts.items[i].is_alone)
                continue;
            json_key(w, texts.items[i].tag);
            json_string(w, buffer_string(&texts.items[i].text), texts.items[i].text.length);
        }
        json_end_object(w);
    } else {
        json_null(w);
    }
    json_key(w, "samples");
    json_begin_array(w);
    for (size_t i = 0; i < texts.count; i++) {
        const struct event_text *text = &texts.items[i];
        if (text->is_alone)
            continue;
        json_begin_object(w);
        json_put_double(w, "time", text->time);
        json_put_int(w, "iteration", text->step);
        json_put_string(w, "prompt", text->tag);
        json_key(w, "text");
        json_string(w, buffer_string(&text->text), text->text.length);
        json_end_object(w);
    }
    json_end_array(w);
    for (size_t i = 0; i < texts.count; i++) {
        free(texts.items[i].tag);
        buffer_free(&texts.items[i].text);
    }
    free(texts.items);
}

static void write_files(struct json_writer *w, const struct board_run *run) {
    json_key(w, "files");
    json_begin_array(w);
    for (int i = 0; i < run->file_count; i++) {
        const char *slash = strrchr(run->files[i].path, '/');
        json_cstring(w, slash ? slash + 1 : run->files[i].path);
    }
    json_end_array(w);
    json_put_int(w, "bad_lines", run->bad_lines);
    json_put_string(w, "log", run->summary.job_log);
}

int board_store_run(struct board_store *store, const char *id, struct buffer *json) {
    static const char *const start_keys[] = {"time",  "iteration", "host",    "job",     "pid",
                                             "ranks", "version",   "program", "job_log", NULL};
    static const char *const event_keys[] = {"time", "iteration", "event", "text", "exit_code", NULL};
    static const char *const sample_keys[] = {"time", "iteration", "prompt", "text", NULL};
    struct board_run *run = store_find(store, id);
    if (!run)
        return -1;
    struct json_writer w = {.out = json};
    run_lock(run);
    json_begin_object(&w);
    json_put_string(&w, "id", run->id);
    if (run->is_events)
        write_texts(&w, run);
    else
        write_config(&w, run);
    json_key(&w, "starts");
    write_marks(&w, run, RUN_MARK_START, start_keys);
    json_key(&w, "events");
    write_marks(&w, run, RUN_MARK_EVENT, event_keys);
    if (!run->is_events) {
        json_key(&w, "samples");
        write_marks(&w, run, RUN_MARK_SAMPLE, sample_keys);
    }
    write_ranks(&w, run);
    write_files(&w, run);
    json_end_object(&w);
    run_unlock(run);
    return 0;
}
