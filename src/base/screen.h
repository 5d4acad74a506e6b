// The terminal on standard error: its abilities, and lines at its bottom that are redrawn in place.
//
// Between two drawings the cursor rests at the start of the first of these lines. Other processes that share the
// terminal thus overwrite the lines instead of appending to them, and after a change of the window's size everything
// from the cursor on can be drawn again, wherever the terminal has moved it.
#ifndef BASE_SCREEN_H
#define BASE_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

struct screen_looks {
    bool is_dumb;      // the cursor cannot be moved: nothing is redrawn
    bool has_color;    // bold and faint letters, too
    bool has_symbols;  // characters beyond ASCII
};

// Settings from TERM, NO_COLOR and the locale's variables; the command line looks them up.
struct screen_looks screen_looks_of(const char *(*variable)(const char *name));
// To be called once, before threads start. Until then a terminal has symbols and no color.
void screen_set_looks(struct screen_looks looks);

// Whether standard error is a terminal on which lines can be redrawn. A signal handler may call it.
bool screen_is_live(void);
bool screen_has_color(void);
bool screen_has_symbols(void);
// The terminal's size now; 80 and 24 if unknown.
int screen_columns(void);
int screen_rows(void);

// Width of a text in columns, without its color sequences.
int screen_width(const char *text);

// Lines at the bottom, separated by newlines; "" for none.
struct screen_block {
    const char *view, *status;  // the status is below the view
    int columns, rows;          // of the terminal
};
// Writes the sequence that draws the block and returns the cursor to `out`, of `size` bytes; returns its length. Lines
// are cut to the width, and excess lines are left out.
size_t screen_compose(char *out, size_t size, const struct screen_block *block);
// The sequence that clears the block; to be written before anything else.
extern const char screen_clear[];

#endif
