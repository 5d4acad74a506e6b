// Templates that need more than a format: dates, coordinates, fractions, values with errors and units, pronunciations.
#include "data/extract/wiki_template.h"
#include "data/extract/wiki_passes.h"

static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                     "July",    "August",   "September", "October", "November", "December"};

static int64_t small_number(struct wiki_slice text) {
    int64_t value = 0;
    if (text.length == 0 || text.length > 9)
        return -1;
    for (size_t i = 0; i < text.length; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return -1;
        value = value * 10 + (text.data[i] - '0');
    }
    return value;
}

// Positional argument number `index`, trimmed.
static struct wiki_slice positional(const struct wiki_call *call, int64_t index) {
    for (int64_t i = 0; i < call->count; i++)
        if (call->arguments[i].position == index)
            return wiki_trim(call->arguments[i].value);
    return (struct wiki_slice){"", 0};
}

// "4 July 1776", "July 4, 1776", "July 1776" or "1776"; a month may be given by name.
static void put_date(struct buffer *out, struct wiki_slice date[3], bool day_first) {
    struct wiki_slice month = date[1];
    int64_t number = small_number(month);
    if (number >= 1 && number <= 12)
        month = wiki_slice_of(months[number - 1]);
    if (month.length && date[2].length && day_first) {
        wiki_append(out, date[2]);
        buffer_append_byte(out, ' ');
    }
    if (month.length) {
        wiki_append(out, month);
        buffer_append_byte(out, ' ');
    }
    if (month.length && date[2].length && !day_first) {
        wiki_append(out, date[2]);
        buffer_append_string(out, ", ");
    }
    wiki_append(out, date[0]);
}

void wiki_render_date(struct buffer *out, const struct wiki_call *call) {
    struct wiki_slice date[3] = {positional(call, 1), positional(call, 2), positional(call, 3)};
    put_date(out, date, wiki_call_flag(call, "df"));
}

// {{date|4 July 1776}}, and the same written as numbers.
void wiki_render_loose_date(struct buffer *out, const struct wiki_call *call) {
    struct wiki_slice date[3] = {positional(call, 1), positional(call, 2), positional(call, 3)};
    if (small_number(date[0]) >= 0 && small_number(date[1]) >= 1)
        put_date(out, date, wiki_call_flag(call, "df"));
    else
        wiki_append(out, date[0]);
}

// {{OldStyleDate|1 January|1732|21 December 1731}}
void wiki_render_old_style(struct buffer *out, const struct wiki_call *call) {
    wiki_append(out, positional(call, 1));
    buffer_append_byte(out, ' ');
    wiki_append(out, positional(call, 2));
    if (positional(call, 3).length) {
        buffer_append_string(out, " [O.S. ");
        wiki_append(out, positional(call, 3));
        buffer_append_byte(out, ']');
    }
}

void wiki_render_as_of(struct buffer *out, const struct wiki_call *call) {
    struct wiki_slice alternative = wiki_call_get(call, "alt");
    if (alternative.length) {
        wiki_append(out, alternative);
        return;
    }
    struct wiki_slice date[3] = {positional(call, 1), positional(call, 2), positional(call, 3)};
    bool is_lower = wiki_call_flag(call, "lc") || wiki_equal_case(wiki_call_get(call, "lc"), "on");
    if (wiki_call_flag(call, "since"))
        buffer_append_string(out, is_lower ? "since " : "Since ");
    else
        buffer_append_string(out, is_lower ? "as of " : "As of ");
    put_date(out, date, !wiki_equal(wiki_call_get(call, "df"), "US"));
}

// {{frac|3|4}} is 3/4, {{frac|2|3|4}} is 2 3/4, {{frac|4}} is 1/4.
void wiki_render_frac(struct buffer *out, const struct wiki_call *call) {
    struct wiki_slice a = positional(call, 1), b = positional(call, 2), c = positional(call, 3);
    if (c.length) {
        wiki_append(out, a);
        buffer_append_byte(out, ' ');
        a = b;
        b = c;
    } else if (!b.length) {
        b = a;
        a = wiki_slice_of("1");
    }
    wiki_append(out, a);
    buffer_append_byte(out, '/');
    wiki_append(out, b);
}

