// Adds records of TensorBoard event files to a run: each tag has a pyramid of its own, because tags are written at
// different steps. A step below the last one of its tag takes the curve back, as in TensorBoard itself.
#include "report/board/event_file.h"
#include "report/board/run.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EVENT_BYTES = 64 << 20 };

struct event_sink {
    struct board_run *run;
    uint32_t file;
    uint64_t begin, end;  // of the record
    const struct run_again *again;
    int tag;  // the tag that is read again
};

static bool is_plugin(const struct event_value *value, const char *name) {
    return value->plugin_bytes == strlen(name) && memcmp(value->plugin, name, value->plugin_bytes) == 0;
}

// Writers name the plugin of a tag at its first value at least. Without one, numbers are scalars.
static enum run_tag_kind kind_of(const struct event_value *value) {
    if (value->kind == EVENT_SCALAR && (value->plugin_bytes == 0 || is_plugin(value, "scalars")))
        return RUN_TAG_CURVE;
    return value->kind == EVENT_TEXT && is_plugin(value, "text") ? RUN_TAG_TEXT : RUN_TAG_OTHER;
}

// A tag of a file may have zeros inside.
static bool has_tag(const struct event_value *value, const char *name) {
    return value->tag && strlen(name) == value->tag_bytes && memcmp(name, value->tag, value->tag_bytes) == 0;
}

// Most writers repeat their tags in the same order, so the search begins after the last one.
static int find_tag(struct board_run *run, const struct event_value *value) {
    for (int i = 0; i < run->tag_count; i++) {
        int at = run->last_tag + 1 + i;
        at -= at >= run->tag_count ? run->tag_count : 0;
        if (has_tag(value, run->tags[at].name)) {
            run->last_tag = at;
            return at;
        }
    }
    return -1;
}

static int add_tag(struct board_run *run, const struct event_value *value) {
    if (run->tag_count == RUN_MOST_TAGS || value->tag_bytes == 0 || value->tag_bytes > RUN_MOST_TAG_BYTES ||
        memchr(value->tag, '\0', value->tag_bytes) || utf8_check(value->tag, value->tag_bytes) < value->tag_bytes)
        return -1;
    struct run_tag tag = {.kind = kind_of(value), .name = memory_alloc(value->tag_bytes + 1)};
    memcpy(tag.name, value->tag, value->tag_bytes);
    if (tag.kind == RUN_TAG_CURVE) {
        tag.group = run_add_group(run, NULL);
        tag.column = pyramid_add_column(&run->groups[tag.group].pyramid);
    }
    run->tags[run->tag_count] = tag;
    run->last_tag = run->tag_count;
    return run->tag_count++;
}

static bool is_step(int64_t step) {
    return step >= 0 && step < LINE_MOST_ITERATION;
}

static void note_value(struct board_run *run, const struct event_value *value) {
    struct run_summary *summary = &run->summary;
    if (!isfinite(value->time) || value->time <= 0)
        return;
    double distance = value->time - summary->updated;
    // Tags of one step are adjacent; the pauses between them are the time between steps.
    if (summary->updated > 0 && distance > 0.01)
        summary->distance = summary->distance > 0 ? 0.9 * summary->distance + 0.1 * distance : distance;
    if (summary->started == 0)
        summary->started = value->time;
    if (value->time > summary->updated)
        summary->updated = value->time;
}

static struct pyramid_place place_of(const struct event_sink *sink, const struct event_value *value) {
    return (struct pyramid_place){.step = value->step,
                                  .time = isfinite(value->time) ? value->time : 0,
                                  .begin = sink->begin,
                                  .end = sink->end,
                                  .file = sink->file};
}

