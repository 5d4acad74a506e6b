// The order in which credentials are looked for, and the files and programs that provide them. See credentials.h.
#include "net/credentials.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/process.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_ROLES = 5 };

static void wipe(char **secret) {
    if (*secret)
        explicit_bzero(*secret, strlen(*secret));
    free(*secret);
    *secret = NULL;
}

void credentials_free(struct aws_credentials *credentials) {
    wipe(&credentials->access_key);
    wipe(&credentials->secret_key);
    wipe(&credentials->session_token);
    free(credentials->source);
    *credentials = (struct aws_credentials){0};
}

// ---- the environment and the files ----

const char *aws_context_get(const struct aws_context *context, const char *name) {
    const char *value = context->get ? context->get(name) : NULL;
    return value && *value ? value : NULL;
}

static char *find_file(const struct aws_context *context, const char *variable, const char *name) {
    const char *given = aws_context_get(context, variable), *home = aws_context_get(context, "HOME");
    const char *path = given ? given : name;
    if (path[0] == '~' && path[1] == '/')
        return home ? file_join(home, path + 2) : NULL;
    return memory_string(path);
}

static char *section_of(const char *profile) {
    return strcmp(profile, "default") == 0 ? memory_string(profile) : memory_printf("profile %s", profile);
}

static bool has_profile(const struct aws_context *context, const char *profile) {
    OWNED char *section = section_of(profile);
    return aws_file_has_section(&context->keys, profile) || aws_file_has_section(&context->config, section);
}

static int check_profile(const struct aws_context *context, const char *profile) {
    if (has_profile(context, profile))
        return 0;
    return error_set("there is no profile \"%s\" in %s or %s; check AWS_PROFILE", profile,
                     context->keys_path ? context->keys_path : "~/.aws/credentials",
                     context->config_path ? context->config_path : "~/.aws/config");
}

int aws_context_open(struct aws_context *context, char *(*get)(const char *name)) {
    *context = (struct aws_context){.get = get};
    const char *profile = aws_context_get(context, "AWS_PROFILE");
    profile = profile ? profile : aws_context_get(context, "AWS_DEFAULT_PROFILE");
    context->has_profile = profile != NULL;
    context->profile = profile ? profile : "default";
    context->keys_path = find_file(context, "AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials");
    context->config_path = find_file(context, "AWS_CONFIG_FILE", "~/.aws/config");
    int status = 0;
    if (context->keys_path)
        status = aws_file_read(&context->keys, context->keys_path);
    if (status == 0 && context->config_path)
        status = aws_file_read(&context->config, context->config_path);
    if (status == 0 && context->has_profile)
        status = check_profile(context, context->profile);
    if (status < 0)
        aws_context_close(context);
    return status;
}

void aws_context_close(struct aws_context *context) {
    aws_file_free(&context->keys);
    aws_file_free(&context->config);
    free(context->keys_path);
    free(context->config_path);
    *context = (struct aws_context){0};
}

char *aws_context_setting(const struct aws_context *context, const char *profile, const char *name) {
    char *section = section_of(profile), *value = aws_file_get(&context->config, section, name);
    free(section);
    return value ? value : aws_file_get(&context->keys, profile, name);
}

char *aws_context_region(const struct aws_context *context) {
    const char *region = aws_context_get(context, "AWS_REGION");
    region = region ? region : aws_context_get(context, "AWS_DEFAULT_REGION");
    return region ? memory_string(region) : aws_context_setting(context, context->profile, "region");
}

char *aws_context_endpoint(const struct aws_context *context, const char *service) {
    OWNED char *variable = memory_printf("AWS_ENDPOINT_URL_%s", service);
    for (char *byte = variable; *byte; byte++)
        *byte = (char)toupper((unsigned char)*byte);
    const char *given = aws_context_get(context, variable);
    given = given ? given : aws_context_get(context, "AWS_ENDPOINT_URL");
    return given ? memory_string(given) : aws_context_setting(context, context->profile, "endpoint_url");
}

char *aws_context_ca_file(const struct aws_context *context) {
    const char *given = aws_context_get(context, "AWS_CA_BUNDLE");
    return given ? memory_string(given) : aws_context_setting(context, context->profile, "ca_bundle");
}

static int from_environment(struct aws_credentials *out, const struct aws_context *context) {
    const char *key = aws_context_get(context, "AWS_ACCESS_KEY_ID");
    const char *secret = aws_context_get(context, "AWS_SECRET_ACCESS_KEY");
    if (!key)
        return 0;
    if (!secret)
        return error_set("AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not; set both or neither");
    *out = (struct aws_credentials){.access_key = memory_string(key),
                                    .secret_key = memory_string(secret),
                                    .session_token = memory_string(aws_context_get(context, "AWS_SESSION_TOKEN")),
                                    .source = memory_string("the environment")};
    return 1;
}

static int from_identity(struct aws_credentials *out, const struct aws_context *context) {
    const char *file = aws_context_get(context, "AWS_WEB_IDENTITY_TOKEN_FILE");
    const struct aws_role role = {.arn = aws_context_get(context, "AWS_ROLE_ARN"),
                                  .session = aws_context_get(context, "AWS_ROLE_SESSION_NAME")};
    if (!file || !role.arn)
        return 0;
    TRY(credentials_from_identity(out, context, &role, file));
    return 1;
}

// ---- profiles ----

