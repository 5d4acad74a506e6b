// Credentials fetched over HTTP: from the container, the instance, or STS. See credentials.h.
#include "net/credentials.h"
#include "net/http.h"
#include "net/internal.h"
#include "net/url.h"
#include "net/xml.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/number.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_ANSWER = 1 << 18, MOST_TOKEN = 1 << 16, ATTEMPTS = 3 };

// ---- one request ----

struct credentials_question {
    const struct aws_context *context;
    const char *method, *url;
    struct http_headers headers;
    const char *body;
    double connect_seconds, stall_seconds;
    int attempts;
};

static int collect(void *context, const void *bytes, size_t count) {
    struct buffer *answer = context;
    if (answer->length + count > MOST_ANSWER)
        return -1;
    buffer_append(answer, bytes, count);
    return 0;
}

static bool is_passing(int status) {
    return status == 429 || status >= 500;
}

// The status of the answer; -1 with a message if none came.
static int ask(const struct credentials_question *question, struct buffer *answer) {
    TRY(http_load());
    OWNED char *ca_file = aws_context_ca_file(question->context);
    const struct http_request request = {
        .method = question->method,
        .url = question->url,
        .headers = &question->headers,
        .body = question->body,
        .body_bytes = question->body ? strlen(question->body) : 0,
        .sink = collect,
        .context = answer,
        .connect_seconds = question->connect_seconds,
        .stall_seconds = question->stall_seconds,
        .ca_file = ca_file,
    };
    struct http_response response = {0};
    char problem[HTTP_PROBLEM_BYTES];
    enum http_result result = HTTP_BROKEN;
    for (int i = 0; i < question->attempts; i++) {
        if (i > 0)
            clock_sleep(remote_patience().backoff_seconds * i);
        buffer_clear(answer);
        result = http_perform(&request, &response, problem);
        if (result != HTTP_BROKEN && (result != HTTP_DONE || !is_passing(response.status)))
            break;
    }
    int status = response.status;
    http_response_free(&response);
    if (result == HTTP_STOPPED)
        return -1;
    if (result != HTTP_DONE)
        return error_set("cannot ask %s for credentials: %s", question->url, problem);
    return status;
}

// ---- answers ----

static int64_t parse_time(const char *text) {
    struct tm utc = {0};
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &utc);
    return end ? (int64_t)timegm(&utc) : 0;
}

static char *json_copy(const struct json *root, const char *key) {
    const struct json *value = json_member(root, key);
    return value && value->type == JSON_STRING ? memory_string(value->string) : NULL;
}

static int check_found(struct aws_credentials *out, const char *name) {
    if (out->access_key && out->secret_key && *out->access_key && *out->secret_key)
        return 0;
    credentials_free(out);
    return error_set("the answer from %s has no access key", name);
}

int credentials_parse_json(struct aws_credentials *out, const char *text, size_t length, const char *name) {
    OWNED struct json *root = NULL;
    *out = (struct aws_credentials){0};
    // The parser's message would quote the text, which is secret.
    if (json_parse(&root, text, length, name) < 0)
        return error_set("the answer from %s is not JSON", name);
    out->access_key = json_copy(root, "AccessKeyId");
    out->secret_key = json_copy(root, "SecretAccessKey");
    out->session_token = json_copy(root, "Token");
    if (!out->session_token)
        out->session_token = json_copy(root, "SessionToken");
    OWNED char *expires = json_copy(root, "Expiration");
    out->expires = expires ? parse_time(expires) : 0;
    return check_found(out, name);
}

static char *xml_copy(const char *text, size_t length, const char *name) {
    OWNED_BY(buffer_free) struct buffer value = {0};
    char *copy = xml_find(text, length, name, &value) ? memory_string(buffer_string(&value)) : NULL;
    if (value.data)
        explicit_bzero(value.data, value.length);
    return copy;
}

int credentials_parse_xml(struct aws_credentials *out, const char *text, size_t length, const char *name) {
    *out = (struct aws_credentials){.access_key = xml_copy(text, length, "AccessKeyId"),
                                    .secret_key = xml_copy(text, length, "SecretAccessKey"),
                                    .session_token = xml_copy(text, length, "SessionToken")};
    OWNED char *expires = xml_copy(text, length, "Expiration");
    out->expires = expires ? parse_time(expires) : 0;
    return check_found(out, name);
}

// ---- containers and instances ----

