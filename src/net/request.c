// One request: made for S3 or for the web, signed, sent, and repeated while that may help. See internal.h.
#include "net/internal.h"
#include "net/credentials.h"
#include "net/xml.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/secret.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_BODY = 16 << 20, MOST_CORRECTIONS = 4, WARN_FROM = 3 };
static const double LONGEST_PAUSE = 20, NAP_SECONDS = 0.05;

// A call in progress. The second part holds the findings of one attempt.
struct journey {
    const struct remote_call *call;
    struct remote_answer *answer;
    int failures;      // since the last progress
    int corrections;   // of region, clock and credentials
    uint64_t to_skip;  // bytes of this answer that were already received, from a server without ranges
    bool is_begun;     // the body of a good answer has begun
    bool is_changed;   // the object has been replaced
    bool is_unranged;  // the server sends the whole object
    char problem[HTTP_PROBLEM_BYTES];
};

void remote_answer_free(struct remote_answer *answer) {
    http_response_free(&answer->response);
    buffer_free(&answer->body);
    *answer = (struct remote_answer){0};
}

void remote_tag(const struct http_response *response, char *tag, size_t size) {
    tag[0] = 0;
    if (!http_header(response, "ETag", tag, size) && !http_header(response, "Last-Modified", tag, size))
        tag[0] = 0;
}

// ---- the body ----

static bool is_good(const struct http_response *response) {
    return response->status >= 200 && response->status < 300;
}

// Checks, before the first byte of a good answer, that it is the requested one.
static int begin_body(struct journey *journey) {
    const struct remote_call *call = journey->call;
    const struct http_response *response = &journey->answer->response;
    char tag[REMOTE_TAG_BYTES], range[128];
    unsigned long long first = 0;
    journey->is_begun = true;
    remote_tag(response, tag, sizeof tag);
    journey->is_changed = call->tag && *call->tag && *tag && strcmp(tag, call->tag) != 0;
    if (journey->is_changed)
        return -1;
    journey->to_skip = journey->answer->received;
    if (call->end == 0 || call->is_probe)
        return 0;
    journey->to_skip = 0;
    journey->is_unranged = response->status != 206 || !http_header(response, "Content-Range", range, sizeof range) ||
                           sscanf(range, "bytes %llu-", &first) != 1 ||
                           first != call->begin + journey->answer->received;
    return journey->is_unranged ? -1 : 0;
}

static int take_body(void *context, const void *bytes, size_t count) {
    struct journey *journey = context;
    struct remote_answer *answer = journey->answer;
    const struct remote_call *call = journey->call;
    bool is_wanted = is_good(&answer->response) && (call->sink || call->is_probe);
    if (is_wanted && !journey->is_begun)
        TRY(begin_body(journey));
    if (is_wanted && call->is_probe)  // a single byte may come, which leaves the connection usable
        return answer->response.status == 206 ? 0 : -1;
    if (!is_wanted) {
        if (answer->body.length + count > MOST_BODY)
            return -1;
        buffer_append(&answer->body, bytes, count);
        return 0;
    }
    size_t skipped = journey->to_skip < count ? (size_t)journey->to_skip : count;
    journey->to_skip -= skipped;
    if (count == skipped)
        return 0;
    TRY(call->sink(call->context, (const char *)bytes + skipped, count - skipped));
    answer->received += count - skipped;
    journey->failures = 0;
    return 0;
}

// ---- making a request ----

// Location of a bucket's objects: virtual hosts on AWS, unless a dot in the name would not fit its certificate; paths
// everywhere else.
static void append_place(struct buffer *url, struct buffer *path, const struct remote_access *access,
                         const struct url *object) {
    const char *suffix = strncmp(access->region, "cn-", 3) == 0 ? ".cn" : "";
    bool is_path = access->endpoint || strchr(object->bucket, '.');
    if (access->endpoint) {
        size_t length = strlen(access->endpoint);
        while (length > 0 && access->endpoint[length - 1] == '/')
            length--;
        buffer_append(url, access->endpoint, length);
    } else if (is_path) {
        buffer_printf(url, "https://s3.%s.amazonaws.com%s", access->region, suffix);
    } else {
        buffer_printf(url, "https://%s.s3.%s.amazonaws.com%s", object->bucket, access->region, suffix);
    }
    const char *host = strstr(buffer_string(url), "://");
    const char *folder = host ? strchr(host + 3, '/') : NULL;  // an endpoint may have a path of its own
    buffer_printf(path, "%s/", folder ? folder : "");
    if (is_path) {
        url_encode(path, object->bucket, false);
        buffer_append_string(path, object->key[0] ? "/" : "");
    }
    url_encode(path, object->key, true);
    if (folder)
        url->length = (size_t)(folder - url->data);
    url->data[url->length] = 0;
}

