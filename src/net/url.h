// Addresses of data that is not on this machine: s3://BUCKET/KEY, https://HOST/PATH and http://HOST/PATH.
#ifndef NET_URL_H
#define NET_URL_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>

enum url_kind { URL_S3, URL_HTTP };

struct url {
    enum url_kind kind;
    char *text;    // as given
    char *bucket;  // of s3://; NULL otherwise
    char *key;     // of s3://: the bytes of the key, not percent-encoded; "" for the bucket itself
};

// It begins with s3://, https:// or http://.
bool url_is_remote(const char *text);
bool url_is_s3(const char *text);
// Checks the form; errors name the address. A user name or password in it is refused, since addresses are logged.
int url_parse(struct url *url, const char *text);
void url_free(struct url *url);  // safe on a zeroed one
// PREFIX/NAME, to be freed.
char *url_join(const char *prefix, const char *name);

// Percent-encodes all bytes but letters, digits and "-_.~", and slashes if they are to be kept.
void url_encode(struct buffer *out, const char *text, bool keeps_slashes);

#endif
