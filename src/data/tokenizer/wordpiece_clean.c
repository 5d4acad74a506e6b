// Characters in BERT's basic tokenizer: which are dropped, which separate words, lower case and accents.
#include "data/tokenizer/normal_form.h"
#include "data/tokenizer/wordpiece.h"
#include "base/utf8.h"

static bool in_range(uint32_t c, uint32_t first, uint32_t last) {
    return c >= first && c <= last;
}

// Hugging Face's table begins its sixth range at U+2B920, Google's at U+2B820.
static bool is_cjk(const struct bert_rules *rules, uint32_t c) {
    if (c < 0x3400)
        return false;
    return in_range(c, 0x4E00, 0x9FFF) || in_range(c, 0x3400, 0x4DBF) || in_range(c, 0x20000, 0x2A6DF) ||
           in_range(c, 0x2A700, 0x2B81F) || in_range(c, rules->google ? 0x2B820 : 0x2B920, 0x2CEAF) ||
           in_range(c, 0xF900, 0xFAFF) || in_range(c, 0x2F800, 0x2FA1F);
}

static bool is_ascii_punctuation(uint32_t c) {
    return in_range(c, 33, 47) || in_range(c, 58, 64) || in_range(c, 91, 96) || in_range(c, 123, 126);
}

enum bert_class bert_classify(const struct bert_rules *rules, uint32_t c) {
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
        return BERT_BLANK;
    if (c == 0 || c == 0xFFFD)
        return BERT_DROPPED;
    if (is_ascii_punctuation(c))
        return BERT_PUNCTUATION;
    enum unicode_category category = unicode_category(rules->table, c);
    uint32_t dropped = UNICODE_SET(UNICODE_CC) | UNICODE_SET(UNICODE_CF);
    if (!rules->google)
        dropped |= UNICODE_SET(UNICODE_CO);
    if (dropped >> category & 1)
        return BERT_DROPPED;
    if (UNICODE_SET_P >> category & 1)
        return BERT_PUNCTUATION;
    // Python's split and Rust's treat line and paragraph separators as spaces.
    if (UNICODE_SET_Z >> category & 1)
        return BERT_BLANK;
    return is_cjk(rules, c) ? BERT_CJK : BERT_WORD;
}

// ---- the two small sigmas ----

// The properties Other_Lowercase and Other_Uppercase: cased characters that are neither Lu, Ll nor Lt.
static bool is_otherwise_cased(uint32_t c) {
    static const uint32_t ranges[][2] = {
        {0xAA, 0xAA},       {0xBA, 0xBA},       {0x2B0, 0x2B8},     {0x2C0, 0x2C1},     {0x2E0, 0x2E4},
        {0x345, 0x345},     {0x37A, 0x37A},     {0x10FC, 0x10FC},   {0x1D2C, 0x1D6A},   {0x1D78, 0x1D78},
        {0x1D9B, 0x1DBF},   {0x2071, 0x2071},   {0x207F, 0x207F},   {0x2090, 0x209C},   {0x2160, 0x217F},
        {0x24B6, 0x24E9},   {0x2C7C, 0x2C7D},   {0xA69C, 0xA69D},   {0xA770, 0xA770},   {0xA7F2, 0xA7F4},
        {0xA7F8, 0xA7F9},   {0xAB5C, 0xAB5F},   {0xAB69, 0xAB69},   {0x10780, 0x10780}, {0x10783, 0x10785},
        {0x10787, 0x107B0}, {0x107B2, 0x107BA}, {0x1E030, 0x1E06D}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169},
        {0x1F170, 0x1F189},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (in_range(c, ranges[i][0], ranges[i][1]))
            return true;
    return false;
}

bool bert_is_cased(const struct unicode_table *table, uint32_t c) {
    return unicode_in_set(table, c, UNICODE_SET_RANGE(UNICODE_LU, UNICODE_LT)) || is_otherwise_cased(c);
}

