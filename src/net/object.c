// Single objects, their properties and contents, and lists of them. See remote.h.
#include "base/error.h"
#include "base/memory.h"
#include "base/secret.h"
#include "net/internal.h"
#include "net/xml.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Below this, sums of sizes and offsets stay far from overflow.
static const uint64_t MOST_SIZE = INT64_MAX / 2;

// The size of the whole object, from the answer to a request for its first byte; UINT64_MAX if it is not given.
static int read_size(const struct http_response *response, const char *url, uint64_t *size) {
    char value[128];
    unsigned long long given = 0;
    bool is_range = response->status == 206 || response->status == 416;
    *size = response->status == 416 ? 0 : UINT64_MAX;
    if (!http_header(response, is_range ? "Content-Range" : "Content-Length", value, sizeof value))
        return 0;
    const char *text = is_range ? strchr(value, '/') : value;
    if (!text || sscanf(text + is_range, "%llu", &given) != 1)
        return 0;
    if (given > MOST_SIZE) {
        OWNED char *printable = secret_redact(url);
        error_set("cannot read %s: the server says that it has %s bytes, which is not possible", printable,
                  text + is_range);
        return -1;
    }
    *size = given;
    return 0;
}

int remote_look(struct remote_object *object, const struct url *url) {
    *object = (struct remote_object){0};
    OWNED_BY(remote_answer_free) struct remote_answer answer = {0};
    uint64_t size = 0;
    const struct remote_call call = {
        .method = "GET", .url = url, .doing = "read", .end = 1, .is_probe = true, .may_be_absent = true};
    int status = remote_call(&call, &answer);
    if (status > 0 && read_size(&answer.response, url->text, &size) < 0)
        status = -1;
    if (status > 0) {
        char tag[REMOTE_TAG_BYTES];
        remote_tag(&answer.response, tag, sizeof tag);
        *object = (struct remote_object){.url = memory_string(url->text),
                                         .size = size,
                                         .tag = memory_string(tag),
                                         .has_ranges = answer.response.status == 206 && size != UINT64_MAX};
    }
    return status;
}

int remote_find(struct remote_object *object, const char *text) {
    *object = (struct remote_object){0};
    if (remote_cache_find(object, text))
        return 1;
    OWNED_BY(url_free) struct url url = {0};
    TRY(url_parse(&url, text));
    int status = remote_look(object, &url);
    if (status > 0)
        remote_cache_add(object);
    return status;
}

struct memory_sink {
    char *out;
    size_t left;
};

static int take_bytes(void *context, const void *bytes, size_t count) {
    struct memory_sink *sink = context;
    if (count > sink->left)
        return error_set("a server sent more bytes than asked for");
    memcpy(sink->out, bytes, count);
    sink->out += count;
    sink->left -= count;
    return 0;
}

int remote_read(const struct remote_object *object, uint64_t begin, void *out, size_t count, const atomic_bool *stop) {
    if (count == 0)
        return 0;
    OWNED_BY(url_free) struct url url = {0};
    TRY(url_parse(&url, object->url));
    struct memory_sink sink = {.out = out, .left = count};
    OWNED_BY(remote_answer_free) struct remote_answer answer = {0};
    const struct remote_call call = {.method = "GET",
                                     .url = &url,
                                     .doing = "read",
                                     .tag = object->tag,
                                     .begin = begin,
                                     .end = begin + count,
                                     .sink = take_bytes,
                                     .context = &sink,
                                     .stop = stop};
    int status = remote_call(&call, &answer);
    return status < 0 ? -1 : 0;
}

struct buffer_sink {
    struct buffer *out;
    size_t limit;
    const char *url;
};

static int take_into_buffer(void *context, const void *bytes, size_t count) {
    struct buffer_sink *sink = context;
    if (sink->out->length + count > sink->limit)
        return error_set("%s has more than %zu bytes; is it the right file?", sink->url, sink->limit);
    buffer_append(sink->out, bytes, count);
    return 0;
}

