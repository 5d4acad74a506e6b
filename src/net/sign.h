// Signatures of requests to AWS, version 4 (SigV4), from the text of the request and the keys alone.
#ifndef NET_SIGN_H
#define NET_SIGN_H

#include "base/buffer.h"
#include <stddef.h>
#include <stdint.h>

struct sign_header {
    const char *name;  // in lower case
    const char *value;
};

struct sign_request {
    const char *method;
    const char *host;
    const char *path;                   // percent-encoded
    const char *query;                  // percent-encoded and sorted by name: "a=1&b="; "" for none
    const struct sign_header *headers;  // to be signed besides host and x-amz-…
    size_t header_count;
    const char *payload_sha256;  // of the body, in hexadecimal
    const char *region, *service;
    int64_t time;  // seconds since the epoch
    const char *access_key, *secret_key;
    const char *session_token;  // NULL for none
};

// The headers to send with the request; x-amz-content-sha256 and x-amz-security-token are among the signed ones.
struct signature {
    char date[17];                // x-amz-date
    struct buffer authorization;  // Authorization; the caller frees it
};
void sign_request(struct signature *signature, const struct sign_request *request);

// The SHA-256 of bytes, in hexadecimal.
void sign_sha256_hex(const void *bytes, size_t count, char text[65]);

#endif
