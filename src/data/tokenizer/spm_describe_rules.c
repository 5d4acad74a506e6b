// SentencePiece replaces the longest rule that the text continues with. Hugging Face's Precompiled has the same rules,
// but processes a character and its marks (a short cluster) at once, and replaces all of it by the first rule that
// matches its beginning. So while Precompiled runs, a noncharacter separates each mark from the text before it; then
// all rules of one character give the same result. A few rules of several characters become separate steps. Many of
// them are the compositions of Unicode, and NFC applies them: mark after mark, as far as the order of marks lets a rule
// match. If characters are folded, a mark that becomes a letter when alone (U+0345 an iota) is hidden from Precompiled
// until then, and a rule whose result is not the composition of folded characters (I and U+0307 are U+0130) is a
// separate step. hf_check tests them.
#include "data/tokenizer/hf_parts.h"
#include "data/tokenizer/spm_model.h"

#include "data/tokenizer/base64.h"
#include "data/tokenizer/normal_form.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>

// Noncharacters: one is removed when a mark may join the text before it, the other stays to the end. Where a text has
// one of these itself, it is written as the third and a character for private use meanwhile.
#define APART "\xF4\x8F\xBF\xBE"
#define STAYS_APART "\xF4\x8F\xBF\xBF"
#define ESCAPE "\xF3\xBF\xBF\xBE"
enum { ESCAPED_FIRST = 0xF0000 };

enum { ABOVE = 230, ROUNDS = 3 };
enum { HIDDEN_FIRST = 0xFDD0, HIDDEN_COUNT = 32 };  // noncharacters that stand for hidden marks

struct rules {
    const struct charsmap *map;
    const struct unicode_table *table, *newest;
    bool *begins, *follows;  // (UNICODE_LIMIT) which characters come first and later in rules of several
};

static void note_rule(struct rules *rules, const struct charsmap_rule *rule) {
    uint32_t c;
    size_t at = utf8_decode((const unsigned char *)rule->key, rule->key_length, &c, NULL);
    if (at == rule->key_length)
        return;
    rules->begins[c] = true;
    while (at < rule->key_length) {
        at += utf8_decode((const unsigned char *)rule->key + at, rule->key_length - at, &c, NULL);
        rules->follows[c] = true;
    }
}

static bool is_mark(const struct rules *rules, uint32_t c) {
    return unicode_in_set(rules->table, c, UNICODE_SET_M);
}

// Characters that Unicode's cluster rules attach to the text before them.
static bool attaches(const void *opaque, uint32_t c) {
    const struct rules *rules = opaque;
    return unicode_in_set(rules->newest, c, UNICODE_SET_M) || is_mark(rules, c) || c == 0x200C || c == 0x200D ||
           c == 0xFF9E || c == 0xFF9F;
}

static struct charsmap_match rule_of(const struct rules *rules, uint32_t c) {
    char bytes[4];
    size_t length = utf8_encode(c, bytes);
    struct charsmap_match match = charsmap_longest(rules->map, bytes, length);
    return match.length == length ? match : (struct charsmap_match){0};
}

static bool is_deleted(const void *opaque, uint32_t c) {
    struct charsmap_match match = rule_of(opaque, c);
    return match.length > 0 && match.replacement_length == 0;
}

static bool follows(const void *opaque, uint32_t c) {
    const struct rules *rules = opaque;
    return rules->follows[c];
}

// Characters after which no rule composes a mark: they begin no rule of several, or become several characters.
static bool ends(const void *opaque, uint32_t c) {
    const struct rules *rules = opaque;
    struct charsmap_match match = rule_of(rules, c);
    uint32_t first;
    bool is_several = match.length > 0 &&
                      utf8_decode((const unsigned char *)match.replacement, match.replacement_length, &first, NULL) <
                          match.replacement_length;
    return is_several || (!rules->begins[c] && !rules->follows[c]);
}

// Marks with a class are ordered by it; others, e.g. vowel signs, behave like letters.
static bool is_ordered(const void *opaque, uint32_t c) {
    const struct rules *rules = opaque;
    return is_mark(rules, c) && normal_form_last_class(rules->table, c) != 0;
}

// A mark below, put after one above, would be reordered before it.
static bool ends_above(const void *opaque, uint32_t c) {
    const struct rules *rules = opaque;
    return is_ordered(opaque, c) || normal_form_last_class(rules->table, c) >= ABOVE;
}

static bool stays_in_place(const void *opaque, uint32_t c) {
    const struct rules *rules = opaque;
    int class = is_mark(rules, c) ? normal_form_last_class(rules->table, c) : 1;
    return class == 0 || class >= ABOVE;
}

