// Single objects: their properties and contents. See remote.h.
#include "net/internal.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/secret.h"
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
