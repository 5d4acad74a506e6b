// Wikitext to text: runs the passes one after another. The last two are here: tables go, and lines become text.
//
// A heading is held back until something follows it, so empty sections leave nothing. List items keep a dash or their
// number. Paragraphs and headings are separated by a blank line, items and lines of one paragraph by a line end. Lists
// in sections of references and links are dropped.
#include "data/extract/wiki_text.h"
#include "base/memory.h"
#include <stdlib.h>

// ---- tables ----

// {| … |}: removes tables and everything nested in them. A stack first pairs each "{|" with its "|}", so that an
// unclosed table loses only its own lines: those after it that look like rows, up to the next heading.
struct table {
    size_t begin, end;  // end is 0 if it is never closed
};

struct tables {
    struct table *all;  // in order of their beginnings
    int64_t count, capacity;
    int64_t *open;  // stack of indices into all
    int64_t open_count;
};

// The first byte of the line that is not white space, an indent (:) or WIKI_DROP.
static size_t first_of_line(const struct buffer *text, size_t at) {
    while (at < text->length &&
           (text->data[at] == ' ' || text->data[at] == '\t' || text->data[at] == ':' || text->data[at] == WIKI_DROP))
        at++;
    return at;
}

static size_t next_line(const struct buffer *text, size_t at) {
    const char *newline = at < text->length ? memchr(text->data + at, '\n', text->length - at) : NULL;
    return newline ? (size_t)(newline - text->data) + 1 : text->length;
}

static bool is_pair(const struct buffer *text, size_t at, char first, char second) {
    return at + 1 < text->length && text->data[at] == first && text->data[at + 1] == second;
}

static void open_table(struct tables *tables, size_t begin) {
    if (tables->count == tables->capacity) {
        tables->capacity = tables->capacity ? 2 * tables->capacity : 16;
        tables->all = memory_realloc(tables->all, (size_t)tables->capacity * sizeof *tables->all);
        tables->open = memory_realloc(tables->open, (size_t)tables->capacity * sizeof *tables->open);
    }
    tables->open[tables->open_count++] = tables->count;
    tables->all[tables->count++] = (struct table){begin, 0};
}

static void find_tables(struct tables *tables, const struct buffer *text) {
    for (size_t line = 0; line < text->length; line = next_line(text, line)) {
        size_t at = first_of_line(text, line);
        if (is_pair(text, at, '{', '|'))
            open_table(tables, line);
        else if (is_pair(text, at, '|', '}') && tables->open_count)
            tables->all[tables->open[--tables->open_count]].end = at + 2;
    }
}

static void drop_tables(struct buffer *text) {
    if (!text->length || !memmem(text->data, text->length, "{|", 2))
        return;
    struct tables tables = {0};
    find_tables(&tables, text);
    size_t kept = 0, line = 0;
    int64_t next = 0;
    bool in_rest = false;  // of an unclosed table
    while (line < text->length) {
        while (next < tables.count && tables.all[next].begin < line)
            next++;
        size_t at = first_of_line(text, line), end = next_line(text, line);
        if (next < tables.count && tables.all[next].begin == line && tables.all[next].end) {
            line = tables.all[next].end;
            continue;
        }
        if (next < tables.count && tables.all[next].begin == line)
            in_rest = true;
        else if (at < text->length && text->data[at] == '=')
            in_rest = false;
        bool is_row = at < text->length && strchr("|!{", text->data[at]) && text->data[at];
        if (!in_rest || !is_row) {
            memmove(text->data + kept, text->data + line, end - line);
            kept += end - line;
        }
        line = end;
    }
    text->length = kept;
    text->data[kept] = '\0';
    free(tables.all);
    free(tables.open);
}

enum { DEEPEST_HEADING = 6, MOST_LIST_DEPTH = 8, LONGEST_HEADING = 200 };

enum wiki_block { BLOCK_NONE, BLOCK_TEXT, BLOCK_LIST, BLOCK_HEADING };

struct wiki_layout {
    bool drop_lists;
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
    if (is_list && (layout->drop_lists || layout->reference_level))
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

static void lay_out(struct buffer *out, struct wiki_slice text, bool drop_lists) {
    struct wiki_layout layout = {.drop_lists = drop_lists, .out = out, .begin = out->length, .after_blank = true};
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

// ---- all passes ----

// Limit for the bytes that templates may add to one page: enough for every honest page.
enum { TEMPLATE_BUDGET = 4 << 20, BUDGET_PER_BYTE = 16 };

void wiki_text_init(struct wiki_text *converter, const struct wiki_text_options *options) {
    *converter = (struct wiki_text){.options = *options};
    wiki_natives_open(&converter->natives);
}

void wiki_text_free(struct wiki_text *converter) {
    wiki_natives_close(&converter->natives);
    buffer_free(&converter->stripped);
    buffer_free(&converter->resolved);
}

void wiki_text_convert(struct wiki_text *converter, struct buffer *out, const struct wiki_source *source) {
    size_t budget = TEMPLATE_BUDGET + BUDGET_PER_BYTE * source->text.length;
    struct wiki_context context = {
        .site = source->site,
        .title = source->title,
        .natives = &converter->natives,
        .templates = converter->options.templates,
        .budget = &budget,
    };
    struct buffer *stripped = &converter->stripped, *resolved = &converter->resolved;
    buffer_clear(stripped);
    buffer_clear(resolved);
    wiki_strip(stripped, source->text);
    wiki_resolve(&context, resolved, (struct wiki_slice){buffer_string(stripped), stripped->length});
    drop_tables(resolved);
    lay_out(out, (struct wiki_slice){buffer_string(resolved), resolved->length}, converter->options.drop_lists);
}
