// Routes of the web board and their answers. See web.h.
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/secret.h"
#include "base/utf8.h"
#include "report/board/web.h"
#include "report/prometheus.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// ---- who may ask ----

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

// ---- paths and parameters ----

static int digit_of(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Decodes %XX and plus signs into new memory; NULL after error_set. Text is UTF-8 without control characters.
static char *decode(const char *text, size_t length) {
    char *decoded = memory_alloc(length + 1);
    size_t at = 0;
    bool is_bad = false;
    for (size_t i = 0; i < length && !is_bad; i++) {
        unsigned char byte = (unsigned char)(text[i] == '+' ? ' ' : text[i]);
        if (text[i] == '%') {
            int high = i + 1 < length ? digit_of(text[i + 1]) : -1, low = i + 2 < length ? digit_of(text[i + 2]) : -1;
            is_bad = high < 0 || low < 0;
            byte = is_bad ? 0 : (unsigned char)(16 * high + low);
            i += 2;
        }
        is_bad = is_bad || byte < 0x20 || byte == 0x7f;
        decoded[at++] = (char)byte;
    }
    if (is_bad || utf8_check(decoded, at) != at) {
        free(decoded);
        error_set("the query is not percent-encoded UTF-8 text without control characters");
        return NULL;
    }
    return decoded;
}

static int add_pair(struct web_target *target, const char *text, size_t length) {
    if (target->count == WEB_MOST_PAIRS)
        return error_set("the query has more than %d parts", WEB_MOST_PAIRS);
    const char *equals = memchr(text, '=', length);
    size_t key_length = equals ? (size_t)(equals - text) : length;
    char *key = decode(text, key_length);
    char *value = key ? decode(equals ? equals + 1 : "", equals ? length - key_length - 1 : 0) : NULL;
    if (!value) {
        free(key);
        return -1;
    }
    if ((target->count & (target->count - 1)) == 0)
        target->pairs = memory_realloc(target->pairs, (target->count ? 2 * target->count : 1) * sizeof *target->pairs);
    target->pairs[target->count++] = (struct web_pair){key, value};
    return 0;
}

int web_target_read(struct web_target *target, const char *text) {
    size_t length = strcspn(text, "?#");
    *target = (struct web_target){.path = memory_printf("%.*s", (int)length, text)};
    const char *at = text + length;
    int result = 0;
    if (*at == '?')
        at++;
    while (result == 0 && *at && *at != '#') {
        size_t part = strcspn(at, "&#");
        if (part > 0)
            result = add_pair(target, at, part);
        at += part;
        if (*at == '&')
            at++;
    }
    if (result < 0)
        web_target_free(target);
    return result;
}

void web_target_free(struct web_target *target) {
    for (size_t i = 0; i < target->count; i++) {
        free(target->pairs[i].key);
        free(target->pairs[i].value);
    }
    free(target->pairs);
    free(target->path);
    *target = (struct web_target){0};
}

const char *web_target_value(const struct web_target *target, const char *key) {
    for (size_t i = 0; i < target->count; i++)
        if (strcmp(target->pairs[i].key, key) == 0)
            return target->pairs[i].value;
    return NULL;
}

int web_target_int(const struct web_target *target, const char *key, const int64_t range[2], int64_t *value) {
    const char *text = web_target_value(target, key);
    int64_t given;
    if (!text)
        return 0;
    if (!number_read_int(text, &given) || given < range[0] || given > range[1])
        return error_set("%s must be a whole number from %" PRId64 " to %" PRId64, key, range[0], range[1]);
    *value = given;
    return 0;
}

int web_target_double(const struct web_target *target, const char *key, bool *is_given, double *value) {
    const char *text = web_target_value(target, key);
    *is_given = text != NULL;
    if (text && !number_read_double(text, value))
        return error_set("%s must be a finite number", key);
    return 0;
}

// ---- answers ----

// The page's script and style come from here alone, so text of a run that looks like HTML is harmless. A browser may
// cache an answer but revalidates it each time.
const struct web_header web_headers[WEB_HEADER_COUNT] = {
    {"Content-Security-Policy",
     "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
     "frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cache-Control", "private, no-cache"},
};

static const char json_type[] = "application/json; charset=utf-8", html_type[] = "text/html; charset=utf-8";

static const char token_page[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
    "<meta name=\"color-scheme\" content=\"light dark\"><link rel=\"icon\" href=\"data:,\">"
    "<title>Board: token</title></head>\n<body><main><h1>This board needs its token</h1>\n"
    "<form action=\"/\"><p><label>Token <input name=\"token\" type=\"password\" autocomplete=\"off\" required "
    "autofocus>"
    "</label> <button>Open</button></p></form>\n"
    "<p>The terminal that runs <code>bevatron board</code> shows it.</p></main></body></html>\n";

void web_response_free(struct web_response *response) {
    buffer_free(&response->made);
    *response = (struct web_response){0};
}

const char *web_response_body(const struct web_response *response, size_t *length) {
    *length = response->body ? response->body_length : response->made.length;
    return response->body ? response->body : buffer_string(&response->made);
}

// Answers with the message of error_set.
static void refuse(struct web_response *response, int status) {
    struct json_writer json = {.out = &response->made};
    buffer_clear(&response->made);
    json_begin_object(&json);
    json_put_string(&json, "error", error_message());
    json_end_object(&json);
    error_clear();
    response->status = status;
    response->type = json_type;
}

static void answer_made(struct web_response *response, int result, int failure) {
    if (result < 0) {
        refuse(response, failure);
        return;
    }
    response->status = 200;
    response->type = json_type;
}

// Logs and configurations written by older versions and other programs may contain secrets. Their replacement needs no
// escapes.
static void answer_redacted(struct web_response *response, int result, int failure) {
    answer_made(response, result, failure);
    OWNED char *shown = secret_redact(buffer_string(&response->made));
    buffer_clear(&response->made);
    buffer_append_string(&response->made, shown);
}

static void answer_asset(struct web_response *response, const char *name) {
    const struct page_asset *asset = page_asset(name);
    response->status = 200;
    response->type = asset->type;
    response->body = asset->bytes;
    response->body_length = asset->size;
}

// Inputs of a route.
struct web_question {
    const struct web_site *site;
    const struct web_request *request;
    const struct web_target *target;
};

// With ?after=REVISION the answer waits for a different revision. One that the store never had, e.g. from an earlier
// start of this program, is already different.
static void serve_runs(const struct web_question *question, struct web_response *response) {
    static const int64_t range[2] = {0, INT64_MAX};
    struct board_store *store = question->site->store;
    int64_t after = -1;
    if (web_target_int(question->target, "after", range, &after) < 0) {
        refuse(response, 400);
    } else if (after >= 0 && !question->request->has_waited && board_store_revision(store) == after) {
        response->status = WEB_MUST_WAIT;
        response->after = after;
    } else {
        answer_made(response, board_store_runs(store, &response->made), 500);
    }
}

// The id of a query; NULL after an answer that reports it missing.
static const char *run_id(const struct web_question *question, struct web_response *response) {
    const char *id = web_target_value(question->target, "id");
    if (!id) {
        error_set("the query has no id: ask for %s?id=ID with an id of /api/runs", question->target->path);
        refuse(response, 400);
    }
    return id;
}

static void serve_run(const struct web_question *question, struct web_response *response) {
    const char *id = run_id(question, response);
    if (id)
        answer_redacted(response, board_store_run(question->site->store, id, &response->made), 404);
}

static void serve_log(const struct web_question *question, struct web_response *response) {
    static const int64_t range[2] = {1, 1000};
    int64_t lines = 100;
    const char *id = run_id(question, response);
    if (!id)
        return;
    if (web_target_int(question->target, "lines", range, &lines) < 0)
        refuse(response, 400);
    else
        answer_redacted(response, board_store_log(question->site->store, id, (int)lines, &response->made), 404);
}

// Values of a key, borrowed from the target.
static size_t values_of(const struct web_target *target, const char *key, const char **values) {
    size_t count = 0;
    for (size_t i = 0; i < target->count; i++)
        if (strcmp(target->pairs[i].key, key) == 0)
            values[count++] = target->pairs[i].value;
    return count;
}

static int read_x(const struct web_target *target, enum board_x *x) {
    const char *name = web_target_value(target, "x");
    for (int i = 0; i < BOARD_X_COUNT; i++) {
        if (!name || strcmp(name, board_x_names[i]) == 0) {
            *x = (enum board_x)i;
            return 0;
        }
    }
    return error_set("x must be step, time, tokens or flops");
}

// Limits the answer to the points that a page can draw, and to some tens of megabytes.
static int check_size(const struct curve_query *query) {
    enum { MOST_VALUES = 1000000 };
    size_t tags = query->tag_count ? query->tag_count : 1, points = query->points ? (size_t)query->points : 500;
    if (query->id_count == 0)
        return error_set("the query has no id: ask for /api/curves?id=ID&tag=TAG with an id of /api/runs");
    if (query->id_count * tags > BOARD_MOST_CURVES || query->id_count * tags * points > MOST_VALUES)
        return error_set("%zu runs with %zu tags and %zu points each are too many for one answer; ask for less at once",
                         query->id_count, tags, points);
    return 0;
}

static int read_curve_query(const struct web_target *target, struct curve_query *query) {
    static const int64_t range[2] = {1, BOARD_MOST_POINTS};
    int64_t points = 0;
    bool has_from, has_to;
    TRY(read_x(target, &query->x));
    TRY(web_target_int(target, "points", range, &points));
    query->points = (int)points;
    TRY(web_target_double(target, "from", &has_from, &query->from));
    TRY(web_target_double(target, "to", &has_to, &query->to));
    if (has_from != has_to || (has_from && query->from > query->to))
        return error_set("from and to must be given together, the lower one as from");
    query->has_range = has_from;
    return check_size(query);
}

static void serve_curves(const struct web_question *question, struct web_response *response) {
    const struct web_target *target = question->target;
    OWNED const char **ids = memory_alloc((target->count + 1) * sizeof *ids);
    OWNED const char **tags = memory_alloc((target->count + 1) * sizeof *tags);
    struct curve_query query = {.ids = ids, .tags = tags};
    query.id_count = values_of(target, "id", ids);
    query.tag_count = values_of(target, "tag", tags);
    if (read_curve_query(target, &query) < 0)
        refuse(response, 400);
    else
        answer_made(response, board_store_curves(question->site->store, &query, &response->made), 404);
}

static const struct {
    const char *path;
    const char *asset;  // a file of the page; NULL: serve
    void (*serve)(const struct web_question *question, struct web_response *response);
} routes[] = {
    {"/", .asset = "index.html"},           {"/index.html", .asset = "index.html"},
    {"/style.css", .asset = "style.css"},   {"/board.js", .asset = "board.js"},
    {"/api/runs", .serve = serve_runs},     {"/api/run", .serve = serve_run},
    {"/api/curves", .serve = serve_curves}, {"/api/log", .serve = serve_log},
};

static void follow_route(const struct web_question *question, struct web_response *response) {
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (strcmp(question->target->path, routes[i].path) != 0)
            continue;
        if (routes[i].asset)
            answer_asset(response, routes[i].asset);
        else
            routes[i].serve(question, response);
        return;
    }
    error_set("there is no such page; the board is at /");
    refuse(response, 404);
}

static bool is_api(const struct web_target *target) {
    return strncmp(target->path, "/api/", 5) == 0;
}

// The correct token in the address of the page is stored as a cookie and removed from the address.
static void keep_token(const struct web_site *site, struct web_response *response) {
    response->status = 303;
    response->type = html_type;
    response->location = "/";
    snprintf(response->cookie, sizeof response->cookie, "%s=%s; Path=/; HttpOnly; SameSite=Strict", site->cookie_name,
             site->cookie_value);
}

static void ask_for_token(const struct web_target *target, struct web_response *response) {
    error_set("the request lacks the board's token: send it as a bearer token or as ?token=TOKEN");
    refuse(response, 401);
    if (is_api(target))
        return;
    buffer_clear(&response->made);
    response->type = html_type;
    response->body = token_page;
    response->body_length = sizeof token_page - 1;
}

// Answers a request without access to the board, and the one that brings the token; true: it is answered.
static bool guard(const struct web_question *question, struct web_response *response) {
    const struct web_site *site = question->site;
    const char *token = web_target_value(question->target, "token");
    if (!site->token) {
        if (host_header_is_ours(site->host, question->request->host))
            return false;
        error_set(
            "the Host header names neither localhost nor the board's --host; open the address that bevatron board "
            "prints, or start it with --token");
        refuse(response, 403);
        return true;
    }
    bool is_right = token && web_token_is_right(site, token);
    if (is_right && !is_api(question->target) && strcmp(question->target->path, "/") == 0)
        keep_token(site, response);
    else if (!is_right && !web_token_is_given(site, question->request))
        ask_for_token(question->target, response);
    else
        return false;
    return true;
}

static void answer_again(const struct web_request *request, struct web_response *response) {
    size_t length;
    const char *body = web_response_body(response, &length);
    if (response->status != 200)
        return;
    snprintf(response->etag, sizeof response->etag, "\"%016" PRIx64 "\"", hash_bytes(body, length, 0));
    if (!request->if_none_match || !strstr(request->if_none_match, response->etag))
        return;
    buffer_free(&response->made);
    response->body = "";
    response->body_length = 0;
    response->status = 304;
}

void web_answer(const struct web_site *site, const struct web_request *request, struct web_response *response) {
    OWNED_BY(web_target_free) struct web_target target = {0};
    *response = (struct web_response){0};
    bool is_get = strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0;
    if (!is_get || request->has_body) {
        error_set(is_get ? "a request must not have a body" : "the board answers GET and HEAD only");
        refuse(response, is_get ? 413 : 405);
        return;
    }
    if (web_target_read(&target, request->target) < 0) {
        refuse(response, 400);
        return;
    }
    const struct web_question question = {site, request, &target};
    if (!guard(&question, response)) {
        follow_route(&question, response);
        answer_again(request, response);
    }
}