// The property Case_Ignorable: some categories, and characters that may occur inside a word.
bool bert_is_case_ignorable(const struct unicode_table *table, uint32_t c) {
    static const uint32_t inside_words[] = {0x27,   0x2E,   0x3A,   0xB7,   0x387,  0x55F,  0x5F4,  0x2018, 0x2019,
                                            0x2024, 0x2027, 0xFE13, 0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
    for (size_t i = 0; i < sizeof inside_words / sizeof inside_words[0]; i++)
        if (c == inside_words[i])
            return true;
    return unicode_in_set(table, c,
                          UNICODE_SET(UNICODE_MN) | UNICODE_SET(UNICODE_ME) | UNICODE_SET(UNICODE_CF) |
                              UNICODE_SET(UNICODE_LM) | UNICODE_SET(UNICODE_SK));
}

// The character that ends before `at`, which is after `begin`.
static uint32_t character_before(const unsigned char *begin, const unsigned char **at) {
    const unsigned char *lead = *at - 1;
    while (lead > begin && *at - lead < 4 && (*lead & 0xC0) == 0x80)
        lead--;
    uint32_t character;
    if (utf8_decode(lead, (size_t)(*at - lead), &character, NULL) != (size_t)(*at - lead)) {
        lead = *at - 1;
        character = 0xFFFD;
    }
    *at = lead;
    return character;
}

// Whether a cased letter precedes characters[index], ignoring characters that case ignores. The search continues into
// the text before the part, which was already processed, up to the previous space or CJK character.
static bool cased_before(const struct bert_rules *rules, const struct bert_part *part, size_t index) {
    while (index > 0) {
        uint32_t c = part->characters->items[--index];
        if (!bert_is_case_ignorable(rules->table, c))
            return bert_is_cased(rules->table, c);
    }
    for (const unsigned char *at = part->part; at > part->before;) {
        uint32_t c = character_before(part->before, &at);
        enum bert_class class = bert_classify(rules, c);
        if (class == BERT_DROPPED)
            continue;
        if (class == BERT_BLANK || class == BERT_CJK)
            return false;
        if (!bert_is_case_ignorable(rules->table, c))
            return bert_is_cased(rules->table, c);
    }
    return false;
}

static bool cased_after(const struct bert_rules *rules, const struct bert_part *part, size_t index) {
    while (++index < part->characters->count) {
        uint32_t c = part->characters->items[index];
        if (!bert_is_case_ignorable(rules->table, c))
            return bert_is_cased(rules->table, c);
    }
    return false;
}

// ---- lower case and accents ----

static void append_lower(const struct bert_rules *rules, const struct bert_part *part, size_t index,
                         struct character_list *out) {
    uint32_t c = part->characters->items[index];
    if (c == 0x3A3 && rules->google) {
        bool final = cased_before(rules, part, index) && !cased_after(rules, part, index);
        character_list_append(out, final ? 0x3C2 : 0x3C3);
    } else if (c == 0x130) {
        character_list_append(out, 'i');
        character_list_append(out, 0x307);
    } else {
        character_list_append(out, unicode_lower(c));
    }
}

static void strip_accents(const struct bert_rules *rules, const struct character_list *in, struct character_list *out) {
    size_t begin = out->count, kept = begin;
    struct normal_form_rules form = {.form = NORMAL_FORM_D, .known = rules->decomposed};
    normal_form_apply(&form, in->items, in->count, out);
    for (size_t i = begin; i < out->count; i++)
        if (unicode_category(rules->table, out->items[i]) != UNICODE_MN)
            out->items[kept++] = out->items[i];
    out->count = kept;
}

static void lower(const struct bert_rules *rules, const struct bert_part *part, struct character_list *out) {
    for (size_t i = 0; i < part->characters->count; i++)
        if (rules->lower)
            append_lower(rules, part, i, out);
        else
            character_list_append(out, part->characters->items[i]);
}

void bert_normalize(const struct bert_rules *rules, const struct bert_part *part, struct bert_state *state) {
    state->middle.count = 0;
    if (!rules->strip_accents) {
        lower(rules, part, &state->normal);
    } else if (rules->google) {
        lower(rules, part, &state->middle);
        strip_accents(rules, &state->middle, &state->normal);
    } else {
        strip_accents(rules, part->characters, &state->middle);
        lower(rules, &(struct bert_part){part->before, part->part, &state->middle}, &state->normal);
    }
}
