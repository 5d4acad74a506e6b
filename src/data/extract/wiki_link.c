// [[target|label]]: the text that a link leaves. Pictures, categories and links to the same page in other languages
// leave nothing; everything else leaves its label, or the text that MediaWiki would show.
#include "data/extract/wiki_resolve.h"
#include "data/extract/wiki_passes.h"

// "fr", "zh-yue", "simple": the prefix of another language's Wikipedia, by its form. Longer ones are sister projects.
static bool is_language(struct wiki_slice prefix) {
    static const char *const projects[] = {"doi", "mw", "wmf", "rfc", "hdl"};
    if (wiki_equal(prefix, "simple"))
        return true;
    bool has_dash = false;
    for (size_t i = 0; i < prefix.length; i++) {
        has_dash = has_dash || (prefix.data[i] == '-' && i >= 2);
        if (!(prefix.data[i] >= 'a' && prefix.data[i] <= 'z') && !has_dash)
            return false;
    }
    for (size_t i = 0; i < sizeof projects / sizeof projects[0]; i++)
        if (wiki_equal(prefix, projects[i]))
            return false;
    return prefix.length >= 2 && (prefix.length <= 3 || (has_dash && prefix.length <= 12));
}

static bool is_project(struct wiki_slice prefix) {
    static const char *const known[] = {"w", "wikt", "wiktionary", "s",          "b",         "q",
                                        "n", "v",    "voy",        "species",    "commons",   "m",
                                        "d", "mw",   "wikipedia",  "wikisource", "wikiquote", "wikibooks"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (wiki_equal_case(prefix, known[i]))
            return true;
    return false;
}

static bool split_prefix(struct wiki_slice target, struct wiki_slice *prefix, struct wiki_slice *rest) {
    const char *colon = memchr(target.data, ':', target.length);
    if (!colon)
        return false;
    *prefix = wiki_trim((struct wiki_slice){target.data, (size_t)(colon - target.data)});
    *rest = wiki_trim((struct wiki_slice){colon + 1, target.length - (size_t)(colon + 1 - target.data)});
    return true;
}

// [[Help:Boat (ship)|]] shows "Boat", [[Oslo, Norway|]] shows "Oslo".
static struct wiki_slice pipe_trick(struct wiki_slice target) {
    struct wiki_slice prefix, rest;
    if (split_prefix(target, &prefix, &rest))
        target = rest;
    const char *cut = target.length && target.data[target.length - 1] == ')'
                          ? memchr(target.data, '(', target.length)
                          : memmem(target.data, target.length, ", ", 2);
    if (cut && cut > target.data)
        target.length = (size_t)(cut - target.data);
    return wiki_trim(target);
}

// True if the link is there for its effect, not for its text.
static bool leaves_nothing(const struct wiki_context *context, struct wiki_slice target, bool has_label) {
    struct wiki_slice prefix, rest;
    int64_t key;
    if (!split_prefix(target, &prefix, &rest))
        return false;
    if (wiki_site_namespace(context->site, prefix, &key))
        return key == WIKI_NAMESPACE_FILE || key == WIKI_NAMESPACE_CATEGORY;
    return is_language(prefix) && !has_label;
}

static struct wiki_slice shown_target(struct wiki_slice target) {
    struct wiki_slice prefix, rest;
    if (target.length && target.data[0] == '#')
        return (struct wiki_slice){target.data + 1, target.length - 1};
    if (split_prefix(target, &prefix, &rest) && is_project(prefix) && rest.length)
        return rest;
    return target;
}

void wiki_link(const struct wiki_context *context, struct buffer *out, struct wiki_slice content) {
    const char *bar = memchr(content.data, '|', content.length);
    struct wiki_slice target = content, label = {NULL, 0};
    if (bar) {
        target.length = (size_t)(bar - content.data);
        label = (struct wiki_slice){bar + 1, content.length - target.length - 1};
    }
    target = wiki_trim(target);
    bool is_shown_anyway = target.length && target.data[0] == ':';
    if (is_shown_anyway)
        target = wiki_trim((struct wiki_slice){target.data + 1, target.length - 1});
    if (!is_shown_anyway && leaves_nothing(context, target, bar != NULL)) {
        buffer_append_byte(out, WIKI_DROP);
        return;
    }
    // A label that contains '|' belongs to a picture in a namespace we do not know: the last part is its caption.
    const char *last = label.length ? memrchr(label.data, '|', label.length) : NULL;
    if (last)
        label = (struct wiki_slice){last + 1, label.length - (size_t)(last + 1 - label.data)};
    if (wiki_trim(label).length)
        wiki_append(out, label);
    else
        wiki_append(out, bar ? pipe_trick(target) : shown_target(target));
}
