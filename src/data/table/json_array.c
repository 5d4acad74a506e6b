// A JSON array, element by element. Its elements become lines as they are, with all members, so that the parser of
// JSON Lines says what is wrong with them; here only their ends are found. A string becomes the first wanted column.
#include "data/table/table.h"
#include "base/error.h"
#include "base/memory.h"
#include "data/extract/inputs.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LINES_BYTES = 1 << 18 };

struct json_array {
    struct table_bytes bytes;
    struct buffer element;
    bool has_elements, has_ended;
};

// The array has ended: only white space may follow.
static int check_rest(struct json_array *array) {
    const char *text;
    int64_t count;
    array->has_ended = true;
    while ((count = table_take(&array->bytes, &text)) > 0)
        for (int64_t i = 0; i < count; i++)
            if (!memchr(" \t\r\n", text[i], 4))
                return bad_data("%s: byte %" PRIu64 ": text follows the end of the JSON array; make lines of several "
                                "arrays: `jq -c '.[]' FILE > LINES.jsonl`",
                                array->bytes.input.name, array->bytes.passed - (uint64_t)(count - i));
    return (int)count;
}

// Reads the bytes of an element up to the comma or bracket after it. A line end, which is space between tokens and an
// error in strings, becomes \r, which is the same.
static int read_element(struct json_array *array) {
    const char *text;
    int64_t count;
    uint64_t depth = 0;
    bool in_string = false, is_escaped = false;
    buffer_clear(&array->element);
    while ((count = table_take(&array->bytes, &text)) > 0) {
        bool is_mark = array->bytes.is_mark[(unsigned char)*text] && !is_escaped;
        bool is_structure = is_mark && !in_string;
        if (is_structure && depth == 0 && *text == ',')
            return 0;
        if (is_structure && depth == 0 && *text == ']')
            return check_rest(array);
        is_escaped = is_mark && in_string && *text == '\\';
        in_string = in_string != (is_mark && *text == '"');
        depth += is_structure && strchr("[{", *text);
        depth -= is_structure && depth > 0 && strchr("]}", *text);
        buffer_append(&array->element, *text == '\n' ? "\r" : text, (size_t)count);
        if (array->element.length > TABLE_MOST_ROW_BYTES)
            return bad_data("%s: byte %" PRIu64 ": an element of the JSON array is longer than %d bytes",
                            array->bytes.input.name, array->bytes.passed, TABLE_MOST_ROW_BYTES);
    }
    TRY((int)count);
    return bad_data("%s ends at byte %" PRIu64 ", inside its JSON array; copy or download it again",
                    array->bytes.input.name, array->bytes.passed);
}

static void write_element(const struct json_array *array, struct buffer *lines) {
    const char *text = buffer_string(&array->element), *end = text + array->element.length;
    while (text < end && memchr(" \t\r", *text, 3))
        text++;
    if (text == end && array->has_ended && !array->has_elements)
        return;
    if (text == end) {
        table_add_bad_row(lines, "the JSON array has a comma without an element beside it");
    } else if (*text == '"') {
        struct json_writer line = table_begin_row(lines);
        json_key(&line, array->bytes.input.columns.names[0]);
        json_raw(&line, text, (size_t)(end - text));
        table_end_row(&line);
    } else {
        buffer_append(lines, text, (size_t)(end - text));
        buffer_append_byte(lines, '\n');
    }
}

// ---- the kinds ----

static void array_close(void *state) {
    struct json_array *array = state;
    buffer_free(&array->element);
    free(array);
}

static int array_open(void **state, const struct table_input *input) {
    struct json_array *array = memory_alloc(sizeof *array);
    const char *text = " ";
    table_bytes_begin(&array->bytes, input, "\"\\\n,[]{}", 8);
    int64_t count = 1;
    // White space before the bracket, which was seen by the one who chose this kind.
    while (count > 0 && *text != '[')
        count = table_take(&array->bytes, &text);
    if (count <= 0) {
        array_close(array);
        return count < 0 ? -1 : bad_data("%s has no JSON array", input->name);
    }
    *state = array;
    return 0;
}

static int array_next(void *state, struct buffer *lines) {
    struct json_array *array = state;
    size_t before = lines->length;
    while (!array->has_ended && lines->length - before < LINES_BYTES) {
        TRY(read_element(array));
        write_element(array, lines);
        array->has_elements = true;
    }
    return lines->length > before;
}

// Returns where the elements begin, or NULL if the text does not begin with a bracket.
static const char *after_bracket(const char *bytes, size_t count) {
    size_t at = count >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    while (at < count && memchr(" \t\r\n", bytes[at], 4))
        at++;
    return at < count && bytes[at] == '[' ? bytes + at + 1 : NULL;
}

static bool begins_array(const char *bytes, size_t count) {
    return after_bracket(bytes, count);
}

// Text may begin with a bracket.
static bool begins_array_of_objects(const char *bytes, size_t count) {
    const char *next = after_bracket(bytes, count);
    return next && content_is_object(next, count - (size_t)(next - bytes));
}

const struct table_kind table_json_objects = {.name = "JSON array",
                                              .begins = begins_array_of_objects,
                                              .open = array_open,
                                              .next = array_next,
                                              .close = array_close};
const struct table_kind table_json = {.name = "JSON array",
                                      .endings = {".json"},
                                      .begins = begins_array,
                                      .needs_ending = true,
                                      .open = array_open,
                                      .next = array_next,
                                      .close = array_close};
