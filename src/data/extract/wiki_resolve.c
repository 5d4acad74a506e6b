// The stack machine. Text is copied to the output; "{{" and "[[" push a frame that remembers where its content begins
// there, '|' and '=' mark its parts, and the matching close replaces the content in the output by its result. As in
// MediaWiki, a run of braces is one frame and is closed by twos (templates) and threes (parameters).
//
// Unbalanced markup: a "}}" closes the nearest open template and any open links inside it; a template that is never
// closed loses its first line and the "|" lines after it, and the rest of the page is kept.
#include "data/extract/wiki_template.h"
#include "data/extract/wiki_text.h"
#include "base/memory.h"
#include <stdlib.h>

// The last two keep a hostile page from exhausting memory; no sensible page comes near them.
enum { NOWHERE = -1, LONGEST_PREFIX = 64, MOST_FRAMES = 1 << 16, MOST_PARTS = 1 << 20 };

struct resolve_frame {
    int64_t braces;      // number of open braces; 0 for a link
    size_t start;        // of its content in the output
    int64_t first_part;  // index into parts
};

struct resolve_part {
    size_t start;    // in the output
    int64_t equals;  // where its first '=' is, or NOWHERE
};

struct resolver {
    struct wiki_context *context;
    struct buffer *out;
    const char *at, *end;
    struct resolve_frame *frames;
    int64_t frame_count, frame_capacity, brace_frames;
    struct resolve_part *parts;
    int64_t part_count, part_capacity;
    struct wiki_argument *arguments;  // (WIKI_MOST_ARGUMENTS) of the call being evaluated
    struct buffer result;
};

// ---- links ----

// The text that [[target|label]] leaves. Pictures, categories and links to the same page in other languages leave
// nothing; everything else leaves its label, or the text that MediaWiki would show.

// "fr", "zh-yue", "simple": the prefix of another language's Wikipedia, by its form. Longer ones are sister projects.
static bool is_language(struct wiki_slice prefix) {
    static const char *const projects[] = {"doi", "mw", "wmf", "rfc", "hdl"};
    if (wiki_equal(prefix, "simple"))
        return true;
    bool has_dash = false;
    for (size_t i = 0; i < prefix.length; i++) {
        has_dash = has_dash || (prefix.data[i] == '-' && i >= 2);
        if (!(prefix.data[i] >= 'a' && prefix.data[i] <= 'z') && !has_dash)
            return false;
    }
    for (size_t i = 0; i < sizeof projects / sizeof projects[0]; i++)
        if (wiki_equal(prefix, projects[i]))
            return false;
    return prefix.length >= 2 && (prefix.length <= 3 || (has_dash && prefix.length <= 12));
}

