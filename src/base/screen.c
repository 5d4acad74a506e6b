// Lines at the bottom of a terminal. See screen.h. A line is overwritten and then cleared to its end, never cleared
// first, so that it does not flicker.
#include "base/screen.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { USUAL_COLUMNS = 80, USUAL_ROWS = 24 };

const char screen_clear[] = "\r\033[J";

static struct screen_looks looks = {.has_symbols = true};

static bool is_set(const char *value) {
    return value && *value;
}

// A locale that names no character set is assumed to be UTF-8.
static bool is_utf8(const char *locale) {
    const char *dot = is_set(locale) ? strchr(locale, '.') : NULL;
    return !dot || strncasecmp(dot + 1, "utf-8", 5) == 0 || strncasecmp(dot + 1, "utf8", 4) == 0;
}

struct screen_looks screen_looks_of(const char *(*variable)(const char *name)) {
    static const char *const locales[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    struct screen_looks found = {.has_symbols = true};
    const char *term = variable("TERM");
    found.is_dumb = !is_set(term) || strcmp(term, "dumb") == 0;
    bool is_console = is_set(term) && strcmp(term, "linux") == 0;  // its font has few characters
    found.has_color = !found.is_dumb && !is_set(variable("NO_COLOR"));
    for (size_t i = 0; i < sizeof locales / sizeof locales[0]; i++) {
        const char *locale = variable(locales[i]);
        if (!is_set(locale))
            continue;
        found.has_symbols = is_utf8(locale);
        break;
    }
    found.has_symbols = found.has_symbols && !found.is_dumb && !is_console;
    return found;
}

void screen_set_looks(struct screen_looks given) {
    looks = given;
}

bool screen_is_live(void) {
    return !looks.is_dumb && isatty(STDERR_FILENO);
}

bool screen_has_color(void) {
    return looks.has_color;
}

bool screen_has_symbols(void) {
    return looks.has_symbols;
}

static struct winsize ask_size(void) {
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0)
        memset(&size, 0, sizeof size);
    return size;
}

int screen_columns(void) {
    struct winsize size = ask_size();
    return size.ws_col > 0 ? size.ws_col : USUAL_COLUMNS;
}

int screen_rows(void) {
    struct winsize size = ask_size();
    return size.ws_row > 0 ? size.ws_row : USUAL_ROWS;
}

// Length in bytes of the sequence or character at the start of the text; *columns: its width.
static size_t next(const char *text, int *columns) {
    size_t bytes = 1;
    *columns = 1;
    if (*text == '\033') {
        *columns = 0;
        while (text[bytes] && text[bytes] != '\n' && text[bytes] != 'm')
            bytes++;
        return bytes + (text[bytes] == 'm');
    }
    while (((unsigned char)text[bytes] & 0xC0) == 0x80)
        bytes++;
    return bytes;
}

int screen_width(const char *text) {
    int width = 0, columns;
    while (*text) {
        text += next(text, &columns);
        width += columns;
    }
    return width;
}

struct drawing {
    char *out;
    size_t size, length;
};

static void put(struct drawing *drawing, const char *text, size_t length) {
    if (length >= drawing->size - drawing->length)
        return;
    memcpy(drawing->out + drawing->length, text, length);
    drawing->length += length;
    drawing->out[drawing->length] = '\0';
}

static void put_string(struct drawing *drawing, const char *text) {
    put(drawing, text, strlen(text));
}

// A line as wide as the terminal would wrap. Returns the text after the line.
static const char *put_line(struct drawing *drawing, const char *line, int most) {
    int shown = 0, columns;
    while (*line && *line != '\n') {
        size_t bytes = next(line, &columns);
        if (shown + columns <= most)
            put(drawing, line, bytes);
        shown += columns;
        line += bytes;
    }
    return *line ? line + 1 : line;
}

size_t screen_compose(char *out, size_t size, const struct screen_block *block) {
    struct drawing drawing = {.out = out, .size = size};
    const char *const parts[] = {block->view, block->status};
    int most = block->columns > 1 ? block->columns - 1 : 1, room = block->rows > 2 ? block->rows - 1 : 1, lines = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        // The status keeps its row.
        int limit = i == 0 && *block->status && room > 1 ? room - 1 : room;
        for (const char *line = parts[i]; *line && lines < limit; lines++) {
            put_string(&drawing, lines > 0 ? "\033[K\r\n" : "\r");
            line = put_line(&drawing, line, most);
        }
    }
    if (lines == 0)
        return 0;
    put_string(&drawing, "\033[J");
    for (int i = 1; i < lines; i++)
        put_string(&drawing, "\033[A");
    put_string(&drawing, "\r");
    return drawing.length;
}