static int from_keys(struct aws_credentials *out, const struct aws_file *file, const char *section,
                     const char *profile) {
    char *key = aws_file_get(file, section, "aws_access_key_id");
    char *secret = aws_file_get(file, section, "aws_secret_access_key");
    if (!key || !secret) {
        bool is_half = (key != NULL) != (secret != NULL);
        wipe(&key);
        wipe(&secret);
        return is_half ? error_set("profile %s in %s has only one of aws_access_key_id and aws_secret_access_key; "
                                   "add the other",
                                   profile, file->path)
                       : 0;
    }
    *out = (struct aws_credentials){.access_key = key,
                                    .secret_key = secret,
                                    .session_token = aws_file_get(file, section, "aws_session_token"),
                                    .renews = true,  // newer ones may be written there
                                    .source = memory_printf("profile %s of %s", profile, file->path)};
    return 1;
}

static int from_program(struct aws_credentials *out, const char *const *argv, const char *name) {
    OWNED_BY(process_result_free) struct process_result result = {0};
    TRY(process_run(argv, NULL, &result));
    int status = 0;
    if (result.exit_code != 0)
        status = error_set("%s failed (exit code %d): %.300s", name, result.exit_code, buffer_string(&result.errors));
    else
        status = credentials_parse_json(out, buffer_string(&result.output), result.output.length, name);
    if (status == 0) {
        out->renews = true;
        out->source = memory_string(name);
    }
    if (result.output.data)
        explicit_bzero(result.output.data, result.output.length);
    return status < 0 ? -1 : 1;
}

// A profile with browser sign-on: the aws command keeps its tokens and can exchange them.
static int from_sign_on(struct aws_credentials *out, const char *profile) {
    const char *const argv[] = {"aws",     "configure", "export-credentials", "--profile", profile, "--format",
                                "process", NULL};
    if (from_program(out, argv, "`aws configure export-credentials`") >= 0)
        return 1;
    return error_context("profile %s signs on with IAM Identity Center; run `aws sso login --profile %s`", profile,
                         profile);
}

static int from_profile(struct aws_credentials *out, const struct aws_context *context, const char *profile, int depth);

// The credentials used to assume a role.
static int find_base(struct aws_credentials *out, const struct aws_context *context, const char *profile, int depth) {
    OWNED char *base = aws_context_setting(context, profile, "source_profile");
    OWNED char *place = aws_context_setting(context, profile, "credential_source");
    int status = 0;
    if (base)
        status = strcmp(base, profile) == 0 ? from_keys(out, &context->keys, profile, profile)
                                            : from_profile(out, context, base, depth + 1);
    else if (place && strcmp(place, "Environment") == 0)
        status = from_environment(out, context);
    else if (place && strcmp(place, "EcsContainer") == 0)
        status = credentials_from_container(out, context);
    else if (place && strcmp(place, "Ec2InstanceMetadata") == 0)
        status = credentials_from_instance(out, context);
    if (status == 0)
        status = error_set("profile %s of %s has a role_arn, but no credentials to assume it with; check "
                           "source_profile or credential_source",
                           profile, context->config_path);
    return status;
}

static int from_role(struct aws_credentials *out, const struct aws_context *context, const char *profile, int depth) {
    OWNED char *arn = aws_context_setting(context, profile, "role_arn");
    if (!arn)
        return 0;
    OWNED char *file = aws_context_setting(context, profile, "web_identity_token_file");
    OWNED char *session = aws_context_setting(context, profile, "role_session_name");
    OWNED char *external_id = aws_context_setting(context, profile, "external_id");
    OWNED char *device = aws_context_setting(context, profile, "mfa_serial");
    const struct aws_role role = {.arn = arn, .session = session, .external_id = external_id};
    struct aws_credentials base = {0};
    int status = 0;
    if (file)
        status = credentials_from_identity(out, context, &role, file);
    else if (device)
        status = error_set("profile %s requires an MFA code; run `aws configure export-credentials "
                           "--profile %s --format env` and set what it prints",
                           profile, profile);
    else if ((status = find_base(&base, context, profile, depth)) > 0)
        status = credentials_from_role(out, context, &role, &base);
    credentials_free(&base);
    return status < 0 ? -1 : 1;
}

static int from_config(struct aws_credentials *out, const struct aws_context *context, const char *profile) {
    OWNED char *section = section_of(profile);
    OWNED char *command = aws_context_setting(context, profile, "credential_process");
    OWNED char *sso = aws_context_setting(context, profile, "sso_session");
    sso = sso ? sso : aws_context_setting(context, profile, "sso_start_url");
    const char *const argv[] = {"sh", "-c", command, NULL};
    int status = 0;
    if (sso)
        status = from_sign_on(out, profile);
    else if (command)
        status = from_program(out, argv, "credential_process");
    if (status == 0)
        status = from_keys(out, &context->config, section, profile);
    return status;
}

static int from_profile(struct aws_credentials *out, const struct aws_context *context, const char *profile,
                        int depth) {
    if (depth > MOST_ROLES)
        return error_set("the source_profile of profile %s refers back to itself; correct %s", profile,
                         context->config_path);
    if (depth > 0)
        TRY(check_profile(context, profile));
    int status = from_role(out, context, profile, depth);
    if (status == 0)
        status = from_keys(out, &context->keys, profile, profile);
    if (status == 0)
        status = from_config(out, context, profile);
    return status;
}

int credentials_find(struct aws_credentials *out, const struct aws_context *context) {
    *out = (struct aws_credentials){0};
    int status = from_environment(out, context);
    if (status == 0)
        status = from_identity(out, context);
    if (status == 0)
        status = from_profile(out, context, context->profile, 0);
    if (status == 0)
        status = credentials_from_container(out, context);
    if (status == 0)
        status = credentials_from_instance(out, context);
    if (status < 0)
        credentials_free(out);
    return status < 0 ? -1 : 0;
}

// Signature version 4: a canonical form of the request is hashed, and the hash is signed with a key derived from the
// secret key, the day, the region and the service. S3's variant: the path is encoded once, and the hash of the body is
// a header of its own.

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