static bool is_project(struct wiki_slice prefix) {
    static const char *const known[] = {"w", "wikt", "wiktionary", "s",          "b",         "q",
                                        "n", "v",    "voy",        "species",    "commons",   "m",
                                        "d", "mw",   "wikipedia",  "wikisource", "wikiquote", "wikibooks"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (wiki_equal_case(prefix, known[i]))
            return true;
    return false;
}

static bool split_prefix(struct wiki_slice target, struct wiki_slice *prefix, struct wiki_slice *rest) {
    const char *colon = memchr(target.data, ':', target.length);
    if (!colon)
        return false;
    *prefix = wiki_trim((struct wiki_slice){target.data, (size_t)(colon - target.data)});
    *rest = wiki_trim((struct wiki_slice){colon + 1, target.length - (size_t)(colon + 1 - target.data)});
    return true;
}

// [[Help:Boat (ship)|]] shows "Boat", [[Oslo, Norway|]] shows "Oslo".
static struct wiki_slice pipe_trick(struct wiki_slice target) {
    struct wiki_slice prefix, rest;
    if (split_prefix(target, &prefix, &rest))
        target = rest;
    const char *cut = target.length && target.data[target.length - 1] == ')'
                          ? memchr(target.data, '(', target.length)
                          : memmem(target.data, target.length, ", ", 2);
    if (cut && cut > target.data)
        target.length = (size_t)(cut - target.data);
    return wiki_trim(target);
}

// True if the link is there for its effect, not for its text.
static bool leaves_nothing(const struct wiki_context *context, struct wiki_slice target, bool has_label) {
    struct wiki_slice prefix, rest;
    int64_t key;
    if (!split_prefix(target, &prefix, &rest))
        return false;
    if (wiki_site_namespace(context->site, prefix, &key))
        return key == WIKI_NAMESPACE_FILE || key == WIKI_NAMESPACE_CATEGORY;
    return is_language(prefix) && !has_label;
}

static struct wiki_slice shown_target(struct wiki_slice target) {
    struct wiki_slice prefix, rest;
    if (target.length && target.data[0] == '#')
        return (struct wiki_slice){target.data + 1, target.length - 1};
    if (split_prefix(target, &prefix, &rest) && is_project(prefix) && rest.length)
        return rest;
    return target;
}

static void put_link(const struct wiki_context *context, struct buffer *out, struct wiki_slice content) {
    const char *bar = memchr(content.data, '|', content.length);
    struct wiki_slice target = content, label = {NULL, 0};
    if (bar) {
        target.length = (size_t)(bar - content.data);
        label = (struct wiki_slice){bar + 1, content.length - target.length - 1};
    }
    target = wiki_trim(target);
    bool is_shown_anyway = target.length && target.data[0] == ':';
    if (is_shown_anyway)
        target = wiki_trim((struct wiki_slice){target.data + 1, target.length - 1});
    if (!is_shown_anyway && leaves_nothing(context, target, bar != NULL)) {
        buffer_append_byte(out, WIKI_DROP);
        return;
    }
    // A label that contains '|' belongs to a picture in a namespace we do not know: the last part is its caption.
    const char *last = label.length ? memrchr(label.data, '|', label.length) : NULL;
    if (last)
        label = (struct wiki_slice){last + 1, label.length - (size_t)(last + 1 - label.data)};
    if (wiki_trim(label).length)
        wiki_append(out, label);
    else
        wiki_append(out, bar ? pipe_trick(target) : shown_target(target));
}

// ---- the stack ----

static struct resolve_frame *top(struct resolver *m) {
    return m->frame_count ? &m->frames[m->frame_count - 1] : NULL;
}

static void push_part(struct resolver *m) {
    MEMORY_GROW(m->parts, m->part_count, m->part_capacity);
    m->parts[m->part_count++] = (struct resolve_part){m->out->length, NOWHERE};
}

static void push_frame(struct resolver *m, int64_t braces) {
    if (m->frame_count == MOST_FRAMES)
        return;
    MEMORY_GROW(m->frames, m->frame_count, m->frame_capacity);
    m->frames[m->frame_count++] = (struct resolve_frame){braces, m->out->length, m->part_count};
    m->brace_frames += braces > 0;
    push_part(m);
}

static void pop_frame(struct resolver *m) {
    m->brace_frames -= top(m)->braces > 0;
    m->part_count = top(m)->first_part;
    m->frame_count--;
}

// How many times the byte repeats here, up to a limit; bytes that are not consumed are counted again.
static size_t run_length(const struct resolver *m, char byte, size_t limit) {
    size_t count = 0;
    while (count < limit && m->at + count < m->end && m->at[count] == byte)
        count++;
    return count;
}

static void put(struct resolver *m, char byte) {
    buffer_append_byte(m->out, byte);
    m->at++;
}

// ---- closing ----

// Part `index` of the top frame: the bytes from its start to the '|' before the next one.
static struct wiki_slice part_text(struct resolver *m, int64_t index) {
    int64_t number = top(m)->first_part + index;
    size_t end = number + 1 < m->part_count ? m->parts[number + 1].start - 1 : m->out->length;
    return (struct wiki_slice){m->out->data + m->parts[number].start, end - m->parts[number].start};
}

static struct wiki_call call_of_top(struct resolver *m) {
    if (!m->arguments)
        m->arguments = memory_alloc(WIKI_MOST_ARGUMENTS * sizeof *m->arguments);
    int64_t count = m->part_count - top(m)->first_part - 1, position = 0;
    if (count > WIKI_MOST_ARGUMENTS)
        count = WIKI_MOST_ARGUMENTS;
    for (int64_t i = 0; i < count; i++) {
        struct wiki_slice text = part_text(m, i + 1);
        int64_t equals = m->parts[top(m)->first_part + i + 1].equals;
        if (equals == NOWHERE) {
            m->arguments[i] = (struct wiki_argument){.position = ++position, .value = text};
            continue;
        }
        size_t name = (size_t)equals - (size_t)(text.data - m->out->data);
        m->arguments[i] = (struct wiki_argument){
            .name = wiki_trim((struct wiki_slice){text.data, name}),
            .value = wiki_trim((struct wiki_slice){text.data + name + 1, text.length - name - 1}),
        };
    }
    return (struct wiki_call){wiki_trim(part_text(m, 0)), m->arguments, count};
}

// {{{name|default}}}
static void resolve_parameter(struct resolver *m) {
    struct wiki_slice name = wiki_trim(part_text(m, 0)), value;
    bool has_default = m->part_count - top(m)->first_part > 1;
    if (!m->context->caller || !wiki_call_find(m->context->caller, name, &value)) {
        if (has_default)
            wiki_append(&m->result, part_text(m, 1));
        return;
    }
    // A value may be used any number of times, so it counts toward the templates' budget.
    if (value.length <= *m->context->budget) {
        *m->context->budget -= value.length;
        wiki_append(&m->result, value);
    }
}

// Replaces the content of the top frame by the result.
static void replace_content(struct resolver *m) {
    m->out->length = top(m)->start;
    m->part_count = top(m)->first_part;
    buffer_append(m->out, m->result.data, m->result.length);
}

static void insert_brace(struct resolver *m, size_t position) {
    buffer_append_byte(m->out, '{');
    memmove(m->out->data + position + 1, m->out->data + position, m->out->length - position - 1);
    m->out->data[position] = '{';
}

static void close_top_braces(struct resolver *m, int64_t count) {
    buffer_clear(&m->result);
    if (m->frame_count + m->context->depth > WIKI_MOST_DEPTH) {
        buffer_append_byte(&m->result, WIKI_DROP);
    } else if (count == 3) {
        resolve_parameter(m);
    } else {
        struct wiki_call call = call_of_top(m);
        wiki_template(m->context, &m->result, &call);
    }
    int64_t left = top(m)->braces - count;
    size_t start = top(m)->start;
    replace_content(m);
    if (left == 1)  // "{{{!}}" is how a template writes "{|"
        insert_brace(m, start);
    if (left < 2) {
        pop_frame(m);
        return;
    }
    top(m)->braces = left;
    push_part(m);
    m->parts[m->part_count - 1].start = start;
}

static void close_braces(struct resolver *m) {
    int64_t count = (int64_t)run_length(m, '}', SIZE_MAX);
    m->at += count;
    if (count == 1)
        buffer_append_byte(m->out, '}');
    while (count >= 2 && m->brace_frames > 0) {
        while (top(m)->braces == 0)
            pop_frame(m);
        int64_t match = count < 3 ? count : 3;
        if (top(m)->braces < match)
            match = top(m)->braces;
        close_top_braces(m, match);
        count -= match;
        if (count == 1)
            buffer_append_byte(m->out, '}');
    }
}

static void close_link(struct resolver *m) {
    size_t count = run_length(m, ']', 4);
    if (count == 1) {
        put(m, ']');
        return;
    }
    m->at += 2;
    if (!top(m) || top(m)->braces > 0)
        return;
    // A third bracket belongs inside: [[Help:IPA|[a]]]
    if (count == 3) {
        buffer_append_byte(m->out, ']');
        m->at++;
    }
    buffer_clear(&m->result);
    struct wiki_slice content = {m->out->data + top(m)->start, m->out->length - top(m)->start};
    if (m->frame_count + m->context->depth <= WIKI_MOST_DEPTH)
        put_link(m->context, &m->result, content);
    replace_content(m);
    pop_frame(m);
}

// ---- opening and separating ----

static void open_braces(struct resolver *m) {
    size_t count = run_length(m, '{', SIZE_MAX);
    if (count == 1) {
        put(m, '{');
        return;
    }
    m->at += count;
    push_frame(m, (int64_t)count);
}

static void open_link(struct resolver *m) {
    size_t count = run_length(m, '[', SIZE_MAX);
    if (count == 1) {
        put(m, '[');
        return;
    }
    m->at += count;
    for (; count > 2; count--)
        buffer_append_byte(m->out, '[');
    push_frame(m, 0);
}

// An open link ends with its line, unless it has a label (then with its paragraph) or a namespace (captions of pictures
// may be long): an unclosed link must not swallow the page.
static void end_line(struct resolver *m) {
    put(m, '\n');
    const struct resolve_frame *frame = top(m);
    bool has_label = m->part_count - frame->first_part > 1;
    bool at_blank_line = m->at < m->end && *m->at == '\n';
    struct wiki_slice target = part_text(m, 0);
    if (target.length > LONGEST_PREFIX)
        target.length = LONGEST_PREFIX;
    if (!has_label || (at_blank_line && !memchr(target.data, ':', target.length)))
        pop_frame(m);
}

static void note_equals(struct resolver *m) {
    struct resolve_part *part = &m->parts[m->part_count - 1];
    if (part->equals == NOWHERE && m->part_count - 1 > top(m)->first_part)
        part->equals = (int64_t)m->out->length;
    put(m, '=');
}

// Bytes that stop the copying: outside, in a template, in a link.
static const char *const special_bytes[] = {"{}[]", "{}[]|=", "{}[]|\n"};

static void copy_run(struct resolver *m, const bool stops[256]) {
    const char *begin = m->at;
    while (m->at < m->end && !stops[(unsigned char)*m->at])
        m->at++;
    buffer_append(m->out, begin, (size_t)(m->at - begin));
}

static void step(struct resolver *m) {
    switch (*m->at) {
    case '{':
        open_braces(m);
        break;
    case '}':
        close_braces(m);
        break;
    case '[':
        open_link(m);
        break;
    case ']':
        close_link(m);
        break;
    case '|':
        put(m, '|');
        if (m->part_count < MOST_PARTS)
            push_part(m);
        break;
    case '=':
        note_equals(m);
        break;
    default:
        end_line(m);
    }
}

// ---- the end of the page ----

static size_t line_end(const struct buffer *out, size_t from) {
    const char *newline = memchr(out->data + from, '\n', out->length - from);
    return newline ? (size_t)(newline - out->data) : out->length;
}

// The end of the first line and the argument-like lines after it.
static size_t unclosed_end(const struct buffer *out, size_t from) {
    size_t end = line_end(out, from);
    while (end < out->length) {
        size_t first = end + 1;
        while (first < out->length && (out->data[first] == ' ' || out->data[first] == '\t'))
            first++;
        if (first >= out->length || !strchr("|}!", out->data[first]))
            break;
        end = line_end(out, first);
    }
    return end;
}

static void drop_unclosed(struct resolver *m, size_t base) {
    struct buffer *out = m->out;
    size_t kept = base, copied = base;
    for (int64_t i = 0; i < m->frame_count; i++) {
        const struct resolve_frame *frame = &m->frames[i];
        if (frame->braces == 0 || frame->start < copied)
            continue;
        memmove(out->data + kept, out->data + copied, frame->start - copied);
        kept += frame->start - copied;
        copied = unclosed_end(out, frame->start);
    }
    memmove(out->data + kept, out->data + copied, out->length - copied);
    out->length -= copied - kept;
    if (out->data)
        out->data[out->length] = '\0';
}

void wiki_resolve(struct wiki_context *context, struct buffer *out, struct wiki_slice text) {
    bool stops[3][256] = {0};
    for (size_t i = 0; i < 3; i++)
        for (const char *byte = special_bytes[i]; *byte; byte++)
            stops[i][(unsigned char)*byte] = true;
    struct resolver m = {.context = context, .out = out, .at = text.data, .end = text.data + text.length};
    size_t base = out->length;
    buffer_reserve(out, text.length);
    while (m.at < m.end) {
        copy_run(&m, stops[!m.frame_count ? 0 : top(&m)->braces ? 1 : 2]);
        if (m.at < m.end)
            step(&m);
    }
    if (m.brace_frames)
        drop_unclosed(&m, base);
    free(m.frames);
    free(m.parts);
    free(m.arguments);
    buffer_free(&m.result);
}