int credentials_from_container(struct aws_credentials *out, const struct aws_context *context) {
    const char *relative = aws_context_get(context, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = aws_context_get(context, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
    const char *file = aws_context_get(context, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    const char *token = aws_context_get(context, "AWS_CONTAINER_AUTHORIZATION_TOKEN");
    if (!relative && !full)
        return 0;
    OWNED char *url = relative ? memory_printf("http://169.254.170.2%s", relative) : memory_string(full);
    OWNED_BY(buffer_free) struct buffer secret = {0}, answer = {0};
    struct credentials_question question = {.context = context,
                                            .method = "GET",
                                            .url = url,
                                            .connect_seconds = 5,
                                            .stall_seconds = 30,
                                            .attempts = ATTEMPTS};
    int status = file ? file_read_all(file, MOST_TOKEN, &secret) : 0;
    if (status == 0 && (file || token)) {
        const char *text = file ? buffer_string(&secret) : token;
        http_headers_add(&question.headers, "Authorization: %.*s", (int)strcspn(text, "\r\n"), text);
    }
    if (status == 0)
        status = ask(&question, &answer);
    if (status >= 0 && status != 200)
        status =
            error_set("the container's credentials endpoint %s answered HTTP %d; check the task's role", url, status);
    else if (status >= 0)
        status = credentials_parse_json(out, buffer_string(&answer), answer.length, url);
    if (status == 0) {
        out->renews = true;
        out->source = memory_string("the container's role");
    }
    if (answer.data)
        explicit_bzero(answer.data, answer.length);
    http_headers_free(&question.headers);
    return status < 0 ? -1 : 1;
}

// The instance's endpoint: its address, and how long to wait for it.
struct instance_endpoint {
    const struct aws_context *context;
    const char *base;
    double seconds;
};

// Fetches one page of it. Returns the status of the answer, -1 if there is none.
static int ask_instance(const struct instance_endpoint *endpoint, const char *path, const char *token,
                        struct buffer *answer) {
    char *url = memory_printf("%s/latest/%s", endpoint->base, path);
    struct credentials_question question = {.context = endpoint->context,
                                            .method = token ? "GET" : "PUT",
                                            .url = url,
                                            .connect_seconds = endpoint->seconds,
                                            .stall_seconds = 2 * endpoint->seconds,
                                            .attempts = ATTEMPTS};
    if (token)
        http_headers_add(&question.headers, "X-aws-ec2-metadata-token: %s", token);
    else
        http_headers_add(&question.headers, "X-aws-ec2-metadata-token-ttl-seconds: 21600");
    int status = ask(&question, answer);
    http_headers_free(&question.headers);
    free(url);
    return status;
}

int credentials_from_instance(struct aws_credentials *out, const struct aws_context *context) {
    static const char roles[] = "meta-data/iam/security-credentials/";
    const char *disabled = aws_context_get(context, "AWS_EC2_METADATA_DISABLED");
    const char *given = aws_context_get(context, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
    if (disabled && strcasecmp(disabled, "true") == 0)
        return 0;
    const char *address = given ? given : "http://169.254.169.254";
    const char *timeout = aws_context_get(context, "AWS_METADATA_SERVICE_TIMEOUT");
    double seconds = 1;
    if (timeout && !(number_read_double(timeout, &seconds) && seconds > 0))
        return error_set("AWS_METADATA_SERVICE_TIMEOUT=%s is not a number of seconds", timeout);
    OWNED char *base = memory_printf("%.*s", (int)(strlen(address) - (address[strlen(address) - 1] == '/')), address);
    const struct instance_endpoint endpoint = {context, base, seconds};
    OWNED_BY(buffer_free) struct buffer token = {0}, role = {0}, answer = {0};
    int status = ask_instance(&endpoint, "api/token", NULL, &token);
    bool is_there = status == 200;
    if (!is_there)  // not an instance of EC2, or one without this endpoint
        error_clear();
    if (is_there)
        status = ask_instance(&endpoint, roles, buffer_string(&token), &role);
    if (is_there && status >= 0 && is_passing(status))
        status = error_set("the instance's endpoint answered HTTP %d when asked for its role; try again", status);
    // An endpoint that gave a token and then fails may still have a role.
    is_there = is_there && (status < 0 || (status == 200 && role.length > 0));
    if (is_there && status == 200) {
        OWNED char *path =
            memory_printf("%s%.*s", roles, (int)strcspn(buffer_string(&role), "\r\n"), buffer_string(&role));
        status = ask_instance(&endpoint, path, buffer_string(&token), &answer);
        if (status >= 0 && status != 200)
            status =
                error_set("the instance's endpoint answered HTTP %d for its role; check the instance profile", status);
        else if (status >= 0)
            status = credentials_parse_json(out, buffer_string(&answer), answer.length, "the instance's endpoint");
        if (status == 0) {
            out->renews = true;
            out->source = memory_string("the instance's role");
        }
        if (answer.data)
            explicit_bzero(answer.data, answer.length);
    }
    return !is_there ? 0 : status < 0 ? -1 : 1;
}

// ---- STS ----

static char *sts_endpoint(const struct aws_context *context, char **region) {
    char *given = aws_context_endpoint(context, "sts");
    *region = aws_context_region(context);
    if (!given && *region)
        given = memory_printf("https://sts.%s.amazonaws.com%s", *region, strncmp(*region, "cn-", 3) == 0 ? ".cn" : "");
    if (!*region)
        *region = memory_string("us-east-1");
    return given ? given : memory_string("https://sts.amazonaws.com");
}

static void append_parameter(struct buffer *body, const char *name, const char *value) {
    buffer_printf(body, "&%s=", name);
    url_encode(body, value, false);
}

// Signs the form with `own`, unless that is NULL.
static void add_headers(struct http_headers *headers, const char *url, const char *region, const struct buffer *body,
                        const struct aws_credentials *own) {
    http_headers_add(headers, "Content-Type: application/x-www-form-urlencoded; charset=utf-8");
    if (!own)
        return;
    const char *begin = strstr(url, "://"), *host = begin ? begin + 3 : url;
    char *name = memory_printf("%.*s", (int)strcspn(host, "/"), host);
    char digest[65];
    sign_sha256_hex(body->data, body->length, digest);
    remote_sign(headers, &(struct sign_request){.method = "POST",
                                                .host = name,
                                                .path = "/",
                                                .query = "",
                                                .payload_sha256 = digest,
                                                .region = region,
                                                .service = "sts",
                                                .time = (int64_t)clock_wall_seconds(),
                                                .access_key = own->access_key,
                                                .secret_key = own->secret_key,
                                                .session_token = own->session_token});
    free(name);
}

// Sends "Action=…" and reads the credentials of the answer.
static int ask_sts(struct aws_credentials *out, const struct aws_context *context, const struct buffer *body,
                   const struct aws_credentials *own) {
    char *region, *endpoint = sts_endpoint(context, &region);
    size_t length = strlen(endpoint);
    char *url = memory_printf("%s%s", endpoint, endpoint[length - 1] == '/' ? "" : "/");
    struct buffer answer = {0}, code = {0}, message = {0};
    struct credentials_question question = {
        .context = context, .method = "POST", .url = url, .body = buffer_string(body), .attempts = ATTEMPTS};
    add_headers(&question.headers, url, region, body, own);
    int status = ask(&question, &answer);
    if (status >= 0 && status != 200) {
        (void)xml_find(buffer_string(&answer), answer.length, "Code", &code);
        (void)xml_find(buffer_string(&answer), answer.length, "Message", &message);
        status = error_set("%s refused the role: HTTP %d %s: %.300s; check the role and its trust policy", url, status,
                           buffer_string(&code), buffer_string(&message));
    } else if (status >= 0) {
        status = credentials_parse_xml(out, buffer_string(&answer), answer.length, url);
    }
    if (answer.data)
        explicit_bzero(answer.data, answer.length);
    buffer_free(&answer);
    buffer_free(&code);
    buffer_free(&message);
    http_headers_free(&question.headers);
    free(url);
    free(endpoint);
    free(region);
    return status;
}

static void begin_form(struct buffer *body, const char *action, const struct aws_role *role) {
    OWNED char *session = role->session ? memory_string(role->session)
                                        : memory_printf("bevatron-%" PRId64, (int64_t)clock_wall_seconds());
    buffer_printf(body, "Action=%s&Version=2011-06-15", action);
    append_parameter(body, "RoleArn", role->arn);
    append_parameter(body, "RoleSessionName", session);
    if (role->external_id)
        append_parameter(body, "ExternalId", role->external_id);
}

static int finish_role(struct aws_credentials *out, int status, struct buffer *body, const char *arn) {
    if (status == 0) {
        out->renews = true;
        out->source = memory_printf("the role %s", arn);
    }
    if (body->data)
        explicit_bzero(body->data, body->length);
    buffer_free(body);
    return status;
}

int credentials_from_identity(struct aws_credentials *out, const struct aws_context *context,
                              const struct aws_role *role, const char *token_file) {
    struct buffer token = {0}, body = {0};
    if (file_read_all(token_file, MOST_TOKEN, &token) < 0)
        return error_context("the web identity token (AWS_WEB_IDENTITY_TOKEN_FILE)");
    begin_form(&body, "AssumeRoleWithWebIdentity", role);
    token.length = strcspn(buffer_string(&token), "\r\n");
    if (token.data)
        token.data[token.length] = 0;
    append_parameter(&body, "WebIdentityToken", buffer_string(&token));
    int status = ask_sts(out, context, &body, NULL);
    if (token.data)
        explicit_bzero(token.data, token.length);
    buffer_free(&token);
    return finish_role(out, status, &body, role->arn);
}

int credentials_from_role(struct aws_credentials *out, const struct aws_context *context, const struct aws_role *role,
                          const struct aws_credentials *own) {
    struct buffer body = {0};
    begin_form(&body, "AssumeRole", role);
    int status = ask_sts(out, context, &body, own);
    return finish_role(out, status, &body, role->arn);
}
