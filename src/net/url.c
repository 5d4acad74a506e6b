// Parses addresses. See url.h.
#include "net/url.h"
#include "base/error.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LONGEST_KEY = 1024, LONGEST_ADDRESS = 8192 };

static const char s3_scheme[] = "s3://";

static bool begins(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool url_is_s3(const char *text) {
    return begins(text, s3_scheme);
}

bool url_is_remote(const char *text) {
    return url_is_s3(text) || begins(text, "https://") || begins(text, "http://");
}

static bool is_alphanumeric(char byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9');
}

static bool has_control(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7F)
            return true;
    return false;
}

static int parse_s3(struct url *url) {
    const char *begin = url->text + strlen(s3_scheme), *end = begin;
    while (is_alphanumeric(*end) || (*end && strchr("-._", *end)))
        end++;
    size_t length = (size_t)(end - begin);
    if (*end == ':' || *end == '@')
        return error_set("%s: keys do not belong into an address, which others can see; set AWS_ACCESS_KEY_ID and "
                         "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
                         url->text);
    if ((*end && *end != '/') || length < 3 || length > 255)
        return error_set("%s does not name a bucket: 3 to 63 lower-case letters, digits, dots and hyphens follow "
                         "s3://, e.g. s3://my-bucket/data/books.jsonl",
                         url->text);
    url->bucket = memory_printf("%.*s", (int)length, begin);
    url->key = memory_string(*end ? end + 1 : "");
    if (strlen(url->key) > LONGEST_KEY)
        return error_set("%s: the key is longer than the %d bytes that S3 allows", url->text, LONGEST_KEY);
    return 0;
}

static int parse_http(struct url *url) {
    const char *host = strstr(url->text, "://") + 3, *p = host + strcspn(host, "/?#");
    const char *at = memchr(host, '@', (size_t)(p - host));
    if (at)
        return error_set("%.*s…: an address with a user name or password is refused, because addresses are logged; "
                         "download the file, or pipe it: `curl -L … | bevatron … --input -`",
                         (int)(host - url->text), url->text);
    if (p == host)
        return error_set("%s has no host; e.g. https://example.org/books.jsonl.zst", url->text);
    if (strchr(url->text, ' '))
        return error_set("%s contains a space; write it as %%20", url->text);
    return 0;
}

int url_parse(struct url *url, const char *text) {
    *url = (struct url){.kind = url_is_s3(text) ? URL_S3 : URL_HTTP, .text = memory_string(text)};
    int status = 0;
    if (!url_is_remote(text))
        status = error_set("%s is not an address: it must begin with s3://, https:// or http://", text);
    else if (has_control(text))
        status =
            error_set("an address contains control characters: %.*s…", (int)strcspn(text, "\n\r\t\v\f\b\x1B"), text);
    else if (strlen(text) > LONGEST_ADDRESS)
        status = error_set("an address is longer than %d bytes: %.60s…", LONGEST_ADDRESS, text);
    else
        status = url->kind == URL_S3 ? parse_s3(url) : parse_http(url);
    if (status < 0)
        url_free(url);
    return status;
}

void url_free(struct url *url) {
    free(url->text);
    free(url->bucket);
    free(url->key);
    *url = (struct url){0};
}

char *url_join(const char *prefix, const char *name) {
    size_t length = strlen(prefix);
    return memory_printf("%s%s%s", prefix, length > 0 && prefix[length - 1] == '/' ? "" : "/", name);
}

void url_encode(struct buffer *out, const char *text, bool keeps_slashes) {
    for (; *text; text++) {
        if (is_alphanumeric(*text) || strchr("-_.~", *text) || (*text == '/' && keeps_slashes))
            buffer_append_byte(out, *text);
        else
            buffer_printf(out, "%%%02X", (unsigned)(unsigned char)*text);
    }
}
