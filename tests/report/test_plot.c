// Plots: what must be seen in them, and shapes of data that have broken plots before.
#include "base/utf8.h"
#include "report/console.h"
#include "test.h"

// Characters of the widest line.
static size_t widest(const char *text) {
    size_t best = 0, now = 0;
    for (; *text; text++) {
        if (*text == '\n')
            now = 0;
        else if (((unsigned char)*text & 0xc0) != 0x80)
            now++;
        best = now > best ? now : best;
    }
    return best;
}

static int lines(const char *text) {
    int count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

// Dots set in row `row` of the canvas (the title is line 0).
static int dots_in_line(const char *text, int line) {
    for (; line > 0; line--)
        text = strchr(text, '\n') + 1;
    int dots = 0;
    while (*text && *text != '\n') {
        uint32_t character;
        text += utf8_decode((const unsigned char *)text, strlen(text), &character, NULL);
        if (character >= 0x2800 && character < 0x2900)
            dots += __builtin_popcount(character - 0x2800);
    }
    return dots;
}

TEST(falling_curve) {
    double x[101], y[101];
    for (int i = 0; i <= 100; i++) {
        x[i] = 10 * i;
        y[i] = 10 - 0.08 * i;
    }
    struct buffer out = {0};
    struct plot plot = {.title = "lm loss", .x = x, .y = y, .count = 101, .width = 60, .height = 12};
    plot_draw(&out, &plot);
    EXPECT_INT(lines(out.data), 12);
    EXPECT(widest(out.data) <= 60);
    EXPECT_INT(utf8_check(out.data, out.length), out.length);
    EXPECT(strstr(out.data, "lm loss\n") != NULL);
    EXPECT(strstr(out.data, "  10.00 ┤") != NULL);
    EXPECT(strstr(out.data, "  2.000 ┤") != NULL);
    EXPECT(strstr(out.data, "iteration") != NULL);
    EXPECT(strstr(out.data, " 1000\n") != NULL);
    // A straight line has about as many dots in each row.
    for (int row = 1; row <= 9; row++)
        EXPECT(dots_in_line(out.data, row) >= 8 && dots_in_line(out.data, row) <= 14);
    buffer_free(&out);
}

TEST(exact_picture) {
    const double x[] = {0, 1}, y[] = {0, 1};
    struct buffer out = {0};
    struct plot plot = {.title = "t", .x_label = "step", .x = x, .y = y, .count = 2, .width = 24, .height = 6};
    plot_draw(&out, &plot);
    EXPECT_STRING(buffer_string(&out), "          t\n"
                                       "   1.000 ┤         ⣀⠤⠒⠉\n"
                                       "         │    ⣀⡠⠔⠊⠉\n"
                                       "   0.000 ┤⣀⠤⠒⠉\n"
                                       "         └─────────────\n"
                                       "          0   step    1\n");
    buffer_free(&out);
}

TEST(odd_data) {
    const double one[] = {5}, same[] = {3, 3, 3}, x3[] = {1, 2, 3};
    const double holes[] = {NAN, 2, INFINITY}, none[] = {NAN, NAN, NAN};
    const double huge[] = {-1.7e308, 0, 1.7e308}, tiny[] = {1e-300, 2e-300, 3e-300}, zero[] = {0, 0, 0};
    const struct {
        const double *x, *y;
        size_t count;
        bool is_empty;
    } cases[] = {{one, one, 1, false},  {x3, same, 3, false}, {x3, holes, 3, false}, {x3, none, 3, true},
                 {NULL, NULL, 0, true}, {x3, huge, 3, false}, {x3, tiny, 3, false},  {x3, zero, 3, false},
                 {huge, x3, 3, false},  {same, x3, 3, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int width = -5; width < 500; width += 101) {
            struct buffer out = {0};
            struct plot plot = {
                .x = cases[i].x, .y = cases[i].y, .count = cases[i].count, .width = width, .height = width};
            plot_draw(&out, &plot);
            EXPECT((strstr(out.data, "no points") != NULL) == cases[i].is_empty);
            EXPECT(strstr(out.data, "nan") == NULL && strstr(out.data, "inf") == NULL);
            buffer_free(&out);
        }
    }
}

TEST(stream) {
    FILE *out = tmpfile();
    const double x[] = {1, 2}, y[] = {2, 1};
    EXPECT(out != NULL);
    EXPECT_INT(plot_terminal_width(out), 80);
    report_plot(out, x, y, 2, "title");
    EXPECT(ftell(out) > 200);
    fclose(out);
}

TEST_MAIN(TEST_CASE(falling_curve), TEST_CASE(exact_picture), TEST_CASE(odd_data), TEST_CASE(stream))
