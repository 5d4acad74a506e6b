// Templates that are rendered without the dump's definitions, by name in lower case; '|' separates the names of a row.
// Most are a format: $1 is the first argument, $(2,text) the first of several that is given, $n the template's name and
// $N the same in capitals; <…> is omitted unless the arguments named directly in it are given; a leading * joins all
// arguments with the text after it. Dates, coordinates, fractions, values with errors and units, and pronunciations
// need a function.
#include "data/extract/wiki_template.h"
#include "data/extract/wiki_text.h"
#include "base/memory.h"
#include <stdlib.h>

static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                     "July",    "August",   "September", "October", "November", "December"};

// "4 July 1776", "July 4, 1776", "July 1776" or "1776"; a month may be given by name.
static void append_date(struct buffer *out, struct wiki_slice date[3], bool day_first) {
    struct wiki_slice month = date[1];
    int64_t number = wiki_small_number(month);
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

static void put_date(struct buffer *out, const struct wiki_call *call) {
    struct wiki_slice date[3] = {wiki_call_at(call, 1), wiki_call_at(call, 2), wiki_call_at(call, 3)};
    append_date(out, date, wiki_call_flag(call, "df"));
}

// {{date|4 July 1776}}, and the same written as numbers.
static void put_loose_date(struct buffer *out, const struct wiki_call *call) {
    struct wiki_slice date[3] = {wiki_call_at(call, 1), wiki_call_at(call, 2), wiki_call_at(call, 3)};
    if (wiki_small_number(date[0]) >= 0 && wiki_small_number(date[1]) >= 1)
        append_date(out, date, wiki_call_flag(call, "df"));
    else
        wiki_append(out, date[0]);
}

// {{OldStyleDate|1 January|1732|21 December 1731}}
static void put_old_style(struct buffer *out, const struct wiki_call *call) {
    wiki_append(out, wiki_call_at(call, 1));
    buffer_append_byte(out, ' ');
    wiki_append(out, wiki_call_at(call, 2));
    if (wiki_call_at(call, 3).length) {
        buffer_append_string(out, " [O.S. ");
        wiki_append(out, wiki_call_at(call, 3));
        buffer_append_byte(out, ']');
    }
}

static void put_as_of(struct buffer *out, const struct wiki_call *call) {
    struct wiki_slice alternative = wiki_call_get(call, "alt");
    if (alternative.length) {
        wiki_append(out, alternative);
        return;
    }
    struct wiki_slice date[3] = {wiki_call_at(call, 1), wiki_call_at(call, 2), wiki_call_at(call, 3)};
    bool is_lower = wiki_call_flag(call, "lc") || wiki_equal_case(wiki_call_get(call, "lc"), "on");
    if (wiki_call_flag(call, "since"))
        buffer_append_string(out, is_lower ? "since " : "Since ");
    else
        buffer_append_string(out, is_lower ? "as of " : "As of ");
    append_date(out, date, !wiki_equal(wiki_call_get(call, "df"), "US"));
}

// {{frac|3|4}} is 3/4, {{frac|2|3|4}} is 2 3/4, {{frac|4}} is 1/4.
static void put_frac(struct buffer *out, const struct wiki_call *call) {
    struct wiki_slice a = wiki_call_at(call, 1), b = wiki_call_at(call, 2), c = wiki_call_at(call, 3);
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
static void put_val(struct buffer *out, const struct wiki_call *call) {
    struct wiki_slice error = wiki_call_at(call, 2), lower = wiki_call_at(call, 3);
    struct wiki_slice exponent = wiki_call_get(call, "e"), unit = wiki_call_get(call, "u");
    wiki_append(out, wiki_call_get(call, "p"));
    wiki_format_number(out, wiki_call_at(call, 1));
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

static void put_number_first(struct buffer *out, const struct wiki_call *call) {
    wiki_format_number(out, wiki_call_at(call, 1));
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
static void put_coord(struct buffer *out, const struct wiki_call *call) {
    static const char *const signs[] = {"°", "′", "″"};
    struct wiki_slice display = wiki_call_get(call, "display");
    if (wiki_equal(display, "title") || wiki_equal(display, "t"))
        return;
    size_t before = out->length;
    int64_t place = 0, position = 1;
    for (; position <= 8 && wiki_call_at(call, position).length; position++) {
        struct wiki_slice value = wiki_call_at(call, position);
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
    if (!wiki_call_at(call, 2).length)
        return;
    put_decimal_degrees(out, wiki_call_at(call, 1), "N", "S");
    buffer_append_byte(out, ' ');
    put_decimal_degrees(out, wiki_call_at(call, 2), "E", "W");
}

// ---- pronunciation, chemistry ----

// {{IPAc-en|ˌ|æ|l|ə|ˈ|b|æ|m|ə}} is /ˌæləˈbæmə/; labels ("pron", "us") and sound files are skipped.
static void put_ipac_en(struct buffer *out, const struct wiki_call *call) {
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

static void put_respell(struct buffer *out, const struct wiki_call *call) {
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
static void put_chem(struct buffer *out, const struct wiki_call *call) {
    for (int64_t i = 0; i < call->count; i++)
        if (call->arguments[i].position)
            wiki_append(out, wiki_trim(call->arguments[i].value));
}

// ---- the tables ----

struct format_row {
    const char *format, *names;
};

// Symbols and short formats with one name.
static const struct format_row short_rows[] = {
    {"$(1)", "math"},    {"*-", "dts"},      {"*+", "key"},        {"*+", "key press"}, {"*+", "keypress"},
    {"$<$1>", "$"},      {"10^$1", "10^"},   {"A$<$1>", "a$"},     {"A$<$1>", "aud"},   {"As of $1", "asof"},
    {"⟨$1|", "bra"},     {"⟨$2⟩", "braket"}, {"CA$<$1>", "ca$"},   {"CA$<$1>", "cad"},  {"⌈$1⌉", "ceil"},
    {"CN¥<$1>", "cny"},  {"doi:$1", "doi"},  {"“$1”", "dquote"},   {"“$1”", "quoted"},  {"“$1”", "tq"},
    {"×10^$1", "e"},     {"×10^$1", "x10^"}, {"€<$1>", "eur"},     {"€<$1>", "euro"},   {"€<$1>", "€"},
    {"$1^$2", "exp"},    {"⌊$1⌋", "floor"},  {"‘$1’", "gloss"},    {"‘$1’", "squote"},  {"/$1/", "ipaslink"},
    {"/$1/", "phoneme"}, {"¥<$1>", "jpy"},   {"¥<$1>", "jp¥"},     {"¥<$1>", "¥"},      {"$5$1⟩", "ket"},
    {"₩<$1>", "krw"},    {"No. $1", "no."},  {"No. $1", "numero"}, {"‖$1‖", "norm"},    {"$1@$2", "nospam"},
    {"NZ$<$1>", "nz$"},  {"$1<$2>", "ord"},  {"$1^<$2>", "pow"},   {"₽<$1>", "rub"},  {"$1/$2", "sfrac2"},
    {"^$1", "sup"},      {"$ $1$", "tmath"}, {"U+$1", "unichar"},  {"US$<$1>", "us$"},  {"US$<$1>", "usd"},
    {"\x1E", "br"},      {"\x1E", "break"},  {"\x1E", "crlf"},     {"\x1E", "crlf2"},   {"—", "em dash"},
    {"—", "emdash"},     {"—", "mdash"},     {"—", "—"},           {"–", "en dash"},    {"–", "endash"},
    {"–", "ndash"},      {"–", "–"},         {"|", "!"},           {"|", "pipe"},       {"||", "!!"},
    {"|}", "!)"},        {"|-", "!-"},       {"“‘", "\"'"},        {"’", "'"},          {"’ ”", "' \""},
    {"’s", "'s"},        {"{|", "(!"},       {"”", "-\""},         {"…", "..."},        {"…", "ellipsis"},
    {"=", "="},          {"ʻ", "`"},         {"ʻ", "okina"},       {"ʿ", "ayin"},       {"•", "bull"},
    {"•", "bullet"},     {"•", "•"},         {"✓", "check mark"},  {"✓", "checkmark"},  {"✓", "tick"},
    {"✗", "cross"},      {"†", "dagger"},    {"†", "extinct"},     {"▼", "decrease"},   {"▼", "down"},
    {"▼", "loss"},       {"·", "dot"},       {"·", "middot"},      {"·", "·"},          {"\n |}\n", "end"},
    {"⇌", "eqm"},        {"♀", "female"},    {"♭", "flat"},        {"▲", "gain"},       {"▲", "increase"},
    {"▲", "up"},         {"ʾ", "hamza"},     {"#", "hash"},        {"♂", "male"},       {" — ", "mdashb"},
    {"−", "minus"},      {"N/A", "n/a"},     {"♮", "natural"},     {"+", "plus"},       {"\n|}\n", "s-end"},
    {"♯", "sharp"},      {"×", "times"},
};

static const struct format_row format_rows[] = {
    {"$1", "' '|=math|abbr|abbreviation|abbrlink|arabic|bibleref2|big|bigmath|bo-textonly|bold|button|caps|center|"
           "centre|char|chem name|cjkv|clarify span|cn span|codepoint|country|element|em|em quote|emphasis|"
           "fact span|flag|flagcountry|flaglink|flagteam|flagu|flatlist|grc|hebrew|highlight|ipa|ipa link|ipa2|"
           "ipalink|italic|italics|j|jyutping|kbd|large|larger|left|letter|longitem|longlink|lsj|married|midsize|"
           "mono|mvar|nastaliq|needs citation span|nihongo foot|nihongo2|no wrap|nobold|nobr|nobreak|noflag|"
           "noitalic|nonbold|normal|nowr|nowrap|nth|nts|nuclide|nuclide2|num|number|ordinal|overline|pinyin|"
           "plain list|plainlist|polytonic|proper name|rail gauge|railgauge|reference necessary|right|samp|sc|sc2|"
           "selflink|small|small caps|smallcaps|smallcaps all|smaller|sourcetext|strike|strikethrough|strong|sub|"
           "tooltip|tooltip2|track gauge|translate|tt|typo|underline|unicode|var|vec|verse translation|zh-c|"
           "zh-hans"},
    {"$2", "align|audio|audio-ipa|background color|bg|color|colour|flag+link|flagg|font color|fontcolor|"
           "hover title|hovertitle|native name|native phrase|overset|plain link|plainlink|pslink|rtl-lang|"
           "rtl-para|script|underset"},
    {"$(2,1)", "column list|columns list|columns-list|columnslist|music|resize|sort|srlink|url|url2|wikt|wt"},
    {"$(1,text)", "block indent|blockindent|bquote|citation needed span|dubious span|font|hanging indent|"
                  "poem quote|poemquote"},
    {"$(1,text,quote)", "block quote|blockquote|cquote|quotation|quote"},
    {"$(3,2)", "transl|translit|transliteration|wikt-lang"},
    {"$(1,code)", "code"},
    {"$(lt,1)", "ill|interlanguage link|interlanguage link multi"},
    {"$(2,text)", "lang|language"},
    {"$(lt,en)", "link-interwiki"},
    {"$(2,quote)", "rquote"},
    {"$(text,1)", "vanchor|visible anchor"},
    {"*, ", "bulleted list|collapsible list|comma separated entries|cslist|enum|hlist|ubl|ublist|unbulleted list|"
            "vunblist"},
    {"*", "as written|gaps|linktext|not a typo|notatypo"},
    {"$N $1< ($2)>", "hmas|hmcs|hms|ins|ms|mv|rms|sms|ss|usns|uss"},
    {"$N $1", "gts|isbn|issn|oclc|pmid|usat|uscgc"},
    {"$n $1", "b.|born|d.|died|p.|pp.|vol."},
    {"[$1]", "bracket|interp|ipa-all|ipablink|phone|phonetics"},
    {"$1< $2>", "bible ref|bible verse|bibleref|bibleverse|sortname"},
    {"⟨$1⟩", "angbr|angbr ipa|angle bracket|grapheme"},
    {"c. <$1>< – c. $2>", "c.|ca|ca.|circa"},
    {"\x05$1\x05", "abs|mabs"},
    {"arXiv:$1", "arxiv"},
    {"⟨$1|$2⟩", "bra-ket"},
    {"<Chinese: $(c,s,t)><; pinyin: $(p)>", "chinese"},
    {"Quran $1<:$2>", "cite quran|quran|quran-usc"},
    {"<$1 h ><$2 min><$3 s>", "duration"},
    {"fl. <$1>< – $2>", "fl.|floruit"},
    {"$1< ($2)>", "flagathlete"},
    {"£<$1>", "gbp|pound sterling|£"},
    {"<$(ft) ft><$(in) in><$(m) m><$(cm) cm>", "height"},
    {"₹<$1>", "indian rupee|inr|rupee"},
    {"$1-class $2", "jclass|sclass|sclass2"},
    {"<$1>< ($2)>", "ko-hhrm"},
    {"<$(hangul)>", "korean"},
    {"Greek: $1", "lang-grc-gre"},
    {"lit. ‘$1’< or ‘$2’>", "lit"},
    {"lit. ‘$1’", "literally"},
    {"$1 (m. $2<; $(end) $3>)", "marriage"},
    {"$1< ($2<, $3><, $4>)>", "nihongo|nihongo3"},
    {"$1< ($2<, $3>)>", "nihongo krt|nihongo4"},
    {"±<$1>", "plusminus"},
    {"r. <$1>< – $2>", "r.|reign"},
    {"$1 § $2", "section link|slink"},
    {"$1 $2< ($3)>", "ship"},
    {"$1< $2> [sic]", "sic"},
    {"$1-$2", "simplenuclide|simplenuclide2"},
    {"<$(p)>< $(b)>", "su"},
    {"<Chinese: $(c,s,t)><; pinyin: $(p)><; lit. ‘$(l)’>", "zh"},
    {" ", "hair space|hairsp|nbsp|nnbsp|pad|sp|space|spaces|thin space|thinsp"},
    {" – ", "snd|snds|spaced en dash|spaced ndash|spnd|spndash"},
    {"‡", "double dagger|double-dagger"},
    {"\n\n", "paragraph|paragraph break|pb"},
    {"(see above)", "see above"},
    {"(see below)", "see below"},
    {"", "centered pull quote|div col|fossil range|fs interlinear|hnd|hr|hs|listen|multiple image|notelist|"
         "nowrap begin|ntsh|official website|pull quote|quote box|refn|shy|steady|wbr|zwj|zwnj|zwsp"},
};

static const struct function_row {
    wiki_put *put;
    const char *names;
} function_rows[] = {
    {put_as_of, "as of"},
    {put_date, "bda|birth date|birth date and age|birth year and age|dda|death date|death date and age|dob|"
               "end date|film date|release date|start date|start date and age"},
    {put_loose_date, "birth-date|birth-date and age|date|death-date|death-date and age|end-date|start-date"},
    {put_chem, "chem|chem2"},
    {wiki_convert, "conv|convert|cvt"},
    {put_coord, "coord"},
    {put_number_first, "format price|formatnum|formatprice"},
    {put_frac, "frac|fraction|sfrac"},
    {put_ipac_en, "ipac-en"},
    {put_old_style, "oldstyledate"},
    {put_respell, "respell"},
    {put_val, "val"},
};

enum {
    SHORT_ROWS = sizeof short_rows / sizeof short_rows[0],
    FORMAT_ROWS = sizeof format_rows / sizeof format_rows[0],
    FUNCTION_ROWS = sizeof function_rows / sizeof function_rows[0]
};

// ---- lookup ----

static void add_names(struct wiki_natives *natives, const char *names, const char *format, wiki_put *put) {
    for (size_t length; *names; names += length + (names[length] == '|')) {
        length = strcspn(names, "|");
        MEMORY_GROW(natives->items, natives->count, natives->capacity);
        natives->items[natives->count++] = (struct wiki_native){{names, length}, format, put};
    }
}

static int compare_natives(const void *a, const void *b) {
    const struct wiki_slice *one = &((const struct wiki_native *)a)->name,
                            *other = &((const struct wiki_native *)b)->name;
    int order = memcmp(one->data, other->data, one->length < other->length ? one->length : other->length);
    return order != 0 ? order : (one->length > other->length) - (one->length < other->length);
}

void wiki_natives_open(struct wiki_natives *natives) {
    *natives = (struct wiki_natives){0};
    for (size_t i = 0; i < SHORT_ROWS; i++)
        add_names(natives, short_rows[i].names, short_rows[i].format, NULL);
    for (size_t i = 0; i < FORMAT_ROWS; i++)
        add_names(natives, format_rows[i].names, format_rows[i].format, NULL);
    for (size_t i = 0; i < FUNCTION_ROWS; i++)
        add_names(natives, function_rows[i].names, NULL, function_rows[i].put);
    qsort(natives->items, natives->count, sizeof *natives->items, compare_natives);
}

void wiki_natives_close(struct wiki_natives *natives) {
    free(natives->items);
    *natives = (struct wiki_natives){0};
}

const struct wiki_native *wiki_native_find(const struct wiki_natives *natives, struct wiki_slice name) {
    const struct wiki_native wanted = {.name = name};
    return bsearch(&wanted, natives->items, natives->count, sizeof wanted, compare_natives);
}
