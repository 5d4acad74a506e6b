// An open-addressing table of names and bodies. Names are normalized as in MediaWiki: '_' is a space, the first letter
// is a capital. Bodies are stored ready for wiki_resolve, without comments and tags.
#include "data/extract/wiki_template.h"
#include "data/extract/wiki_text.h"
#include "base/hash.h"
#include "base/memory.h"
#include <stdio.h>
#include <stdlib.h>

enum { MOST_REDIRECTS = 4 };

struct template_entry {
    char *name;  // NULL if free
    char *body;
    size_t name_length, body_length;
};

struct wiki_store {
    struct template_entry *entries;  // (capacity), a power of two
    size_t capacity, count;
};

struct wiki_store *wiki_store_create(void) {
    struct wiki_store *store = memory_alloc(sizeof *store);
    store->capacity = 1024;
    store->entries = memory_alloc(store->capacity * sizeof *store->entries);
    return store;
}

void wiki_store_free(struct wiki_store *store) {
    if (!store)
        return;
    for (size_t i = 0; i < store->capacity; i++) {
        free(store->entries[i].name);
        free(store->entries[i].body);
    }
    free(store->entries);
    free(store);
}

int64_t wiki_store_count(const struct wiki_store *store) {
    return (int64_t)store->count;
}

static struct template_entry *place_of(const struct wiki_store *store, const char *name, size_t length) {
    size_t i = (size_t)hash_bytes(name, length, 0) & (store->capacity - 1);
    for (;; i = (i + 1) & (store->capacity - 1)) {
        struct template_entry *entry = &store->entries[i];
        if (!entry->name || (entry->name_length == length && memcmp(entry->name, name, length) == 0))
            return entry;
    }
}

static void grow(struct wiki_store *store) {
    struct wiki_store larger = {.capacity = 2 * store->capacity, .count = store->count};
    larger.entries = memory_alloc(larger.capacity * sizeof *larger.entries);
    for (size_t i = 0; i < store->capacity; i++)
        if (store->entries[i].name)
            *place_of(&larger, store->entries[i].name, store->entries[i].name_length) = store->entries[i];
    free(store->entries);
    *store = larger;
}

static void plain_title(struct buffer *out, struct wiki_slice title) {
    title = wiki_trim(title);
    if (title.length > strlen("template:") && strncasecmp(title.data, "template:", strlen("template:")) == 0)
        title = wiki_trim((struct wiki_slice){title.data + strlen("template:"), title.length - strlen("template:")});
    for (size_t i = 0; i < title.length; i++) {
        char byte = i == 0 ? wiki_upper(title.data[i]) : title.data[i];
        buffer_append_byte(out, byte == '_' ? ' ' : byte);
    }
}

// The content of the next element of that name in *rest, and the text before it; false if there is none.
static bool next_element(struct wiki_slice *rest, const char *name, struct wiki_slice *before,
                         struct wiki_slice *inside) {
    char open[32], close[32];
    size_t open_length = (size_t)snprintf(open, sizeof open, "<%s>", name);
    (void)snprintf(close, sizeof close, "</%s>", name);
    const char *begin = rest->length ? memmem(rest->data, rest->length, open, open_length) : NULL;
    if (!begin)
        return false;
    *before = (struct wiki_slice){rest->data, (size_t)(begin - rest->data)};
    const char *end = rest->data + rest->length, *content = begin + open_length;
    const char *stop = memmem(content, (size_t)(end - content), close, open_length + 1);
    *inside = (struct wiki_slice){content, (size_t)((stop ? stop : end) - content)};
    const char *after = stop ? stop + open_length + 1 : end;
    *rest = (struct wiki_slice){after, (size_t)(end - after)};
    return true;
}

// Appends the part of a template's text that is transcluded: without <noinclude>, with the content of <includeonly>,
// and only <onlyinclude> if there is one.
static void append_included(struct buffer *out, struct wiki_slice text) {
    struct wiki_slice rest = text, before, inside;
    if (next_element(&rest, "onlyinclude", &before, &inside)) {
        do
            wiki_append(out, inside);
        while (next_element(&rest, "onlyinclude", &before, &inside));
        return;
    }
    struct buffer shown = {0};
    while (next_element(&rest, "noinclude", &before, &inside))
        wiki_append(&shown, before);
    wiki_append(&shown, rest);
    // Drop the tags of <includeonly> here: the strip pass would remove them with their content.
    rest = (struct wiki_slice){buffer_string(&shown), shown.length};
    while (next_element(&rest, "includeonly", &before, &inside)) {
        wiki_append(out, before);
        wiki_append(out, inside);
    }
    wiki_append(out, rest);
    buffer_free(&shown);
}

void wiki_store_add(struct wiki_store *store, struct wiki_slice title, struct wiki_slice text) {
    struct buffer name = {0}, included = {0}, body = {0};
    plain_title(&name, title);
    append_included(&included, text);
    wiki_strip(&body, (struct wiki_slice){buffer_string(&included), included.length});
    buffer_free(&included);
    buffer_append(&name, "", 0);
    buffer_append(&body, "", 0);
    struct template_entry *entry = place_of(store, name.data, name.length);
    store->count += entry->name == NULL;
    free(entry->name);
    free(entry->body);
    *entry = (struct template_entry){name.data, memory_realloc(body.data, body.length + 1), name.length, body.length};
    if (store->count * 2 > store->capacity)
        grow(store);
}

// ---- expansion ----

// The target's name in "#REDIRECT [[Template:Other]]".
static bool redirect_target(const struct template_entry *entry, struct buffer *name) {
    struct wiki_slice body = wiki_trim((struct wiki_slice){entry->body, entry->body_length});
    if (!body.length || body.data[0] != '#')
        return false;
    const char *open = memmem(body.data, body.length < 80 ? body.length : 80, "[[", 2);
    if (!open)
        return false;
    const char *end = body.data + body.length;
    const char *close = memmem(open, (size_t)(end - open), "]]", 2);
    if (!close)
        return false;
    buffer_clear(name);
    plain_title(name, (struct wiki_slice){open + 2, (size_t)(close - open - 2)});
    return true;
}

static const struct template_entry *find(const struct wiki_store *store, struct wiki_slice title) {
    struct buffer name = {0};
    plain_title(&name, title);
    const struct template_entry *entry = NULL;
    for (int i = 0; i < MOST_REDIRECTS; i++) {
        entry = place_of(store, buffer_string(&name), name.length);
        if (!entry->name || !redirect_target(entry, &name))
            break;
    }
    buffer_free(&name);
    return entry && entry->name ? entry : NULL;
}

static bool is_expanding(const struct wiki_context *context, const struct template_entry *entry) {
    for (; context; context = context->outside)
        if (context->expanding.data == entry->name)
            return true;
    return false;
}

void wiki_store_expand(struct wiki_context *context, struct buffer *out, const struct wiki_call *call) {
    const struct template_entry *entry = find(context->templates, call->name);
    if (!entry || is_expanding(context, entry) || context->depth >= WIKI_MOST_DEPTH)
        return;
    if (*context->budget < entry->body_length + 1)
        return;
    *context->budget -= entry->body_length + 1;
    struct wiki_context inner = *context;
    inner.caller = call;
    inner.outside = context;
    inner.expanding = (struct wiki_slice){entry->name, entry->name_length};
    inner.depth = context->depth + 1;
    size_t before = out->length;
    wiki_resolve(&inner, out, (struct wiki_slice){entry->body, entry->body_length});
    size_t added = out->length - before;
    *context->budget -= added < *context->budget ? added : *context->budget;
}
