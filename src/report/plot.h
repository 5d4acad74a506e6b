// Curves in a terminal, drawn with braille dots (2 × 4 per character), with labelled axes.
#ifndef REPORT_PLOT_H
#define REPORT_PLOT_H

#include "base/buffer.h"
#include <stddef.h>
#include <stdio.h>

struct plot {
    const char *title;
    const char *x_label;  // NULL for "iteration"
    const double *x, *y;  // (count); points that are not finite are left out
    size_t count;
    int width, height;  // of the whole picture in characters; 0: the terminal's width, or 80, and height 16
};

void plot_draw(struct buffer *out, const struct plot *plot);
// Draws to a stream, at the width of its terminal, or 80 if it is not one.
void report_plot(FILE *out, const double *x, const double *y, size_t count, const char *title);
// The number of columns of a stream's terminal; 80 if it is not a terminal.
int plot_terminal_width(FILE *out);

#endif
