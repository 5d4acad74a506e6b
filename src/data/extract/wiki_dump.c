// Finds elements by their tags, in the order that all dumps use.
#include "data/extract/wiki_dump.h"
#include "data/extract/wiki_text.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <stdlib.h>

// Names that every MediaWiki accepts besides those of its own language.
static const struct {
    int64_t key;
    const char *name;
} english_names[] = {
    {-2, "Media"},     {-1, "Special"},       {1, "Talk"},           {2, "User"},           {3, "User talk"},
    {4, "Project"},    {5, "Project talk"},   {6, "File"},           {6, "Image"},          {7, "File talk"},
    {8, "MediaWiki"},  {9, "MediaWiki talk"}, {10, "Template"},      {11, "Template talk"}, {12, "Help"},
    {13, "Help talk"}, {14, "Category"},      {15, "Category talk"},
};

static struct wiki_slice after(struct wiki_slice text, const char *position) {
    return (struct wiki_slice){position, (size_t)(text.data + text.length - position)};
}

static const char *find(struct wiki_slice text, const char *string) {
    return text.length ? memmem(text.data, text.length, string, strlen(string)) : NULL;
}

// The text between an open and a close tag, both given in full.
static bool element(struct wiki_slice text, const char *open, const char *close, struct wiki_slice *content) {
    const char *begin = find(text, open);
    if (!begin)
        return false;
    *content = after(text, begin + strlen(open));
    const char *end = find(*content, close);
    if (!end)
        return false;
    content->length = (size_t)(end - content->data);
    return true;
}

static int64_t whole_number(struct wiki_slice text) {
    int64_t value = 0;
    text = wiki_trim(text);
    bool negative = text.length && text.data[0] == '-';
    for (size_t i = negative; i < text.length; i++) {
        if (text.data[i] < '0' || text.data[i] > '9' || value > INT64_MAX / 100)
            return INT64_MIN;
        value = value * 10 + (text.data[i] - '0');
    }
    return text.length > negative ? (negative ? -value : value) : INT64_MIN;
}

static char *copy_unescaped(struct wiki_slice text) {
    struct buffer copy = {0};
    wiki_unescape(&copy, text);
    char *string = memory_string(buffer_string(&copy));
    buffer_free(&copy);
    return string;
}

// ---- the header ----

static void add_namespace(struct wiki_site *site, int64_t key, char *name) {
    size_t count = (size_t)site->namespace_count + 1;
    site->namespaces = memory_realloc(site->namespaces, count * sizeof *site->namespaces);
    site->namespaces[site->namespace_count++] = (struct wiki_namespace){key, name};
}

static void parse_namespaces(struct wiki_site *site, struct wiki_slice header) {
    enum { MOST_NAMESPACES = 1000 };
    struct wiki_slice rest, content, key;
    if (!element(header, "<namespaces>", "</namespaces>", &rest))
        return;
    const char *next;
    while (site->namespace_count < MOST_NAMESPACES && (next = find(rest, "<namespace "))) {
        rest = after(rest, next + 1);
        const char *end = memchr(rest.data, '>', rest.length);
        if (!end)
            return;
        struct wiki_slice tag = {rest.data, (size_t)(end - rest.data)};
        if (end[-1] != '/' && element(tag, "key=\"", "\"", &key) && element(rest, ">", "</namespace>", &content) &&
            whole_number(key) != INT64_MIN)
            add_namespace(site, whole_number(key), copy_unescaped(content));
        rest = after(rest, end);
    }
}

void wiki_site_parse(struct wiki_site *site, struct wiki_slice header) {
    struct wiki_slice content;
    *site = (struct wiki_site){0};
    if (element(header, "<base>", "</base>", &content)) {
        while (content.length && content.data[content.length - 1] != '/')
            content.length--;
        content.length -= content.length > 0;
        site->url = copy_unescaped(content);
    }
    if (element(header, "xml:lang=\"", "\"", &content))
        site->language = copy_unescaped(content);
    site->url = site->url ? site->url : memory_string("");
    site->language = site->language ? site->language : memory_string("");
    parse_namespaces(site, header);
    for (size_t i = 0; i < sizeof english_names / sizeof english_names[0]; i++)
        add_namespace(site, english_names[i].key, memory_string(english_names[i].name));
}

void wiki_site_free(struct wiki_site *site) {
    for (int64_t i = 0; i < site->namespace_count; i++)
        free(site->namespaces[i].name);
    free(site->namespaces);
    free(site->url);
    free(site->language);
    *site = (struct wiki_site){0};
}

bool wiki_site_namespace(const struct wiki_site *site, struct wiki_slice name, int64_t *key) {
    name = wiki_trim(name);
    for (int64_t i = 0; i < site->namespace_count; i++) {
        const struct wiki_namespace *known = &site->namespaces[i];
        if (wiki_equal_case(name, known->name)) {
            *key = known->key;
            return true;
        }
    }
    return false;
}

