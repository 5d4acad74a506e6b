// The word lists of English, and the lookup of words in lists.
#include "data/sentence_words.h"

#include "base/utf8.h"
#include "data/tokenizer/unicode_category.h"
#include <string.h>

enum { LONGEST_WORD = 24 };

const struct sentence_language sentence_english = {
    .names = "english en eng",
    .leading = WORD_LIST(' ', "approx ca cf e.g eg i.e ie v viz vs"),
    .titles = WORD_LIST(
        ' ', "adm atty brig capt cmdr col comdr cpl dr drs fr gen gov hon insp lt maj messrs mlle mme mr mrs ms msgr "
             "mt pfc pres prof profs pvt rep reps rev sen sens sgt st ste supt treas"),
    .before_count = WORD_LIST(
        ' ', "app art arts bd c ch chap chs cl eq eqs ex fig figs fol gal ll n no nos nr op p par para pl pp pt pts "
             "sec sect ser tab vol vols"),
    .inside = WORD_LIST(
        ' ', "a.d a.k.a acad aka al ala apr ariz assn assoc aug ave b.a b.c b.sc bldg blvd bros calif cent cie circ "
             "co colo conn corp ct d.c dec dept dist div ed eds esq est et ext feb fla fri ft ga gmbh gov't govt hrs "
             "hwy ibid inc incl ind inst int'l intl jan jr jul jun kan ky lb lbs ltd m.a m.d m.sc mar mass max md mfg "
             "mich minn misc mont mts n.b nat'l natl neb nev nov oct okla oz pa penn ph.d phd pref prov pub publ rd "
             "ref repr resp sept soc sr stat suppl tel tenn tex thurs trans transl tues u.k u.n u.s u.s.a univ va vt "
             "wed wis wyo"),
    .closing = WORD_LIST(' ', "&c a.m am etc p.m pm"),
    .openers = WORD_LIST(
        ' ', "a according after again all along also although among an and another any are as at because before both "
             "but by can could despite did do does during each either even every few finally first for from had has "
             "have he hence her here his how however i if in indeed instead is it its later many meanwhile more "
             "moreover most my neither nevertheless no nor not now of on once one only or other others our over "
             "perhaps several she since so some soon still such that the their then there therefore these they this "
             "those though through thus to today two under unlike until upon was we were what when where whether "
             "which while who why will with within without would yes yet you your"),
};

// ---- languages ----

static const struct sentence_language *const languages[] = {
    &sentence_english,   &sentence_czech,   &sentence_danish,     &sentence_dutch,   &sentence_estonian,
    &sentence_finnish,   &sentence_french,  &sentence_german,     &sentence_greek,   &sentence_italian,
    &sentence_norwegian, &sentence_polish,  &sentence_portuguese, &sentence_russian, &sentence_slovene,
    &sentence_spanish,   &sentence_swedish, &sentence_turkish,
};
enum { LANGUAGES = sizeof languages / sizeof languages[0] };

// Is the word in a space-separated list? For short lists in any order.
static bool is_among(const char *list, const char *word, size_t length) {
    for (const char *at = list; (at = strstr(at, word)); at++)
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
            return true;
    return false;
}

const struct sentence_language *sentence_language_find(const char *name) {
    enum { LONGEST_NAME = 32 };
    char lower[LONGEST_NAME] = "";
    size_t length = strlen(name);
    if (length == 0 || length >= LONGEST_NAME || strchr(name, ' '))
        return NULL;
    for (size_t i = 0; i < length; i++)
        lower[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] - 'A' + 'a') : name[i];
    for (size_t i = 0; i < LANGUAGES; i++)
        if (is_among(languages[i]->names, lower, length))
            return languages[i];
    return NULL;
}

const struct sentence_language *sentence_language_at(size_t number) {
    return number < LANGUAGES ? languages[number] : NULL;
}

const struct sentence_language *sentence_word_language(const struct sentence_language *language, const char *word,
                                                       size_t length) {
    unsigned char first = length > 0 ? (unsigned char)*word : 0;
    if (first >= 0xD0 && first <= 0xD4)
        return &sentence_russian;
    return first == 0xCE || first == 0xCF ? &sentence_greek : language;
}

// ---- lists ----

// Copies the word in lower case; returns its length, 0 if it is too long to be in a list.
static size_t lower(const char *word, size_t length, char out[LONGEST_WORD + 4]) {
    size_t done = 0;
    for (size_t at = 0; at < length;) {
        unsigned char byte = (unsigned char)word[at];
        if (done >= LONGEST_WORD)
            return 0;
        if (byte < 0x80) {
            out[done++] = byte >= 'A' && byte <= 'Z' ? (char)(byte + 'a' - 'A') : (char)byte;
            at++;
            continue;
        }
        uint32_t character;
        at += utf8_decode((const unsigned char *)word + at, length - at, &character, NULL);
        done += utf8_encode(unicode_lower(character), out + done);
    }
    return done;
}

static bool has_ending(const char *word, size_t length, const char *endings) {
    for (const char *at = endings; at && *at;) {
        size_t bytes = strcspn(at, " ");
        if (length > bytes && memcmp(word + length - bytes, at, bytes) == 0)
            return true;
        at += bytes + (at[bytes] == ' ');
    }
    return false;
}

static bool is_capital(const char *word, size_t length) {
    uint32_t first;
    utf8_decode((const unsigned char *)word, length, &first, NULL);
    return unicode_lower(first) != first;
}

enum sentence_abbreviation sentence_abbreviation(const struct sentence_language *language, const char *word,
                                                 size_t length) {
    char text[LONGEST_WORD + 4];
    size_t bytes = length > 0 ? lower(word, length, text) : 0;
    if (bytes == 0)
        return SENTENCE_WORD;
    if (word_list_has(&language->leading, text, bytes) ||
        (is_capital(word, length) && word_list_has(&language->titles, text, bytes)))
        return SENTENCE_LEADS;
    if (word_list_has(&language->before_count, text, bytes))
        return SENTENCE_BEFORE_COUNT;
    if (word_list_has(&language->inside, text, bytes) || has_ending(text, bytes, language->endings))
        return SENTENCE_INSIDE;
    return word_list_has(&language->closing, text, bytes) ? SENTENCE_CLOSES : SENTENCE_WORD;
}

bool sentence_is_opener(const struct sentence_language *language, const char *word, size_t length) {
    char text[LONGEST_WORD + 4];
    size_t bytes = length > 0 ? lower(word, length, text) : 0;
    return bytes > 0 && word_list_has(&language->openers, text, bytes);
}