// {{val|1234.5|0.3|e=6|u=m}} is 1,234.5±0.3×10⁶ m.
void wiki_render_val(struct buffer *out, const struct wiki_call *call) {
    struct wiki_slice error = positional(call, 2), lower = positional(call, 3);
    struct wiki_slice exponent = wiki_call_get(call, "e"), unit = wiki_call_get(call, "u");
    wiki_append(out, wiki_call_get(call, "p"));
    wiki_format_number(out, positional(call, 1));
    if (error.length && !lower.length)
        buffer_append_string(out, "±");
    if (error.length)
        wiki_append(out, error);
    if (lower.length) {
        buffer_append_byte(out, '/');
        wiki_append(out, lower);
    }
    if (exponent.length) {
        buffer_append_string(out, "×10^");
        wiki_append(out, exponent);
    }
    unit = unit.length ? unit : wiki_call_get(call, "ul");
    if (unit.length) {
        buffer_append_byte(out, ' ');
        wiki_append(out, unit);
    }
    struct wiki_slice per = wiki_call_get(call, "up");
    if (per.length) {
        buffer_append_byte(out, '/');
        wiki_append(out, per);
    }
}

void wiki_render_number_first(struct buffer *out, const struct wiki_call *call) {
    wiki_format_number(out, positional(call, 1));
}

// ---- coordinates ----

static bool is_letter_of(struct wiki_slice text, const char *letters) {
    return text.length == 1 && strchr(letters, text.data[0]) != NULL;
}

static void put_decimal_degrees(struct buffer *out, struct wiki_slice value, const char *positive,
                                const char *negative) {
    bool is_negative = value.length && value.data[0] == '-';
    wiki_append(out, (struct wiki_slice){value.data + is_negative, value.length - is_negative});
    buffer_printf(out, "°%s", is_negative ? negative : positive);
}

// {{coord|57|18|22|N|4|27|32|W}} and {{coord|57.3|-4.46}}; one that is only shown in the corner of the page leaves
// nothing.
void wiki_render_coord(struct buffer *out, const struct wiki_call *call) {
    static const char *const signs[] = {"°", "′", "″"};
    struct wiki_slice display = wiki_call_get(call, "display");
    if (wiki_equal(display, "title") || wiki_equal(display, "t"))
        return;
    size_t before = out->length;
    int64_t place = 0, position = 1;
    for (; position <= 8 && positional(call, position).length; position++) {
        struct wiki_slice value = positional(call, position);
        if (is_letter_of(value, "NS") || is_letter_of(value, "EW")) {
            wiki_append(out, value);
            if (is_letter_of(value, "EW"))
                return;
            buffer_append_byte(out, ' ');
            place = 0;
        } else if (place < 3 && strchr("0123456789.-+", value.data[0])) {
            wiki_append(out, value);
            buffer_append_string(out, signs[place++]);
        } else {
            break;
        }
    }
    out->length = before;
    if (!positional(call, 2).length)
        return;
    put_decimal_degrees(out, positional(call, 1), "N", "S");
    buffer_append_byte(out, ' ');
    put_decimal_degrees(out, positional(call, 2), "E", "W");
}

// ---- pronunciation, chemistry ----

// {{IPAc-en|ˌ|æ|l|ə|ˈ|b|æ|m|ə}} is /ˌæləˈbæmə/; labels ("pron", "us") and sound files are skipped.
void wiki_render_ipac_en(struct buffer *out, const struct wiki_call *call) {
    static const char *const words[] = {"lang", "pron", "local", "also", "uk",
                                        "us",   "UK",   "US",    "icon", "alternatively"};
    buffer_append_byte(out, '/');
    for (int64_t i = 0; i < call->count; i++) {
        struct wiki_slice value = wiki_trim(call->arguments[i].value);
        bool is_word = !call->arguments[i].position || (value.length > 4 && memchr(value.data, '.', value.length));
        for (size_t word = 0; word < sizeof words / sizeof words[0]; word++)
            is_word = is_word || wiki_equal(value, words[word]);
        for (size_t byte = 0; byte < value.length && !is_word; byte++)
            buffer_append_byte(out, value.data[byte] == '_' ? ' ' : value.data[byte]);
    }
    buffer_append_byte(out, '/');
}

void wiki_render_respell(struct buffer *out, const struct wiki_call *call) {
    bool is_first = true;
    for (int64_t i = 0; i < call->count; i++) {
        struct wiki_slice value = wiki_trim(call->arguments[i].value);
        if (!call->arguments[i].position || !value.length)
            continue;
        bool is_space = wiki_equal(value, "_");
        if (!is_first && !is_space && out->data[out->length - 1] != ' ')
            buffer_append_byte(out, '-');
        if (is_space)
            buffer_append_byte(out, ' ');
        else
            wiki_append(out, value);
        is_first = false;
    }
}

// {{chem|H|2|O}} is H2O; a charge ("2+", "-") follows its element.
void wiki_render_chem(struct buffer *out, const struct wiki_call *call) {
    for (int64_t i = 0; i < call->count; i++)
        if (call->arguments[i].position)
            wiki_append(out, wiki_trim(call->arguments[i].value));
}