// The Host header that libcurl will send: without the default port of its scheme.
static char *host_of(const char *url) {
    const char *begin = strstr(url, "://");
    begin = begin ? begin + 3 : url;
    size_t length = strcspn(begin, "/?");
    const char *port = memrchr(begin, ':', length);
    size_t digits = port ? length - (size_t)(port - begin) : 0;
    bool is_usual = (strncmp(url, "http://", 7) == 0 && digits == 3 && memcmp(port, ":80", 3) == 0) ||
                    (strncmp(url, "https://", 8) == 0 && digits == 4 && memcmp(port, ":443", 4) == 0);
    return memory_printf("%.*s", (int)(is_usual ? length - digits : length), begin);
}

void remote_sign(struct http_headers *headers, const struct sign_request *request) {
    struct signature signature;
    sign_request(&signature, request);
    http_headers_add(headers, "Authorization: %s", buffer_string(&signature.authorization));
    http_headers_add(headers, "x-amz-date: %s", signature.date);
    http_headers_add(headers, "x-amz-content-sha256: %s", request->payload_sha256);
    if (request->session_token)
        http_headers_add(headers, "x-amz-security-token: %s", request->session_token);
    buffer_free(&signature.authorization);
}

static void add_signature(struct http_headers *headers, const struct remote_call *call,
                          const struct remote_access *access, const char *url, const char *path) {
    char digest[65], *host = host_of(url);
    const struct aws_credentials *own = &access->credentials;
    sign_sha256_hex(call->body, call->body_bytes, digest);
    remote_sign(headers, &(struct sign_request){.method = call->method,
                                                .host = host,
                                                .path = path,
                                                .query = call->query ? call->query : "",
                                                .payload_sha256 = digest,
                                                .region = access->region,
                                                .service = "s3",
                                                .time = access->time,
                                                .access_key = own->access_key,
                                                .secret_key = own->secret_key,
                                                .session_token = own->session_token});
    free(host);
}

static enum http_result send_once(struct journey *journey, const struct remote_access *access) {
    const struct remote_call *call = journey->call;
    bool is_s3 = call->url->kind == URL_S3;
    OWNED_BY(buffer_free) struct buffer url = {0}, path = {0};
    OWNED_BY(http_headers_free) struct http_headers headers = {0};
    OWNED char *address = is_s3 ? NULL : remote_reveal(call->url->text);
    if (is_s3)
        append_place(&url, &path, access, call->url);
    else
        buffer_append_string(&url, address);
    if (is_s3 && access->credentials.access_key)
        add_signature(&headers, call, access, buffer_string(&url), buffer_string(&path));
    buffer_append_string(&url, buffer_string(&path));
    if (is_s3 && call->query)
        buffer_printf(&url, "?%s", call->query);
    if (call->end > 0)
        http_headers_add(&headers, "Range: bytes=%" PRIu64 "-%" PRIu64, call->begin + journey->answer->received,
                         call->end - 1);
    if (is_s3 && call->tag && *call->tag)
        http_headers_add(&headers, "If-Match: %s", call->tag);
    const struct http_request request = {
        .method = call->method,
        .url = buffer_string(&url),
        .headers = &headers,
        .body = call->body,
        .body_bytes = call->body_bytes,
        .follows = !is_s3,
        .sink = take_body,
        .context = journey,
        .stall_seconds = remote_patience().stall_seconds,
        .ca_file = access->ca_file,
        .stop = call->stop,
    };
    journey->is_begun = journey->is_changed = journey->is_unranged = false;
    buffer_clear(&journey->answer->body);
    journey->answer->attempts++;
    return http_perform(&request, &journey->answer->response, journey->problem);
}

