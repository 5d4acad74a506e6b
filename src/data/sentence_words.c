// The word lists of the sentence splitter, in byte order for a binary search. A word that is also common by itself
// ("in", "sat", "miss") is left out: a full stop after it ends a sentence far more often.
#include "data/sentence_words.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST_WORD = 15 };

static const char *const leading[] = {
    "approx", "ca", "cf", "e.g", "eg", "i.e", "ie", "v", "viz", "vs",
};

// These count only if they begin with a capital.
static const char *const titles[] = {
    "adm",   "atty", "brig", "capt",   "cmdr", "col", "comdr", "cpl", "dr", "drs",  "fr",   "gen",   "gov",  "hon",
    "insp",  "lt",   "maj",  "messrs", "mlle", "mme", "mr",    "mrs", "ms", "msgr", "mt",   "pfc",   "pres", "prof",
    "profs", "pvt",  "rep",  "reps",   "rev",  "sen", "sens",  "sgt", "st", "ste",  "supt", "treas",
};

static const char *const before_count[] = {
    "app",  "art",  "arts", "bd",  "c",   "ch",  "chap", "chs", "cl",  "eq",  "eqs",  "ex",
    "fig",  "figs", "fol",  "gal", "ll",  "n",   "no",   "nos", "nr",  "op",  "p",    "par",
    "para", "pl",   "pp",   "pt",  "pts", "sec", "sect", "ser", "tab", "vol", "vols",
};

static const char *const inside[] = {
    "a.d",    "a.k.a", "acad", "aka",  "al",   "ala",   "apr",   "ariz", "assn",  "assoc", "aug",   "ave",
    "b.a",    "b.c",   "b.sc", "bldg", "blvd", "bros",  "calif", "cent", "cie",   "circ",  "co",    "colo",
    "conn",   "corp",  "ct",   "d.c",  "dec",  "dept",  "dist",  "div",  "ed",    "eds",   "esq",   "est",
    "et",     "ext",   "feb",  "fla",  "fri",  "ft",    "ga",    "gmbh", "gov't", "govt",  "hrs",   "hwy",
    "ibid",   "inc",   "incl", "ind",  "inst", "int'l", "intl",  "jan",  "jr",    "jul",   "jun",   "kan",
    "ky",     "lb",    "lbs",  "ltd",  "m.a",  "m.d",   "m.sc",  "mar",  "mass",  "max",   "md",    "mfg",
    "mich",   "minn",  "misc", "mont", "mts",  "n.b",   "nat'l", "natl", "neb",   "nev",   "nov",   "oct",
    "okla",   "oz",    "pa",   "penn", "ph.d", "phd",   "pref",  "prov", "pub",   "publ",  "rd",    "ref",
    "repr",   "resp",  "sept", "soc",  "sr",   "stat",  "suppl", "tel",  "tenn",  "tex",   "thurs", "trans",
    "transl", "tues",  "u.k",  "u.n",  "u.s",  "u.s.a", "univ",  "va",   "vt",    "wed",   "wis",   "wyo",
};

static const char *const closing[] = {
    "&c", "a.m", "am", "etc", "p.m", "pm",
};

static const char *const openers[] = {
    "a",       "according", "after",   "again",    "all",       "along",  "also",    "although",
    "among",   "an",        "and",     "another",  "any",       "are",    "as",      "at",
    "because", "before",    "both",    "but",      "by",        "can",    "could",   "despite",
    "did",     "do",        "does",    "during",   "each",      "either", "even",    "every",
    "few",     "finally",   "first",   "for",      "from",      "had",    "has",     "have",
    "he",      "hence",     "her",     "here",     "his",       "how",    "however", "i",
    "if",      "in",        "indeed",  "instead",  "is",        "it",     "its",     "later",
    "many",    "meanwhile", "more",    "moreover", "most",      "my",     "neither", "nevertheless",
    "no",      "nor",       "not",     "now",      "of",        "on",     "once",    "one",
    "only",    "or",        "other",   "others",   "our",       "over",   "perhaps", "several",
    "she",     "since",     "so",      "some",     "soon",      "still",  "such",    "that",
    "the",     "their",     "then",    "there",    "therefore", "these",  "they",    "this",
    "those",   "though",    "through", "thus",     "to",        "today",  "two",     "under",
    "unlike",  "until",     "upon",    "was",      "we",        "were",   "what",    "when",
    "where",   "whether",   "which",   "while",    "who",       "why",    "will",    "with",
    "within",  "without",   "would",   "yes",      "yet",       "you",    "your",
};

static int compare(const void *key, const void *entry) {
    return strcmp(key, *(const char *const *)entry);
}

static bool is_listed(const char *word, const char *const *list, size_t bytes) {
    return bsearch(word, list, bytes / sizeof *list, sizeof *list, compare) != NULL;
}

#define IS_LISTED(word, list) is_listed(word, list, sizeof(list))

// Copies the word in lower case; false if it is too long to be listed.
static bool lower(const char *word, size_t length, char out[LONGEST_WORD + 1]) {
    if (length > LONGEST_WORD)
        return false;
    for (size_t i = 0; i < length; i++)
        out[i] = word[i] >= 'A' && word[i] <= 'Z' ? (char)(word[i] + 'a' - 'A') : word[i];
    out[length] = 0;
    return true;
}

enum sentence_abbreviation sentence_abbreviation(const char *word, size_t length) {
    char text[LONGEST_WORD + 1];
    if (length == 0 || !lower(word, length, text))
        return SENTENCE_WORD;
    bool is_capital = *word >= 'A' && *word <= 'Z';
    if (IS_LISTED(text, leading) || (is_capital && IS_LISTED(text, titles)))
        return SENTENCE_LEADS;
    if (IS_LISTED(text, before_count))
        return SENTENCE_BEFORE_COUNT;
    if (IS_LISTED(text, inside))
        return SENTENCE_INSIDE;
    return IS_LISTED(text, closing) ? SENTENCE_CLOSES : SENTENCE_WORD;
}

bool sentence_is_opener(const char *word, size_t length) {
    char text[LONGEST_WORD + 1];
    return lower(word, length, text) && IS_LISTED(text, openers);
}
