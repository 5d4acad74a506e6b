// Turns lines into text. A heading is held back until something follows it, so empty sections leave nothing. List items
// keep a dash or their number. Paragraphs and headings are separated by a blank line, items and lines of one paragraph
// by a line end. Lists in sections of references and links are dropped.
#include "data/extract/wiki_passes.h"

enum { DEEPEST_HEADING = 6, MOST_LIST_DEPTH = 8, LONGEST_HEADING = 200 };

enum wiki_block { BLOCK_NONE, BLOCK_TEXT, BLOCK_LIST, BLOCK_HEADING };

struct wiki_layout {
    const struct wiki_layout_options *options;
    struct buffer *out;
    size_t begin;                                     // of this page in out
    struct wiki_slice headings[DEEPEST_HEADING + 1];  // by level; those held back have a length
    int64_t numbers[MOST_LIST_DEPTH + 1];             // of numbered lists, by depth
    enum wiki_block last;                             // the kind of block at the end of out
    bool after_blank;                                 // a blank line followed it
    int64_t reference_level;                          // level of the heading of the current reference section, else 0
};

// ---- headings ----

// == Title ==: its level, 0 if the line is not a heading.
static int64_t read_heading(struct wiki_slice line, struct wiki_slice *title) {
    size_t left = 0, right = 0;
    while (left < line.length && line.data[left] == '=')
        left++;
    while (right < line.length && line.data[line.length - 1 - right] == '=')
        right++;
    if (left == 0 || right == 0 || left + right >= line.length)
        return 0;
    size_t level = left < right ? left : right;
    level = level < DEEPEST_HEADING ? level : DEEPEST_HEADING;
    *title = wiki_trim((struct wiki_slice){line.data + level, line.length - 2 * level});
    return (int64_t)level;
}

static void begin_section(struct wiki_layout *layout, int64_t level, struct wiki_slice title) {
    for (int64_t i = level; i <= DEEPEST_HEADING; i++)
        layout->headings[i].length = 0;
    layout->headings[level] = title;
    if (layout->reference_level >= level)
        layout->reference_level = 0;
    if (!layout->reference_level && wiki_is_reference_title(title))
        layout->reference_level = level;
    layout->after_blank = true;
}

// ---- putting lines together ----

static void separate(struct wiki_layout *layout, enum wiki_block block) {
    struct buffer *out = layout->out;
    if (out->length == layout->begin)
        return;
    bool is_close = block == layout->last && !layout->after_blank && block != BLOCK_HEADING;
    // Items of one list stay together across blank lines.
    if (block == BLOCK_LIST && layout->last == BLOCK_LIST)
        is_close = true;
    if (block == BLOCK_LIST && layout->last == BLOCK_TEXT && !layout->after_blank)
        is_close = true;
    buffer_append_string(out, is_close ? "\n" : "\n\n");
}

