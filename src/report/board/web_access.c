// Access control of the board. See web.h.
#include "base/hash.h"
#include "report/board/web.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

// The value of the cookie: not the token itself, which may contain characters not allowed in a cookie.
static void hash_of(const char *purpose, const char *token, char text[65]) {
    struct sha256 hash;
    unsigned char digest[32];
    sha256_init(&hash);
    sha256_update(&hash, purpose, strlen(purpose) + 1);
    sha256_update(&hash, token, strlen(token));
    sha256_final(&hash, digest);
    sha256_hex(digest, text);
}

void web_site_set_cookie(struct web_site *site, int port) {
    if (!site->token)
        return;
    snprintf(site->cookie_name, sizeof site->cookie_name, "bevatron-board-%d", port);
    hash_of("bevatron board cookie", site->token, site->cookie_value);
}

// Takes equally long for a nearly correct text and any other.
static bool is_equal(const char *a, const char *b, size_t length) {
    unsigned char difference = 0;
    for (size_t i = 0; i < length; i++)
        difference |= (unsigned char)(a[i] ^ b[i]);
    return difference == 0;
}

bool web_token_is_right(const struct web_site *site, const char *token) {
    char given[65], wanted[65];
    hash_of("compare", token, given);
    hash_of("compare", site->token, wanted);
    return is_equal(given, wanted, 64);
}

// "a=1; bevatron-board-6006=…; b=2"
static bool has_cookie(const struct web_site *site, const char *header) {
    size_t name = strlen(site->cookie_name), value = strlen(site->cookie_value);
    for (const char *at = header; *at;) {
        at += strspn(at, " \t;");
        size_t length = strcspn(at, ";");
        if (length == name + 1 + value && strncmp(at, site->cookie_name, name) == 0 && at[name] == '=' &&
            is_equal(at + name + 1, site->cookie_value, value))
            return true;
        at += length;
    }
    return false;
}

bool web_token_is_given(const struct web_site *site, const struct web_request *request) {
    static const char scheme[] = "Bearer ";
    const char *authorization = request->authorization;
    if (authorization && strncasecmp(authorization, scheme, sizeof scheme - 1) == 0 &&
        web_token_is_right(site, authorization + sizeof scheme - 1))
        return true;
    return request->cookie && has_cookie(site, request->cookie);
}
