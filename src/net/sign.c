// Signature version 4: a canonical form of the request is hashed, and the hash is signed with a key derived from the
// secret key, the day, the region and the service. S3's variant: the path is encoded once, and the hash of the body is
// a header of its own.
#include "net/sign.h"
#include "base/hash.h"
#include "base/memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DIGEST_BYTES = 32 };

void sign_sha256_hex(const void *bytes, size_t count, char text[65]) {
    unsigned char digest[DIGEST_BYTES];
    struct sha256 hash;
    sha256_init(&hash);
    if (count > 0)
        sha256_update(&hash, bytes, count);
    sha256_final(&hash, digest);
    sha256_hex(digest, text);
}

static int compare_headers(const void *a, const void *b) {
    return strcmp(((const struct sign_header *)a)->name, ((const struct sign_header *)b)->name);
}

// The canonical request, and the list of names of its headers.
static void append_canonical(struct buffer *out, struct buffer *names, const struct sign_request *request,
                             const char *date) {
    size_t count = 0;
    struct sign_header *headers = memory_alloc((request->header_count + 4) * sizeof *headers);
    headers[count++] = (struct sign_header){"host", request->host};
    headers[count++] = (struct sign_header){"x-amz-content-sha256", request->payload_sha256};
    headers[count++] = (struct sign_header){"x-amz-date", date};
    if (request->session_token)
        headers[count++] = (struct sign_header){"x-amz-security-token", request->session_token};
    for (size_t i = 0; i < request->header_count; i++)
        headers[count++] = request->headers[i];
    qsort(headers, count, sizeof *headers, compare_headers);
    buffer_printf(out, "%s\n%s\n%s\n", request->method, request->path, request->query);
    for (size_t i = 0; i < count; i++) {
        buffer_printf(out, "%s:%s\n", headers[i].name, headers[i].value);
        buffer_printf(names, "%s%s", i > 0 ? ";" : "", headers[i].name);
    }
    buffer_printf(out, "\n%s\n%s", buffer_string(names), request->payload_sha256);
    free(headers);
}

static void derive_key(const struct sign_request *request, const char *day, unsigned char key[32]) {
    OWNED char *first = memory_printf("AWS4%s", request->secret_key);
    hmac_sha256(first, strlen(first), day, strlen(day), key);
    hmac_sha256(key, DIGEST_BYTES, request->region, strlen(request->region), key);
    hmac_sha256(key, DIGEST_BYTES, request->service, strlen(request->service), key);
    hmac_sha256(key, DIGEST_BYTES, "aws4_request", strlen("aws4_request"), key);
    explicit_bzero(first, strlen(first));
}

void sign_request(struct signature *signature, const struct sign_request *request) {
    *signature = (struct signature){0};
    time_t seconds = (time_t)request->time;
    struct tm utc;
    char day[9], digest[65], hex[65];
    unsigned char key[DIGEST_BYTES], mac[DIGEST_BYTES];
    OWNED_BY(buffer_free) struct buffer canonical = {0}, names = {0}, text = {0};
    (void)gmtime_r(&seconds, &utc);
    (void)strftime(signature->date, sizeof signature->date, "%Y%m%dT%H%M%SZ", &utc);
    (void)snprintf(day, sizeof day, "%.8s", signature->date);
    append_canonical(&canonical, &names, request, signature->date);
    sign_sha256_hex(canonical.data, canonical.length, digest);
    buffer_printf(&text, "AWS4-HMAC-SHA256\n%s\n%s/%s/%s/aws4_request\n%s", signature->date, day, request->region,
                  request->service, digest);
    derive_key(request, day, key);
    hmac_sha256(key, DIGEST_BYTES, text.data, text.length, mac);
    explicit_bzero(key, sizeof key);
    sha256_hex(mac, hex);
    buffer_printf(&signature->authorization,
                  "AWS4-HMAC-SHA256 Credential=%s/%s/%s/%s/aws4_request,SignedHeaders=%s,Signature=%s",
                  request->access_key, day, request->region, request->service, buffer_string(&names), hex);
}