// Marks that compose with the text before them, and otherwise become letters.
static bool becomes_letter(const struct rules *rules, uint32_t c) {
    if (!rules->follows[c] || !is_mark(rules, c))
        return false;
    struct charsmap_match match = rule_of(rules, c);
    uint32_t first;
    if (match.replacement_length == 0)
        return false;
    (void)utf8_decode((const unsigned char *)match.replacement, match.replacement_length, &first, NULL);
    return !is_mark(rules, first);
}

enum rule_stage { HIDE, SHOW, FOLD };

static void treat_hidden(struct json_writer *json, const struct rules *rules, enum rule_stage stage) {
    uint32_t stand_in = HIDDEN_FIRST;
    for (uint32_t c = 0; c < UNICODE_LIMIT && stand_in < HIDDEN_FIRST + HIDDEN_COUNT; c++) {
        if (!becomes_letter(rules, c))
            continue;
        char mark[5] = {0}, hidden[5] = {0};
        utf8_encode(c, mark);
        utf8_encode(stand_in++, hidden);
        struct charsmap_match match = rule_of(rules, c);
        char *letter = memory_printf("%.*s", (int)match.replacement_length, match.replacement);
        hf_step_replace(json, stage == SHOW ? hidden : mark, stage == HIDE ? hidden : stage == SHOW ? mark : letter);
        free(letter);
    }
}

// Escapes the characters that the steps insert, or restores them, in the opposite order.
static void escape(struct json_writer *json, const struct rules *rules, bool composes, bool restores) {
    char texts[3 + HIDDEN_COUNT][5] = {ESCAPE, APART, STAYS_APART};
    int count = composes ? 3 : 2;
    for (uint32_t c = 0; composes && c < UNICODE_LIMIT && count < 3 + HIDDEN_COUNT; c++)
        if (becomes_letter(rules, c)) {
            utf8_encode((uint32_t)(HIDDEN_FIRST + count - 3), texts[count]);
            count++;
        }
    for (int i = 0; i < count; i++) {
        char code[] = ESCAPE "....";
        int k = restores ? count - 1 - i : i;
        utf8_encode((uint32_t)(ESCAPED_FIRST + k), code + sizeof ESCAPE - 1);
        hf_step_replace(json, restores ? code : texts[k], restores ? texts[k] : code);
    }
}

static bool has_any(const struct buffer *set) {
    return set->length > 2;
}

// Hugging Face's library panics if Precompiled deletes the beginning of a text.
static void delete_first(struct json_writer *json, const struct rules *rules) {
    struct buffer pattern = {0};
    hf_pattern_set(&pattern, is_deleted, rules);
    if (has_any(&pattern))
        hf_step_replace_pattern(json, &pattern, "");
    buffer_free(&pattern);
}

// Separates only marks that attach to a cluster. (At the very beginning of a text the library cannot insert.)
static void keep_apart(struct json_writer *json, const struct rules *rules, bool composes) {
    struct buffer pattern = {0};
    if (composes) {
        buffer_append_string(&pattern, "(?<=");
        hf_pattern_set(&pattern, ends, rules);
        buffer_append_string(&pattern, ")(?=");
        hf_pattern_set(&pattern, follows, rules);
        buffer_append_byte(&pattern, ')');
        hf_step_replace_pattern(json, &pattern, STAYS_APART);
        buffer_clear(&pattern);
    }
    delete_first(json, rules);
    buffer_append_string(&pattern, "(?<=[\\s\\S])(?=");
    hf_pattern_set(&pattern, attaches, rules);
    buffer_append_string(&pattern, ")|(?<=\\r)(?=\\n)");
    hf_step_replace_pattern(json, &pattern, APART);
    buffer_free(&pattern);
}

static void compose(struct json_writer *json, const struct rules *rules) {
    struct buffer pattern = {0};
    buffer_append_string(&pattern, "(?<!");
    hf_pattern_set(&pattern, ends_above, rules);
    buffer_append_string(&pattern, ")" APART "|(?<!");
    hf_pattern_set(&pattern, is_ordered, rules);
    buffer_append_string(&pattern, ")" APART "(?=");
    hf_pattern_set(&pattern, stays_in_place, rules);
    buffer_append_byte(&pattern, ')');
    for (int round = 0; round < ROUNDS; round++) {
        hf_step_replace_pattern(json, &pattern, "");
        hf_step_plain(json, "NFC");
    }
    buffer_free(&pattern);
}

// ---- rules of several characters ----

enum { FEW = 64, PROBES = 2000 };

struct listing {
    struct rules *rules;
    struct hf_parts *parts;
    struct json_writer *json;
    int64_t count, stride;
    size_t length;  // of the keys that become steps
    size_t longest;
    struct normal_form_rules form;
};

static bool is_one_character(const struct charsmap_rule *rule) {
    uint32_t first;
    return utf8_decode((const unsigned char *)rule->key, rule->key_length, &first, NULL) == rule->key_length;
}

