// {{convert|5|km|mi}}: "5 kilometres (3.1 mi)". The most common template with numbers. On the wiki it is a script, so
// its text is in no dump. Rounding follows the wiki: as precise as the given number, but at least two digits.
#include "data/extract/wiki_convert.h"
#include "data/extract/wiki_template.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_VALUES = 4, LONGEST_VALUE = 32 };

struct quantity {
    struct wiki_slice text[MOST_VALUES];  // as written
    const char *between[MOST_VALUES];     // " to ", "–": before each but the first
    double value[MOST_VALUES];
    int decimals;  // of the most precise one; negative for trailing zeros
    int count;
};

// "1,234.5", "5+1/2", "3/4", "-2"; false if the text is not a number.
static bool read_value(struct wiki_slice text, double *value, int *decimals) {
    char plain[LONGEST_VALUE];
    size_t length = 0;
    if (wiki_begins(text, "−"))
        plain[length++] = '-', text = (struct wiki_slice){text.data + 3, text.length - 3};
    for (size_t i = 0; i < text.length; i++) {
        if (text.data[i] == ',')
            continue;
        if (!strchr("0123456789.+-/eE ", text.data[i]) || !text.data[i] || length + 1 >= LONGEST_VALUE)
            return false;
        plain[length++] = text.data[i];
    }
    plain[length] = '\0';
    char *end;
    *value = strtod(plain, &end);
    if (end == plain)
        return false;
    const char *point = strchr(plain, '.');
    *decimals = point ? (int)strspn(point + 1, "0123456789") : 0;
    if (!point)
        for (const char *digit = end; digit > plain && digit[-1] == '0' && *value != 0; digit--)
            (*decimals)--;
    if (*end == '/') {
        double divisor = strtod(end + 1, &end);
        *value = divisor != 0 ? *value / divisor : 0;
        *decimals = 0;
    } else if (*end == '+' || *end == ' ' || (*end == '-' && strchr(end, '/'))) {
        double numerator = strtod(end + 1, &end);
        double divisor = *end == '/' ? strtod(end + 1, &end) : 1;
        *value += divisor != 0 ? numerator / divisor : 0;
        *decimals = 0;
    }
    return *end == '\0' && isfinite(*value);
}