// ---- judging an answer ----

// Sleeps in pieces, so that a signal or `stop` ends it soon.
static int pause_before_retry(const struct journey *journey) {
    double longest = remote_patience().backoff_seconds;
    for (int i = 1; i < journey->failures && longest < LONGEST_PAUSE; i++)
        longest *= 2;
    longest = longest < LONGEST_PAUSE ? longest : LONGEST_PAUSE;
    double now = clock_seconds(), spread = now * 1e6 - (double)(int64_t)(now * 1e6);
    for (double left = longest * (0.5 + 0.5 * spread); left > 0; left -= NAP_SECONDS) {
        TRY(interrupt_check());
        if (journey->call->stop && atomic_load(journey->call->stop))
            return error_set("stopped");
        clock_sleep(left < NAP_SECONDS ? left : NAP_SECONDS);
    }
    return 0;
}

// Returns 1 to try again, -1 with a message after too many attempts.
static int try_again(struct journey *journey, const char *problem) {
    int most = remote_patience().attempts;
    OWNED char *url = secret_redact(journey->call->url->text);
    journey->failures++;
    int status = 1;
    if (journey->failures >= most)
        status = error_set("cannot %s %s: %s; gave up after %d attempts", journey->call->doing, url, problem, most);
    else if (journey->failures >= WARN_FROM)
        log_warn("%s: %s; attempt %d of %d", url, problem, journey->failures + 1, most);
    if (status > 0)
        TRY(pause_before_retry(journey));
    return status;
}

struct s3_error {
    struct buffer code, message, region;
};

static void read_error(struct s3_error *error, const struct remote_answer *answer) {
    const char *text = buffer_string(&answer->body);
    (void)xml_find(text, answer->body.length, "Code", &error->code);
    (void)xml_find(text, answer->body.length, "Message", &error->message);
    (void)xml_find(text, answer->body.length, "Region", &error->region);
    char region[64];
    if (http_header(&answer->response, "x-amz-bucket-region", region, sizeof region)) {
        buffer_clear(&error->region);
        buffer_append_string(&error->region, region);
    }
}

static double server_time(const struct http_response *response) {
    char date[64];
    struct tm utc = {0};
    if (!http_header(response, "Date", date, sizeof date) || !strptime(date, "%a, %d %b %Y %H:%M:%S", &utc))
        return 0;
    return (double)timegm(&utc);
}

// Whether an error of this request is now corrected: the region, the time, or expired credentials.
static bool correct(struct journey *journey, const struct remote_access *access, const struct s3_error *error) {
    const struct http_response *response = &journey->answer->response;
    const char *code = buffer_string(&error->code);
    const char *token = access->credentials.session_token ? access->credentials.session_token : "";
    if (journey->call->url->kind != URL_S3 || journey->corrections++ >= MOST_CORRECTIONS)
        return false;
    bool is_elsewhere = response->status == 301 || response->status == 307 ||
                        strcmp(code, "AuthorizationHeaderMalformed") == 0 ||
                        strcmp(code, "IllegalLocationConstraintException") == 0;
    if (is_elsewhere && error->region.length > 0)
        return remote_learn_region(journey->call->url->bucket, buffer_string(&error->region));
    if (strcmp(code, "RequestTimeTooSkewed") == 0 && server_time(response) > 0)
        return remote_learn_time(server_time(response));
    bool is_expired = strncmp(code, "ExpiredToken", 12) == 0 || strcmp(code, "TokenRefreshRequired") == 0 ||
                      strcmp(code, "InvalidAccessKeyId") == 0 || strcmp(code, "InvalidToken") == 0;
    return is_expired && access->credentials.access_key && remote_renew(access->credentials.access_key, token);
}

static bool may_pass(int status, const char *code) {
    return status == 429 || status == 408 || (status >= 500 && status != 501 && status != 505) ||
           strcmp(code, "RequestTimeout") == 0 || strcmp(code, "SlowDown") == 0 ||
           (status == 200 && (strcmp(code, "InternalError") == 0 || strcmp(code, "ServiceUnavailable") == 0));
}