static void count_rule(void *opaque, const struct charsmap_rule *rule) {
    struct listing *listing = opaque;
    if (is_one_character(rule))
        return;
    listing->count++;
    note_rule(listing->rules, rule);
    listing->longest = rule->key_length > listing->longest ? rule->key_length : listing->longest;
}

static void write_rule(void *opaque, const struct charsmap_rule *rule) {
    struct listing *listing = opaque;
    char key[65];
    if (is_one_character(rule) || rule->key_length != listing->length)
        return;
    memcpy(key, rule->key, rule->key_length);
    key[rule->key_length] = 0;
    hf_step_replace(listing->json, key, rule->replacement);
}

// A rule of a folded character and a mark whose result differs from folding and composing.
static void write_exception(void *opaque, const struct charsmap_rule *rule) {
    struct listing *listing = opaque;
    const struct rules *rules = listing->rules;
    const unsigned char *key = (const unsigned char *)rule->key, *to = (const unsigned char *)rule->replacement;
    size_t to_length = strlen(rule->replacement);
    uint32_t first, second, folded, result;
    size_t at = utf8_decode(key, rule->key_length, &first, NULL);
    if (at == rule->key_length || at + utf8_decode(key + at, rule->key_length - at, &second, NULL) != rule->key_length)
        return;
    struct charsmap_match match = rule_of(rules, first);
    bool is_folded = match.replacement_length > 0 &&
                     utf8_decode((const unsigned char *)match.replacement, match.replacement_length, &folded, NULL) ==
                         match.replacement_length;
    if (!is_folded || !is_mark(rules, second) || becomes_letter(rules, second) || to_length == 0 ||
        utf8_decode(to, to_length, &result, NULL) != to_length || rule_of(rules, result).length > 0)
        return;
    struct character_list composed = {0};
    normal_form_apply(&listing->form, (const uint32_t[]){folded, second}, 2, &composed);
    if (composed.count != 1 || composed.items[0] != result) {
        char *text = memory_printf("%.*s", (int)rule->key_length, rule->key);
        hf_step_replace(listing->json, text, rule->replacement);
        free(text);
    }
    character_list_free(&composed);
}

static void add_probe(void *opaque, const struct charsmap_rule *rule) {
    struct listing *listing = opaque;
    if (is_one_character(rule) || listing->count++ % listing->stride != 0)
        return;
    buffer_append(&listing->parts->probes, rule->key, rule->key_length);
    buffer_append_byte(&listing->parts->probes, 0);
}

void spm_describe_rules(const struct spm_normaliser *normaliser, struct hf_parts *parts, struct json_writer *json) {
    const struct spm_text *map = &normaliser->spec.charsmap;
    if (map->length == 0)
        return;
    struct unicode_table *table = unicode_table_create(UNICODE_EDITION_9);
    struct unicode_table *newest = unicode_table_create(UNICODE_EDITION_16);  // clusters are those of the library
    struct rules rules = {.map = &normaliser->map,
                          .table = table,
                          .newest = newest,
                          .begins = memory_alloc(UNICODE_LIMIT * sizeof *rules.begins),
                          .follows = memory_alloc(UNICODE_LIMIT * sizeof *rules.follows)};
    struct listing listing = {.rules = &rules, .parts = parts, .json = json};
    charsmap_for_each(&normaliser->map, count_rule, &listing);
    bool are_few = listing.count <= FEW;
    escape(json, &rules, !are_few, false);
    for (listing.length = listing.longest; are_few && listing.length > 0; listing.length--)
        charsmap_for_each(&normaliser->map, write_rule, &listing);
    struct normal_form_pairs *pairs = are_few ? NULL : normal_form_pairs_create(table);
    listing.form = (struct normal_form_rules){NORMAL_FORM_C, table, pairs};
    if (!are_few)
        charsmap_for_each(&normaliser->map, write_exception, &listing);
    normal_form_pairs_free(pairs);
    keep_apart(json, &rules, !are_few);
    if (!are_few)
        treat_hidden(json, &rules, HIDE);
    struct buffer text = {0};
    base64_encode(map->data, map->length, &text);
    hf_step(json, "Precompiled");
    json_put_string(json, "precompiled_charsmap", buffer_string(&text));
    json_end_object(json);
    buffer_free(&text);
    if (!are_few) {
        treat_hidden(json, &rules, SHOW);
        compose(json, &rules);
        treat_hidden(json, &rules, FOLD);
    }
    hf_step_replace(json, APART, "");
    if (!are_few)
        hf_step_replace(json, STAYS_APART, "");
    escape(json, &rules, !are_few, true);
    free(rules.begins);
    free(rules.follows);
    free(table);
    free(newest);
    listing.stride = listing.count / PROBES + 1;
    listing.count = 0;
    charsmap_for_each(&normaliser->map, add_probe, &listing);
}