int remote_read_all(const char *text, size_t limit_bytes, struct buffer *out) {
    OWNED_BY(url_free) struct url url = {0};
    TRY(url_parse(&url, text));
    struct buffer_sink sink = {.out = out, .limit = limit_bytes, .url = text};
    OWNED_BY(remote_answer_free) struct remote_answer answer = {0};
    const struct remote_call call = {.method = "GET",
                                     .url = &url,
                                     .doing = "read",
                                     .sink = take_into_buffer,
                                     .context = &sink,
                                     .may_be_absent = true};
    buffer_clear(out);
    return remote_call(&call, &answer);
}

// ---- the objects of a bucket: ListObjectsV2, page after page, and patterns ----

void remote_list_free(struct remote_list *list) {
    for (size_t i = 0; i < list->count; i++)
        remote_object_free(&list->objects[i]);
    free(list->objects);
    *list = (struct remote_list){0};
}

static void add_object(struct remote_list *list, struct remote_object object) {
    // Doubled at every power of two.
    if ((list->count & (list->count - 1)) == 0)
        list->objects = memory_realloc(list->objects, (list->count > 0 ? 2 * list->count : 1) * sizeof *list->objects);
    list->objects[list->count++] = object;
}

// ---- one answer ----

struct list_entry {
    struct buffer key, tag;
    uint64_t size;
    bool has_size;
};

static void copy_text(struct buffer *to, const struct xml *xml) {
    buffer_clear(to);
    buffer_append(to, buffer_string(&xml->text), xml->text.length);
}

static bool parse_size(const char *text, uint64_t *size) {
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    *size = value;
    return *text >= '0' && *text <= '9' && !*end && value <= INT64_MAX / 2;
}

static int finish_entry(struct remote_list *list, const char *bucket, const struct list_entry *entry) {
    const char *key = buffer_string(&entry->key);
    if (entry->key.length == 0 || strlen(key) != entry->key.length || !entry->has_size)
        return error_set("the listing of s3://%s has an entry without a key or a size", bucket);
    // The key of an empty folder's marker.
    if (key[entry->key.length - 1] == '/')
        return 0;
    add_object(list, (struct remote_object){.url = memory_printf("s3://%s/%s", bucket, key),
                                            .size = entry->size,
                                            .tag = memory_string(buffer_string(&entry->tag)),
                                            .has_ranges = entry->size > 0});
    return 0;
}

// The end of an element inside <Contents>, or of <Contents> itself.
static int take_element(struct remote_list *list, const char *bucket, const struct xml *xml, struct list_entry *entry) {
    if (strcmp(xml->name, "Contents") == 0)
        return finish_entry(list, bucket, entry);
    if (strcmp(xml->name, "Key") == 0)
        copy_text(&entry->key, xml);
    else if (strcmp(xml->name, "ETag") == 0)
        copy_text(&entry->tag, xml);
    else if (strcmp(xml->name, "Size") == 0)
        entry->has_size = parse_size(buffer_string(&xml->text), &entry->size);
    return 0;
}