// An <Error> after status 200, which S3 sends before it is done.
static bool failed_late(const struct journey *journey) {
    const struct buffer *body = &journey->answer->body;
    OWNED_BY(buffer_free) struct buffer code = {0};
    return journey->call->may_fail_late && xml_find(buffer_string(body), body->length, "Code", &code);
}

static int judge_refusal(struct journey *journey, const struct remote_access *access) {
    const struct http_response *response = &journey->answer->response;
    struct s3_error error = {0};
    read_error(&error, journey->answer);
    const char *code = buffer_string(&error.code);
    int status;
    bool is_absent = response->status == 404 && strcmp(code, "NoSuchBucket") != 0;
    if (is_absent && journey->call->may_be_absent) {
        status = 0;
    } else if (may_pass(response->status, code)) {
        char problem[160];
        (void)snprintf(problem, sizeof problem, "HTTP %d %.100s", response->status, code);
        status = try_again(journey, problem) < 0 ? -1 : 2;
    } else if (correct(journey, access, &error)) {
        status = 2;
    } else {
        double now = server_time(response), skew = now > 0 ? now - clock_wall_seconds() : 0;
        status = remote_explain(&(struct remote_failure){.doing = journey->call->doing,
                                                         .url = journey->call->url->text,
                                                         .status = response->status,
                                                         .code = code,
                                                         .message = buffer_string(&error.message),
                                                         .credentials = &access->credentials,
                                                         .skew_seconds = skew > 0 ? skew : -skew});
    }
    buffer_free(&error.code);
    buffer_free(&error.message);
    buffer_free(&error.region);
    return status;
}

// A range that ended early without libcurl noticing.
static bool is_short(const struct journey *journey) {
    const struct remote_call *call = journey->call;
    return call->sink && call->end > 0 && journey->answer->received < call->end - call->begin;
}

// Returns 1 done, 0 absent, 2 to try again, -1 with a message.
static int judge(struct journey *journey, const struct remote_access *access, enum http_result result) {
    const struct remote_call *call = journey->call;
    const struct http_response *response = &journey->answer->response;
    OWNED char *url = secret_redact(call->url->text);
    int status = -1;
    if (journey->is_changed)
        status = remote_explain(&(struct remote_failure){.doing = call->doing, .url = call->url->text, .status = 412});
    else if (journey->is_unranged)
        status = error_set("cannot %s %s: the server sent other bytes than asked for; copy it to a disk first",
                           call->doing, url);
    else if (result == HTTP_STOPPED)
        status = error_exit_code() == EXIT_CODE_OK ? error_set("stopped") : -1;
    else if (result == HTTP_REFUSED && call->is_probe && is_good(response))
        status = 1;
    else if (result == HTTP_REFUSED)
        status = error_exit_code() == EXIT_CODE_OK ? error_set("cannot %s %s: the answer is too long", call->doing, url)
                                                   : -1;
    else if (result == HTTP_HOPELESS)
        status = error_set("cannot %s %s: %s", call->doing, url, journey->problem);
    else if (result == HTTP_BROKEN || (is_good(response) && is_short(journey)))
        status = try_again(journey, result == HTTP_BROKEN ? journey->problem : "the answer was cut short") < 0 ? -1 : 2;
    else
        status = (is_good(response) && !failed_late(journey)) || (call->is_probe && response->status == 416)
                     ? 1
                     : judge_refusal(journey, access);
    return status;
}

int remote_call(const struct remote_call *call, struct remote_answer *answer) {
    struct journey journey = {.call = call, .answer = answer};
    int status = 2;
    error_clear();
    while (status == 2) {
        struct remote_access access = {0};
        TRY(call->url->kind == URL_S3 ? remote_access_take(&access, call->url->bucket)
                                      : remote_access_take_plain(&access));
        enum http_result result = send_once(&journey, &access);
        status = judge(&journey, &access, result);
        remote_access_free(&access);
    }
    return status;
}