static void use_value(void *owner, const struct event_value *value) {
    struct event_sink *sink = owner;
    struct board_run *run = sink->run;
    int tag = is_step(value->step) && value->tag ? find_tag(run, value) : -1;
    if (tag < 0 && is_step(value->step) && value->tag)
        tag = add_tag(run, value);
    if (tag < 0)
        return;
    note_value(run, value);
    if (run->tags[tag].kind == RUN_TAG_TEXT && value->kind == EVENT_TEXT) {
        struct run_mark mark = {.begin = sink->begin,
                                .bytes = (uint32_t)(sink->end - sink->begin),
                                .file = sink->file,
                                .step = value->step,
                                .time = value->time};
        run_add_mark(run, RUN_MARK_TEXT, &mark);
    }
    if (run->tags[tag].kind != RUN_TAG_CURVE || value->kind != EVENT_SCALAR)
        return;
    int group = run->tags[tag].group;
    struct pyramid *pyramid = &run->groups[group].pyramid;
    if (value->step < pyramid_last_step(pyramid))
        run_cut(run, group, value->step - 1);
    struct pyramid_place place = place_of(sink, value);
    pyramid_add(pyramid, &place);
    pyramid_value(pyramid, run->tags[tag].column, value->number);
}

size_t run_read_events(struct board_run *run, int file, const char *bytes, size_t size) {
    const unsigned char *at = (const unsigned char *)bytes;
    struct run_file *place = &run->files[file];
    size_t done = 0;
    for (;;) {
        uint64_t length = 0;
        enum event_frame frame = event_frame_check(at + done, size - done, &length);
        if (frame == EVENT_FRAME_LOST || (frame == EVENT_FRAME_PART && length > MOST_EVENT_BYTES)) {
            place->is_lost = true;
            run->bad_lines++;
            return done;
        }
        if (frame == EVENT_FRAME_PART)
            return done;
        struct event_sink sink = {.run = run, .file = (uint32_t)file, .begin = place->offset + done};
        sink.end = sink.begin + EVENT_FRAME_BYTES + length;
        if (frame == EVENT_FRAME_BAD || event_read(at + done + EVENT_FRAME_HEAD, (size_t)length, use_value, &sink) < 0)
            run->bad_lines++;
        run->line_count++;
        done += EVENT_FRAME_BYTES + (size_t)length;
    }
}

static void use_again(void *owner, const struct event_value *value) {
    struct event_sink *sink = owner;
    const struct run_again *again = sink->again;
    if (value->kind != EVENT_SCALAR || !has_tag(value, sink->run->tags[sink->tag].name))
        return;
    if (value->step < again->bin->first_step || value->step > again->last_step)
        return;
    struct pyramid_bin torn;
    if (value->step < pyramid_last_step(again->into))
        (void)pyramid_cut(again->into, value->step - 1, &torn);
    struct pyramid_place place = place_of(sink, value);
    pyramid_add(again->into, &place);
    pyramid_value(again->into, again->column_of[sink->tag], value->number);
}

void run_events_again(struct board_run *run, const struct run_again *again, const char *bytes, size_t size) {
    const unsigned char *at = (const unsigned char *)bytes;
    struct event_sink sink = {.run = run, .file = again->bin->last.file, .again = again, .tag = -1};
    for (int i = 0; i < run->tag_count; i++) {
        if (run->tags[i].kind == RUN_TAG_CURVE && run->tags[i].group == again->group && again->column_of[i] >= 0)
            sink.tag = i;
    }
    size_t done = 0;
    while (sink.tag >= 0 && done < size) {
        uint64_t length = 0;
        enum event_frame frame = event_frame_check(at + done, size - done, &length);
        if (frame == EVENT_FRAME_LOST || frame == EVENT_FRAME_PART)
            return;
        sink.begin = again->bin->last.begin + done;
        sink.end = sink.begin + EVENT_FRAME_BYTES + length;
        if (frame == EVENT_FRAME_WHOLE)
            (void)event_read(at + done + EVENT_FRAME_HEAD, (size_t)length, use_again, &sink);
        done += EVENT_FRAME_BYTES + (size_t)length;
    }
}