// Whether the text is more than punctuation.
static bool has_substance(struct wiki_slice text) {
    for (size_t i = 0; i < text.length; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if (byte >= 0x80 || (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z'))
            return true;
    }
    return false;
}

// Appends the line as one block after a prefix; undoes that if the line turns out empty.
static bool put_block(struct wiki_layout *layout, enum wiki_block block, const char *prefix, struct wiki_slice line) {
    struct buffer *out = layout->out;
    size_t before = out->length;
    separate(layout, block);
    buffer_append_string(out, prefix);
    size_t begin = out->length;
    wiki_inline(out, line);
    if (!has_substance((struct wiki_slice){out->data + begin, out->length - begin})) {
        out->length = before;
        return false;
    }
    layout->last = block;
    layout->after_blank = false;
    return true;
}

// Writes the headings held back before the line, and removes them again if the line turns out empty.
static bool put_line(struct wiki_layout *layout, enum wiki_block block, const char *prefix, struct wiki_slice line) {
    struct wiki_layout before = *layout;
    size_t length = layout->out->length;
    for (int64_t level = 1; level <= DEEPEST_HEADING; level++) {
        struct wiki_slice title = layout->headings[level];
        if (title.length && title.length <= LONGEST_HEADING)
            put_block(layout, BLOCK_HEADING, "", title);
        layout->headings[level].length = 0;
    }
    if (put_block(layout, block, prefix, line))
        return true;
    layout->out->length = length;
    *layout = before;
    return false;
}

// ---- lists ----

static void forget_numbers(struct wiki_layout *layout, size_t from_depth) {
    for (size_t i = from_depth; i <= MOST_LIST_DEPTH; i++)
        layout->numbers[i] = 0;
}

// A line that begins with *, #, ; or :. Definitions and indented lines are text.
static void put_item(struct wiki_layout *layout, struct wiki_slice line) {
    size_t depth = strspn(line.data, "*#;:");
    depth = depth < line.length ? depth : line.length;
    char mark = line.data[depth - 1];
    size_t place = depth < MOST_LIST_DEPTH ? depth : MOST_LIST_DEPTH;
    struct wiki_slice text = wiki_trim((struct wiki_slice){line.data + depth, line.length - depth});
    bool is_list = memchr(line.data, '*', depth) || memchr(line.data, '#', depth);
    if (is_list && (layout->options->drop_lists || layout->reference_level))
        return;
    char prefix[32];
    prefix[0] = '\0';
    forget_numbers(layout, place + 1);
    if (mark == '#') {
        size_t length = 0;
        for (int64_t number = layout->numbers[place] + 1; number; number /= 10)
            length++;
        prefix[length] = '.', prefix[length + 1] = ' ', prefix[length + 2] = '\0';
        for (int64_t number = layout->numbers[place] + 1; number; number /= 10)
            prefix[--length] = (char)('0' + number % 10);
    } else if (mark == '*') {
        memcpy(prefix, "- ", 3);
    }
    bool continues_list = layout->last == BLOCK_LIST && !layout->after_blank;
    if (put_line(layout, is_list || continues_list ? BLOCK_LIST : BLOCK_TEXT, prefix, text) && mark == '#')
        layout->numbers[place]++;
}

// ---- lines ----

static struct wiki_slice trim_line(struct wiki_slice line) {
    while (line.length && (wiki_is_blank(line.data[0]) || line.data[0] == WIKI_DROP))
        line = (struct wiki_slice){line.data + 1, line.length - 1};
    while (line.length && (wiki_is_blank(line.data[line.length - 1]) || line.data[line.length - 1] == WIKI_DROP))
        line.length--;
    return line;
}

static void take_line(struct wiki_layout *layout, struct wiki_slice line) {
    struct wiki_slice title, whole = line;
    line = trim_line(line);
    bool is_rule = line.length >= 4 && memcmp(line.data, "----", 4) == 0;
    if (!line.length || is_rule) {
        layout->after_blank = true;
        return;
    }
    int64_t level = line.data[0] == '=' ? read_heading(line, &title) : 0;
    if (level) {
        begin_section(layout, level, title);
    } else if (strchr("*#;:", line.data[0])) {
        put_item(layout, line);
    } else if (line.data[0] != '|') {  // a row without its table is dropped
        forget_numbers(layout, 0);
        // Includes removed text before it, so that the punctuation after that is removed as well.
        whole.length = (size_t)(line.data + line.length - whole.data);
        put_line(layout, BLOCK_TEXT, "", whole);
    }
}

void wiki_layout(struct buffer *out, struct wiki_slice text, const struct wiki_layout_options *options) {
    struct wiki_layout layout = {.options = options, .out = out, .begin = out->length, .after_blank = true};
    buffer_reserve(out, text.length);
    while (text.length) {
        const char *newline = memchr(text.data, '\n', text.length);
        size_t length = newline ? (size_t)(newline - text.data) : text.length;
        take_line(&layout, (struct wiki_slice){text.data, length});
        length += newline != NULL;
        text = (struct wiki_slice){text.data + length, text.length - length};
    }
    if (out->data)
        out->data[out->length] = '\0';
}