static const char *range_word(struct wiki_slice text) {
    static const struct {
        const char *word, *shown;
    } words[] = {
        {"to", " to "}, {"-", "–"},     {"–", "–"},          {"and", " and "},           {"or", " or "}, {"x", " by "},
        {"by", " by "}, {"×", " × "},   {"xx", " × "},       {"to(-)", " to "},          {"*", " × "},   {"+/-", " ± "},
        {"±", " ± "},   {"&", " and "}, {"and(-)", " and "}, {"to about", " to about "}, {"+", " + "}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (wiki_equal(text, words[i].word))
            return words[i].shown;
    return NULL;
}

static struct wiki_slice positional(const struct wiki_call *call, int64_t index) {
    for (int64_t i = 0; i < call->count; i++)
        if (call->arguments[i].position == index)
            return wiki_trim(call->arguments[i].value);
    return (struct wiki_slice){"", 0};
}

// Reads "5" or "5|to|10", starting at argument *next.
static bool read_quantity(struct quantity *quantity, const struct wiki_call *call, int64_t *next) {
    int decimals;
    const char *between = "";
    *quantity = (struct quantity){.decimals = -100};
    while (quantity->count < MOST_VALUES) {
        int i = quantity->count;
        quantity->text[i] = positional(call, *next);
        quantity->between[i] = between;
        if (!read_value(quantity->text[i], &quantity->value[i], &decimals))
            return false;
        quantity->decimals = decimals > quantity->decimals ? decimals : quantity->decimals;
        quantity->count++;
        ++*next;
        between = range_word(positional(call, *next));
        if (!between)
            return true;
        ++*next;
    }
    return true;
}

static void put_number(struct buffer *out, double value, int decimals) {
    char text[64];
    if (decimals < 0) {
        double unit = pow(10, -decimals);
        value = round(value / unit) * unit;
        decimals = 0;
    }
    snprintf(text, sizeof text, "%.*f", decimals > 12 ? 12 : decimals, value);
    wiki_format_number(out, wiki_slice_of(strcmp(text, "-0") == 0 ? "0" : text));
}

// The wiki's default: the decimals of the input shifted by the magnitude of the factor, and at least two significant
// digits.
static int result_decimals(const struct quantity *from, int index, double result, const struct wiki_unit *to) {
    double input = from->value[index];
    if (wiki_unit_is_temperature(to))
        return from->decimals > 0 ? from->decimals : 0;
    if (result == 0 || input == 0)
        return from->decimals > 0 ? from->decimals : 0;
    int moved = from->decimals + (int)lround(log10(fabs(input / result)));
    int two_digits = 1 - (int)floor(log10(fabs(result)) + 1e-9);
    return moved > two_digits ? moved : two_digits;
}

static void put_feet_inches(struct buffer *out, double metres) {
    int64_t inches = llround(metres / 0.0254);
    if (inches / 12)
        buffer_printf(out, "%lld ft ", (long long)(inches / 12));
    buffer_printf(out, "%lld in", (long long)(inches % 12));
}

static void put_result(struct buffer *out, const struct quantity *from, const struct wiki_unit *unit,
                       const struct wiki_unit *to) {
    bool as_feet = strcmp(to->code, "ftin") == 0;
    for (int i = 0; i < from->count; i++) {
        double result = wiki_unit_change(from->value[i], unit, to);
        buffer_append_string(out, from->between[i]);
        if (as_feet)
            put_feet_inches(out, result * to->scale);
        else
            put_number(out, result, result_decimals(from, i, result, to));
    }
    if (!as_feet)
        buffer_printf(out, "%s%s", to->symbol[0] == '\'' ? "" : " ", to->symbol);
}

static void put_input(struct buffer *out, const struct quantity *from) {
    for (int i = 0; i < from->count; i++) {
        buffer_append_string(out, from->between[i]);
        if (memchr(from->text[i].data, '/', from->text[i].length) ||
            memchr(from->text[i].data, ',', from->text[i].length))
            wiki_append(out, from->text[i]);
        else
            wiki_format_number(out, from->text[i]);
    }
}

static void put_unit(struct buffer *out, const struct quantity *from, const struct wiki_unit *unit, bool short_names) {
    double last = from->value[from->count - 1];
    bool is_adjective = !short_names && out->length && out->data[out->length - 1] == '-';
    if (!is_adjective)
        buffer_append_byte(out, ' ');
    if (short_names)
        buffer_append_string(out, unit->symbol);
    else
        buffer_append_string(out, last == 1 || is_adjective ? unit->singular : unit->plural);
}

// {{convert|6|ft|1|in|m}}: the second unit is appended to the first, and the sum in the smaller unit is converted.
static const struct wiki_unit *join_second_unit(struct buffer *out, const struct wiki_call *call, struct quantity *from,
                                                const struct wiki_unit *unit, int64_t next) {
    double value;
    int decimals;
    const struct wiki_unit *small = wiki_unit_find(positional(call, next + 1));
    if (!small || small->kind != unit->kind || !read_value(positional(call, next), &value, &decimals))
        return unit;
    buffer_append_byte(out, ' ');
    wiki_append(out, positional(call, next));
    buffer_printf(out, " %s", small->symbol);
    from->value[0] = value + wiki_unit_change(from->value[0], unit, small);
    from->decimals = decimals > 0 ? decimals : 0;
    return small;
}

void wiki_convert(struct buffer *out, const struct wiki_call *call) {
    struct quantity from;
    int64_t next = 1;
    if (!read_quantity(&from, call, &next)) {
        // A value we cannot convert: the original text is better than nothing.
        wiki_append(out, positional(call, 1));
        if (positional(call, 2).length)
            buffer_append_byte(out, ' ');
        wiki_append(out, positional(call, 2));
        return;
    }
    struct wiki_slice code = positional(call, next++), target = positional(call, next);
    const struct wiki_unit *unit = wiki_unit_find(code);
    struct wiki_slice abbreviate = wiki_call_get(call, "abbr"), adjective = wiki_call_get(call, "adj");
    bool is_short = wiki_equal(abbreviate, "on") || wiki_equal(abbreviate, "in") || wiki_equal_case(call->name, "cvt");
    put_input(out, &from);
    if (!unit) {
        if (code.length)
            buffer_append_byte(out, ' ');
        wiki_append(out, code);
        return;
    }
    double next_value;
    int next_decimals;
    bool has_second = read_value(target, &next_value, &next_decimals) && wiki_unit_find(positional(call, next + 1));
    if (wiki_begins(adjective, "on") && !is_short)
        buffer_append_byte(out, '-');
    put_unit(out, &from, unit, is_short || has_second || wiki_unit_is_temperature(unit));
    if (has_second) {
        unit = join_second_unit(out, call, &from, unit, next);
        target = positional(call, next + 2);
    }
    const struct wiki_unit *to = target.length ? wiki_unit_find(target) : wiki_unit_find(wiki_slice_of(unit->target));
    if (!to || to->kind != unit->kind)
        return;
    buffer_append_string(out, " (");
    put_result(out, &from, unit, to);
    buffer_append_byte(out, ')');
}