int remote_list_parse(struct remote_list *list, const char *bucket, const struct buffer *answer, struct buffer *next) {
    OWNED_BY(xml_free) struct xml xml = {.data = buffer_string(answer), .length = answer->length};
    struct list_entry entry = {0};
    enum xml_event event;
    bool is_listing = false, is_truncated = false, is_inside = false;
    int status = 0;
    buffer_clear(next);
    while (status == 0 && (event = xml_next(&xml)) != XML_END) {
        if (event == XML_BROKEN)
            status = error_set("the listing of s3://%s is not readable XML (byte %zu)", bucket, xml.at);
        else if (event == XML_OPEN && xml.depth == 1)
            is_listing = strcmp(xml.name, "ListBucketResult") == 0;
        else if (event == XML_OPEN && xml.depth == 2 && strcmp(xml.name, "Contents") == 0) {
            is_inside = true;
            entry.has_size = false;
            buffer_clear(&entry.key);
            buffer_clear(&entry.tag);
        } else if (event == XML_CLOSE && is_inside && xml.depth <= 2) {
            status = take_element(list, bucket, &xml, &entry);
            is_inside = is_inside && xml.depth == 2;
        } else if (event == XML_CLOSE && xml.depth == 1 && strcmp(xml.name, "IsTruncated") == 0)
            is_truncated = strcmp(buffer_string(&xml.text), "true") == 0;
        else if (event == XML_CLOSE && xml.depth == 1 && strcmp(xml.name, "NextContinuationToken") == 0)
            copy_text(next, &xml);
    }
    if (status == 0 && !is_listing)
        status = error_set("the answer for s3://%s is not a bucket listing; check the endpoint", bucket);
    if (status == 0 && is_truncated && next->length == 0)
        status = error_set("the listing of s3://%s is truncated and has no continuation token", bucket);
    if (!is_truncated)
        buffer_clear(next);
    buffer_free(&entry.key);
    buffer_free(&entry.tag);
    return status;
}

// ---- all pages ----

static int compare_objects(const void *a, const void *b) {
    return strcmp(((const struct remote_object *)a)->url, ((const struct remote_object *)b)->url);
}

static int list_page(struct remote_list *list, const struct url *bucket, const char *prefix, bool stays_in_folder,
                     struct buffer *next) {
    struct buffer query = {0};
    if (next->length > 0) {
        buffer_append_string(&query, "continuation-token=");
        url_encode(&query, buffer_string(next), false);
        buffer_append_byte(&query, '&');
    }
    buffer_printf(&query, "%slist-type=2&prefix=", stays_in_folder ? "delimiter=%2F&" : "");
    url_encode(&query, prefix, false);
    struct remote_answer answer = {0};
    const struct remote_call call = {.method = "GET", .url = bucket, .query = buffer_string(&query), .doing = "list"};
    int status = remote_call(&call, &answer);
    if (status >= 0)
        status = remote_list_parse(list, bucket->bucket, &answer.body, next);
    remote_answer_free(&answer);
    buffer_free(&query);
    return status;
}

int remote_list(struct remote_list *list, const char *prefix, bool stays_in_folder) {
    OWNED_BY(url_free) struct url url = {0}, bucket = {0};
    *list = (struct remote_list){0};
    TRY(url_parse(&url, prefix));
    if (url.kind != URL_S3)
        return error_set("%s cannot be listed: only s3:// can; name the files one by one", prefix);
    OWNED char *text = memory_printf("s3://%s", url.bucket);
    int status = url_parse(&bucket, text);
    OWNED_BY(buffer_free) struct buffer next = {0};
    do
        status = status < 0 ? -1 : list_page(list, &bucket, url.key, stays_in_folder, &next);
    while (status == 0 && next.length > 0);
    if (status == 0 && list->count > 0)
        qsort(list->objects, list->count, sizeof *list->objects, compare_objects);
    for (size_t i = 0; status == 0 && i < list->count; i++)
        remote_cache_add(&list->objects[i]);
    if (status < 0)
        remote_list_free(list);
    return status;
}

int remote_glob(struct remote_list *list, const char *pattern) {
    const char *first = pattern + strcspn(pattern, "*?[");
    OWNED char *prefix = memory_printf("%.*s", (int)(first - pattern), pattern);
    int status = remote_list(list, prefix, !strchr(first, '/'));
    size_t kept = 0;
    for (size_t i = 0; status == 0 && i < list->count; i++) {
        if (fnmatch(pattern, list->objects[i].url, FNM_PATHNAME | FNM_PERIOD) == 0)
            list->objects[kept++] = list->objects[i];
        else
            remote_object_free(&list->objects[i]);
    }
    list->count = status == 0 ? kept : list->count;
    if (status == 0 && kept == 0) {
        remote_list_free(list);
        status = error_set("no object matches %s; list what is there with `aws s3 ls %s`", pattern, prefix);
    }
    return status;
}