// ---- one page ----

// The last <text …>…</text>; <text … /> is an empty one.
static bool find_text(struct wiki_slice xml, struct wiki_slice *text) {
    bool found = false;
    const char *open;
    while ((open = find(xml, "<text"))) {
        xml = after(xml, open + strlen("<text"));
        if (!xml.length || (xml.data[0] != ' ' && xml.data[0] != '>' && xml.data[0] != '/'))
            continue;
        const char *end = memchr(xml.data, '>', xml.length);
        if (!end)
            return found;
        xml = after(xml, end + 1);
        *text = (struct wiki_slice){end + 1, 0};
        found = true;
        if (end[-1] == '/')
            continue;
        const char *close = find(xml, "</text>");
        if (!close)
            return false;
        text->length = (size_t)(close - text->data);
        xml = after(xml, close);
    }
    return found;
}

// "#REDIRECT [[Title]]" in any language: a word after '#', followed by a link. Old dumps have no <redirect> element.
static bool reads_as_redirect(struct wiki_slice text) {
    text = wiki_trim(text);
    if (text.length < 2 || text.data[0] != '#' || text.data[1] == ' ' || text.data[1] == '[')
        return false;
    size_t i = 1, word_limit = text.length < 80 ? text.length : 80;
    while (i < word_limit && !strchr(" :[\n*#{", text.data[i]))
        i++;
    while (i < word_limit && (text.data[i] == ' ' || text.data[i] == ':' || text.data[i] == '\n'))
        i++;
    return i + 1 < text.length && text.data[i] == '[' && text.data[i + 1] == '[';
}

static int64_t namespace_of_title(const struct wiki_site *site, struct wiki_slice title) {
    const char *colon = memchr(title.data, ':', title.length);
    int64_t key;
    if (colon && wiki_site_namespace(site, (struct wiki_slice){title.data, (size_t)(colon - title.data)}, &key))
        return key;
    return 0;
}

int wiki_page_parse(struct wiki_page *page, const struct wiki_site *site, struct wiki_slice xml, const char **problem) {
    *page = (struct wiki_page){.is_wikitext = true};
    struct wiki_slice content;
    *problem = "it has no <title>";
    if (!element(xml, "<title>", "</title>", &page->title))
        return -1;
    *problem = "it has no <id> with a number";
    if (!element(xml, "<id>", "</id>", &content) || (page->id = whole_number(content)) == INT64_MIN)
        return -1;
    *problem = "it has no <text>";
    if (!find_text(xml, &page->text))
        return -1;
    // The page's own fields come before its first revision.
    const char *revision = find(xml, "<revision>");
    struct wiki_slice head = {xml.data, revision ? (size_t)(revision - xml.data) : xml.length};
    bool has_namespace = element(head, "<ns>", "</ns>", &content);
    page->namespace = has_namespace ? whole_number(content) : namespace_of_title(site, page->title);
    page->is_redirect = find(head, "<redirect") != NULL || reads_as_redirect(page->text);
    struct wiki_slice before_text = {xml.data, (size_t)(page->text.data - xml.data)};
    if (element(before_text, "<model>", "</model>", &content))
        page->is_wikitext = wiki_equal(content, "wikitext");
    return 0;
}

// ---- entities of XML ----

// Resolves the entity at text[0] == '&': appends it and returns its length, or 0 if it is not an entity.
static size_t unescape_one(struct buffer *out, struct wiki_slice text) {
    static const struct {
        const char *entity;
        char byte;
    } known[] = {{"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&amp;", '&'}, {"&apos;", '\''}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (wiki_begins(text, known[i].entity)) {
            buffer_append_byte(out, known[i].byte);
            return strlen(known[i].entity);
        }
    }
    uint32_t character;
    char bytes[4];
    size_t length = wiki_begins(text, "&#") ? wiki_reference_number(text, &character) : 0;
    if (length > 0)
        buffer_append(out, bytes, utf8_encode(character, bytes));
    return length;
}

void wiki_unescape(struct buffer *out, struct wiki_slice xml) {
    buffer_reserve(out, xml.length);
    while (xml.length) {
        const char *ampersand = memchr(xml.data, '&', xml.length);
        size_t plain = ampersand ? (size_t)(ampersand - xml.data) : xml.length;
        buffer_append(out, xml.data, plain);
        xml = after(xml, xml.data + plain);
        if (!xml.length)
            return;
        size_t used = unescape_one(out, xml);
        if (used == 0) {
            buffer_append_byte(out, '&');
            used = 1;
        }
        xml = after(xml, xml.data + used);
    }
}
