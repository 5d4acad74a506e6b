// The terminal behind standard error: what it can show, and how lines at its bottom are redrawn in place.
//
// Between two drawings the cursor rests where the first of these lines begins. So other processes that share the
// terminal write over the lines and not behind them, and after a change of the window's size everything from the cursor
// on can be drawn again, wherever the terminal has put it.
#ifndef BASE_SCREEN_H
#define BASE_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

struct screen_looks {
    bool is_dumb;      // the cursor cannot be moved: nothing is redrawn
    bool has_color;    // bold and faint letters, too
    bool has_symbols;  // characters beyond ASCII
};

// What TERM, NO_COLOR and the locale's variables say; the command line looks them up.
struct screen_looks screen_looks_of(const char *(*variable)(const char *name));
// To be called once, before threads start. Until then a terminal has symbols and no color.
void screen_set_looks(struct screen_looks looks);

// Whether standard error is a terminal on which lines can be redrawn. A signal handler may call it.
bool screen_is_live(void);
bool screen_has_color(void);
bool screen_has_symbols(void);
// Of the terminal as it is now; 80 and 24 if they are not known.
int screen_columns(void);
int screen_rows(void);

// Columns that a text takes, without the sequences that color it.
int screen_width(const char *text);

// Lines at the bottom, separated by newlines; "" for none.
struct screen_block {
    const char *view, *status;  // the status is below the view
    int columns, rows;          // of the terminal
};
// Writes to `out`, which has `size` bytes, what draws the block and brings the cursor back; returns its length. Lines
// are cut to the width, and those that are too many are left out.
size_t screen_compose(char *out, size_t size, const struct screen_block *block);
// Clears the block; to be written before anything else.
extern const char screen_clear[];

#endif
