// Reads and builds fairseq's dictionaries. The order of lines gives the ids, so everything that affects lines or their
// order follows fairseq: the definition of a space, which of two equal symbols counts, how ties are broken.
#include "data/tokenizer/fairseq.h"
#include "data/tokenizer/kind.h"
#include "data/tokenizer/unicode_category.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 30 };
static const char *const specials[FAIRSEQ_SPECIALS] = {"<s>", "<pad>", "</s>", "<unk>"};

bool fairseq_next_word(const char *text, size_t length, size_t *at, size_t *word_length) {
    const unsigned char *bytes = (const unsigned char *)text;
    uint32_t character;
    while (*at < length) {
        size_t step = utf8_decode(bytes + *at, length - *at, &character, NULL);
        if (!unicode_is_python_space(character))
            break;
        *at += step;
    }
    size_t end = *at;
    while (end < length) {
        size_t step = utf8_decode(bytes + end, length - end, &character, NULL);
        if (unicode_is_python_space(character))
            break;
        end += step;
    }
    *word_length = end - *at;
    return end > *at;
}

// ---- reading ----

int32_t fairseq_dictionary_find(const struct vocabulary *dictionary, const char *symbol, size_t length) {
    int32_t id = vocabulary_find(dictionary, symbol, length);
    return id < 0 ? FAIRSEQ_UNK : id;
}

// Splits off the part of a line after the last space; false if there is no space.
static bool cut_field(struct token_line *line, struct token_line *field) {
    size_t at = line->length;
    while (at > 0 && line->text[at - 1] != ' ')
        at--;
    if (at == 0)
        return false;
    *field = (struct token_line){line->text + at, line->length - at};
    line->length = at - 1;
    return true;
}

static bool is_integer(struct token_line field) {
    size_t at = field.length > 0 && (field.text[0] == '-' || field.text[0] == '+');
    if (at == field.length)
        return false;
    for (; at < field.length; at++)
        if (field.text[at] < '0' || field.text[at] > '9')
            return false;
    return true;
}

bool fairseq_dictionary_begins(const char *begin, size_t length) {
    const char *at = begin;
    struct token_line line = token_line_next(&at, begin + length), field;
    return cut_field(&line, &field) && is_integer(field);
}

static void strip_end(struct token_line *line) {
    size_t kept = 0;
    for (size_t at = 0; at < line->length;) {
        uint32_t character;
        at += utf8_decode((const unsigned char *)line->text + at, line->length - at, &character, NULL);
        if (!unicode_is_python_space(character))
            kept = at;
    }
    line->length = kept;
}

static int add_line(struct vocabulary *dictionary, struct token_line line, const char *place) {
    static const char overwrite[] = "#fairseq:overwrite";
    struct token_line field = {0};
    strip_end(&line);
    bool good = cut_field(&line, &field), overwrites = false;
    if (good && field.length == sizeof overwrite - 1 && memcmp(field.text, overwrite, field.length) == 0) {
        overwrites = true;
        good = cut_field(&line, &field);
    }
    if (!good || !is_integer(field))
        return error_set("%s: expected a symbol, a space and a count; this is not a fairseq dictionary", place);
    if (!overwrites && vocabulary_find(dictionary, line.text, line.length) >= 0)
        return error_set(
            "%s: the symbol \"%.*s\" occurs twice; write #fairseq:overwrite after the count, or remove one", place,
            line.length < 60 ? (int)line.length : 60, line.text);
    vocabulary_append(dictionary, line.text, line.length);
    return 0;
}

int fairseq_dictionary_parse(struct vocabulary *dictionary, const char *text, size_t length, const char *name) {
    size_t bad = utf8_check(text, length);
    if (bad < length)
        return error_set("%s: byte %zu is not UTF-8; this is not a fairseq dictionary", name, bad);
    if (length > MOST_BYTES)
        return error_set("%s: %zu bytes are too many for a dictionary", name, length);
    // fairseq would make the byte order mark part of the first word, which then matches no text.
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        return error_set("%s: it starts with a byte order mark; save it as UTF-8 without one", name);
    *dictionary = (struct vocabulary){0};
    for (int i = 0; i < FAIRSEQ_SPECIALS; i++)
        vocabulary_append(dictionary, specials[i], strlen(specials[i]));
    const char *end = text + length;
    struct buffer place = {0};
    int status = 0;
    for (int64_t line = 1; status == 0 && text < end; line++) {
        buffer_clear(&place);
        buffer_printf(&place, "%s:%" PRId64, name, line);
        status = add_line(dictionary, token_line_next(&text, end), place.data);
    }
    buffer_free(&place);
    if (status < 0)
        vocabulary_free(dictionary);
    return status;
}

// ---- building ----

void fairseq_count_words(struct byte_table *words, const char *text, size_t length) {
    size_t at = 0, bytes;
    while (fairseq_next_word(text, length, &at, &bytes)) {
        byte_table_get(words, text + at, bytes)->value++;
        at += bytes;
    }
}

struct counted_word {
    const unsigned char *bytes;
    size_t length;
    int64_t count;
};

static int compare_counted(const void *left, const void *right) {
    const struct counted_word *a = left, *b = right;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    int order = memcmp(a->bytes, b->bytes, a->length < b->length ? a->length : b->length);
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

static bool is_special(const struct counted_word *word) {
    for (int i = 0; i < FAIRSEQ_SPECIALS; i++)
        if (strlen(specials[i]) == word->length && memcmp(specials[i], word->bytes, word->length) == 0)
            return true;
    return false;
}

static bool is_word(const struct byte_table *words, const char *word) {
    for (int64_t i = 0; i < words->count; i++)
        if (words->strings[i].length == strlen(word) &&
            memcmp(words->bytes.data + words->strings[i].begin, word, words->strings[i].length) == 0)
            return true;
    return false;
}

void fairseq_build_dictionary(const struct byte_table *words, const struct fairseq_build *build, struct buffer *out) {
    struct counted_word *sorted = memory_alloc((size_t)(words->count + 1) * sizeof *sorted);
    int64_t count = 0, size = FAIRSEQ_SPECIALS;
    for (int64_t i = 0; i < words->count; i++) {
        struct counted_word word = {(const unsigned char *)words->bytes.data + words->strings[i].begin,
                                    words->strings[i].length, words->strings[i].value};
        if (!is_special(&word))  // already in the dictionary, and not written
            sorted[count++] = word;
    }
    qsort(sorted, (size_t)count, sizeof *sorted, compare_counted);
    for (int64_t i = 0; i < count && sorted[i].count >= build->threshold; i++) {
        if (build->most_words > 0 && size >= build->most_words)
            break;
        buffer_append(out, sorted[i].bytes, sorted[i].length);
        buffer_printf(out, " %" PRId64 "\n", sorted[i].count);
        size++;
    }
    free(sorted);
    for (int i = 0; build->multiple > 1 && size % build->multiple != 0; i++) {
        char *name = memory_printf("madeupword%04d", i);
        if (!is_word(words, name)) {  // if it is an existing word, only its count grows
            buffer_printf(out, "%s 0\n", name);
            size++;
        }
        free(name);
    }
}
