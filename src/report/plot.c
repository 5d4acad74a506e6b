// A curve as text. The canvas has 2 × 4 dots per character (Unicode braille, U+2800 + one bit per dot); between
// neighbouring points a line is drawn, so noise shows as a band and single outliers stay visible.
#include "report/console.h"

#include "base/memory.h"
#include "base/utf8.h"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { MIN_WIDTH = 24, MAX_WIDTH = 400, MIN_HEIGHT = 6, MAX_HEIGHT = 100, LABEL_COLUMNS = 9 };

struct range {
    double low, high;
};

struct canvas {
    int columns, rows;    // characters
    unsigned char *dots;  // (rows, columns): one bit per dot
};

int plot_terminal_width(FILE *out) {
    struct winsize size;
    if (isatty(fileno(out)) && ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return 80;
}

static bool is_point(const struct plot *plot, size_t i) {
    return isfinite(plot->x[i]) && isfinite(plot->y[i]);
}

// Range of the finite points; false if there are none. An empty range is widened, so that it can be divided by.
static bool find_range(const struct plot *plot, const double *values, struct range *range) {
    bool has_any = false;
    for (size_t i = 0; i < plot->count; i++) {
        if (!is_point(plot, i))
            continue;
        range->low = has_any ? fmin(range->low, values[i]) : values[i];
        range->high = has_any ? fmax(range->high, values[i]) : values[i];
        has_any = true;
    }
    if (has_any && !(range->high - range->low > 1e-12 * fabs(range->high))) {
        double margin = range->high == 0 ? 1 : 0.05 * fabs(range->high);
        range->low -= margin;
        range->high += margin;
    }
    return has_any;
}

static void set_dot(struct canvas *canvas, int x, int y) {
    // Bits of a braille character by row; the fourth row was added later, after the first six bits.
    static const unsigned char bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    if (x < 0 || y < 0 || x >= 2 * canvas->columns || y >= 4 * canvas->rows)
        return;
    canvas->dots[(y / 4) * canvas->columns + x / 2] |= bits[y % 4][x % 2];
}

static int to_dot(double value, struct range range, int dots) {
    // Halves first: the difference of two huge values of opposite sign would not be finite.
    double fraction = (value / 2 - range.low / 2) / (range.high / 2 - range.low / 2);
    return (int)lround(fmin(fmax(fraction, 0), 1) * (dots - 1));
}

static void draw_line(struct canvas *canvas, const int from[2], const int to[2]) {
    int steps = abs(to[0] - from[0]) > abs(to[1] - from[1]) ? abs(to[0] - from[0]) : abs(to[1] - from[1]);
    for (int i = 0; i <= steps; i++) {
        double t = steps == 0 ? 0 : (double)i / steps;
        set_dot(canvas, from[0] + (int)lround(t * (to[0] - from[0])), from[1] + (int)lround(t * (to[1] - from[1])));
    }
}

static void draw_points(struct canvas *canvas, const struct plot *plot, struct range x, struct range y) {
    int last[2] = {0, 0};
    bool has_last = false;
    for (size_t i = 0; i < plot->count; i++) {
        if (!is_point(plot, i)) {
            has_last = false;
            continue;
        }
        int now[2] = {to_dot(plot->x[i], x, 2 * canvas->columns),
                      4 * canvas->rows - 1 - to_dot(plot->y[i], y, 4 * canvas->rows)};
        draw_line(canvas, has_last ? last : now, now);
        memcpy(last, now, sizeof last);
        has_last = true;
    }
}

// A number in at most LABEL_COLUMNS - 1 characters.
static void format_label(double value, char *text, size_t size) {
    double magnitude = fabs(value);
    if (value == 0 || (magnitude >= 0.01 && magnitude < 1e5)) {
        int decimals = magnitude >= 1000 ? 0 : magnitude >= 100 ? 1 : magnitude >= 10 ? 2 : 3;
        (void)snprintf(text, size, "%.*f", decimals, value);
    } else {
        (void)snprintf(text, size, "%.1e", value);
    }
}

static void append_row(struct buffer *out, const struct canvas *canvas, int row) {
    for (int column = 0; column < canvas->columns; column++) {
        unsigned char dots = canvas->dots[row * canvas->columns + column];
        char bytes[4];
        if (dots)
            buffer_append(out, bytes, utf8_encode(0x2800u + dots, bytes));
        else
            buffer_append_byte(out, ' ');
    }
    while (out->length > 0 && out->data[out->length - 1] == ' ')
        out->data[--out->length] = '\0';
    buffer_append_byte(out, '\n');
}

static void append_canvas(struct buffer *out, const struct canvas *canvas, struct range y) {
    for (int row = 0; row < canvas->rows; row++) {
        // Labels at the top, the bottom and every fourth row: the value at the row's middle.
        bool has_label = row == 0 || row == canvas->rows - 1 || (row % 4 == 0 && row < canvas->rows - 3);
        double fraction = canvas->rows > 1 ? (double)row / (canvas->rows - 1) : 0;
        char label[32] = "";
        if (has_label)
            format_label(y.high * (1 - fraction) + y.low * fraction, label, sizeof label);
        buffer_printf(out, "%*s %s", LABEL_COLUMNS - 1, label, has_label ? "┤" : "│");
        append_row(out, canvas, row);
    }
}

static void append_axis(struct buffer *out, const struct plot *plot, int columns, struct range x) {
    char low[32], high[32];
    // On a long axis a fraction is meaningless.
    bool is_long = x.high - x.low >= 20 && fabs(x.high) < 1e15 && fabs(x.low) < 1e15;
    (void)snprintf(low, sizeof low, is_long ? "%.0f" : "%.10g", x.low);
    (void)snprintf(high, sizeof high, is_long ? "%.0f" : "%.10g", x.high);
    const char *label = plot->x_label ? plot->x_label : "iteration";
    buffer_printf(out, "%*s └", LABEL_COLUMNS - 1, "");
    for (int i = 0; i < columns; i++)
        buffer_append_string(out, "─");
    int gap = columns - (int)(strlen(low) + strlen(label) + strlen(high));
    int left = gap / 2 > 1 ? gap / 2 : 1, right = gap - left > 1 ? gap - left : 1;
    buffer_printf(out, "\n%*s %s%*s%s%*s%s\n", LABEL_COLUMNS, "", low, left, "", label, right, "", high);
}

static int clamp(int value, int low, int high) {
    return value < low ? low : value > high ? high : value;
}

void plot_draw(struct buffer *out, const struct plot *plot) {
    int width = clamp(plot->width > 0 ? plot->width : 80, MIN_WIDTH, MAX_WIDTH);
    int height = clamp(plot->height > 0 ? plot->height : 16, MIN_HEIGHT, MAX_HEIGHT);
    struct range x = {0}, y = {0};
    if (plot->title)
        buffer_printf(out, "%*s %s\n", LABEL_COLUMNS, "", plot->title);
    if (!find_range(plot, plot->x, &x) || !find_range(plot, plot->y, &y)) {
        buffer_printf(out, "%*s (no points yet)\n", LABEL_COLUMNS, "");
        return;
    }
    struct canvas canvas = {.columns = width - LABEL_COLUMNS - 2, .rows = height - 3};
    canvas.dots = memory_alloc((size_t)canvas.columns * (size_t)canvas.rows);
    draw_points(&canvas, plot, x, y);
    append_canvas(out, &canvas, y);
    append_axis(out, plot, canvas.columns, x);
    free(canvas.dots);
}

void report_plot(FILE *out, const double *x, const double *y, size_t count, const char *title) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    struct plot plot = {.title = title, .x = x, .y = y, .count = count, .width = plot_terminal_width(out)};
    plot_draw(&text, &plot);
    (void)fwrite(text.data, 1, text.length, out);
}
