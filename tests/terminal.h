// A terminal as far as the program needs one: what is written to it becomes lines of text, those that scrolled away
// included. It knows the sequences that move the cursor up and clear, skips those that color, and counts all others, so
// that a test notices one that a real terminal would have to know.
#ifndef TESTS_TERMINAL_H
#define TESTS_TERMINAL_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TERMINAL_MOST_COLUMNS = 256, TERMINAL_MOST_ROWS = 64, TERMINAL_CELL = 8, TERMINAL_SEQUENCE = 32 };

struct terminal {
    int columns, rows;
    int x, y;
    bool is_full;  // the last column has been written: the next character goes to the next line
    char cells[TERMINAL_MOST_ROWS][TERMINAL_MOST_COLUMNS][TERMINAL_CELL];
    char sequence[TERMINAL_SEQUENCE];  // what has come of an escape sequence
    size_t sequence_length;
    char *history;  // lines that scrolled away
    size_t history_length;
    int colors, unknown;  // sequences that color, and those not known here
};

// As read. Linux may say that a terminal was closed before the last bytes were read, if they were written while it
// looked: a second read gets them.
static inline ssize_t terminal_read(int control, char *bytes, size_t size) {
    ssize_t count = read(control, bytes, size);
    return count < 0 && errno == EIO ? read(control, bytes, size) : count;
}

static inline void terminal_append_row(const struct terminal *t, int row, char **text, size_t *length) {
    size_t start = *length, end = *length;
    *text = realloc(*text, *length + (size_t)t->columns * TERMINAL_CELL + 2);
    if (!*text)
        abort();
    for (int x = 0; x < t->columns; x++) {
        const char *cell = t->cells[row][x][0] ? t->cells[row][x] : " ";
        size_t bytes = strlen(cell);
        memcpy(*text + *length, cell, bytes);
        *length += bytes;
        end = strcmp(cell, " ") == 0 ? end : *length;
    }
    *length = end > start ? end : start;
    (*text)[(*length)++] = '\n';
    (*text)[*length] = '\0';
}

static inline void terminal_open(struct terminal *t, int columns, int rows) {
    *t = (struct terminal){.columns = columns, .rows = rows};
}

static inline void terminal_close(struct terminal *t) {
    free(t->history);
    *t = (struct terminal){0};
}

// A terminal that does not rewrap its lines: they are cut, or get more room.
static inline void terminal_resize(struct terminal *t, int columns, int rows) {
    for (int y = 0; y < TERMINAL_MOST_ROWS; y++)
        for (int x = columns; x < TERMINAL_MOST_COLUMNS; x++)
            t->cells[y][x][0] = '\0';
    t->columns = columns;
    t->rows = rows;
    t->x = t->x < columns ? t->x : columns - 1;
    t->y = t->y < rows ? t->y : rows - 1;
}

static inline void terminal_new_line(struct terminal *t) {
    t->is_full = false;
    if (t->y + 1 < t->rows) {
        t->y++;
        return;
    }
    terminal_append_row(t, 0, &t->history, &t->history_length);
    memmove(t->cells[0], t->cells[1], sizeof t->cells[0] * (size_t)(t->rows - 1));
    memset(t->cells[t->rows - 1], 0, sizeof t->cells[0]);
}

static inline void terminal_clear(struct terminal *t, bool below) {
    for (int x = t->x; x < t->columns; x++)
        t->cells[t->y][x][0] = '\0';
    for (int y = t->y + 1; below && y < t->rows; y++)
        memset(t->cells[y], 0, sizeof t->cells[y]);
}

static inline void terminal_obey(struct terminal *t) {
    char last = t->sequence[t->sequence_length - 1];
    int number = t->sequence_length > 3 ? (int)strtol(t->sequence + 2, NULL, 10) : 1;
    if (last == 'A')
        t->y = t->y > number ? t->y - number : 0;
    else if (last == 'J' || last == 'K')
        terminal_clear(t, last == 'J');
    else if (last == 'm')
        t->colors++;
    else
        t->unknown++;
    if (last == 'A')
        t->is_full = false;
    t->sequence_length = 0;
}

static inline void terminal_put(struct terminal *t, char byte) {
    bool is_continued = ((unsigned char)byte & 0xC0) == 0x80;
    char *cell = t->cells[t->y][t->x];
    if (is_continued) {
        // More bytes of the character that was put last.
        cell = t->cells[t->y][t->is_full ? t->x : t->x - 1];
        size_t length = strlen(cell);
        if (length < TERMINAL_CELL - 1)
            memcpy(cell + length, (char[]){byte, '\0'}, 2);
        return;
    }
    if (t->is_full) {
        t->x = 0;
        terminal_new_line(t);
        cell = t->cells[t->y][t->x];
    }
    memcpy(cell, (char[]){byte, '\0'}, 2);
    t->is_full = t->x + 1 == t->columns;
    t->x += !t->is_full;
}

static inline void terminal_feed(struct terminal *t, const char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char byte = bytes[i];
        if (t->sequence_length > 0) {
            t->sequence[t->sequence_length++] = byte;
            t->sequence[t->sequence_length] = '\0';
            bool is_last = t->sequence_length > 2 && byte >= '@' && byte <= '~';
            if (is_last || t->sequence_length + 1 == TERMINAL_SEQUENCE)
                terminal_obey(t);
        } else if (byte == '\033') {
            t->sequence[t->sequence_length++] = byte;
        } else if (byte == '\r') {
            t->x = 0;
            t->is_full = false;
        } else if (byte == '\n') {
            terminal_new_line(t);
        } else if (byte != '\a') {
            terminal_put(t, byte);
        }
    }
}

// Everything that a person has seen and can scroll back to, without empty lines at the end; to be freed.
static inline char *terminal_text(const struct terminal *t) {
    char *text = NULL;
    size_t length = t->history_length;
    text = malloc(length + 1);
    if (!text)
        abort();
    memcpy(text, t->history ? t->history : "", length);
    text[length] = '\0';
    for (int y = 0; y < t->rows; y++)
        terminal_append_row(t, y, &text, &length);
    while (length > 1 && text[length - 1] == '\n' && text[length - 2] == '\n')
        text[--length] = '\0';
    return text;
}

#endif
