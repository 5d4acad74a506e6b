// Explains error answers of S3 and of web servers, with remedies.
#include "net/internal.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/secret.h"
#include <stdlib.h>
#include <string.h>

static bool is_code(const struct remote_failure *failure, const char *codes) {
    const char *found = failure->code[0] ? strstr(codes, failure->code) : NULL;
    return found && (found == codes || found[-1] == ' ') &&
           (found[strlen(failure->code)] == ' ' || !found[strlen(failure->code)]);
}

// The last characters of an access key identify it and are useless to anyone else.
static const char *end_of(const char *key) {
    size_t length = strlen(key);
    return length > 4 ? key + length - 4 : "";
}

static int explain_denied(const struct remote_failure *failure, const char *url) {
    const struct aws_credentials *own = failure->credentials;
    const char *source = own->source ? own->source : "";
    if (!own->access_key)
        return error_set("cannot %s %s: HTTP %d, and no AWS credentials were found; set AWS_ACCESS_KEY_ID and "
                         "AWS_SECRET_ACCESS_KEY or AWS_PROFILE, or check the bucket's name",
                         failure->doing, url, failure->status);
    if (is_code(failure, "InvalidAccessKeyId InvalidClientTokenId"))
        return error_set("cannot %s %s: S3 does not know the access key …%s (from %s); check the key", failure->doing,
                         url, end_of(own->access_key), source);
    if (is_code(failure, "SignatureDoesNotMatch"))
        return error_set("cannot %s %s: the secret key does not belong to the access key …%s (from %s); check the "
                         "secret key",
                         failure->doing, url, end_of(own->access_key), source);
    if (is_code(failure, "ExpiredToken ExpiredTokenException TokenRefreshRequired RequestExpired"))
        return error_set("cannot %s %s: the credentials from %s have expired; %s, and run the command again",
                         failure->doing, url, source,
                         strcmp(source, "the environment") == 0
                             ? "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN to new ones"
                             : "renew them, e.g. `aws sso login`");
    if (is_code(failure, "InvalidToken"))
        return error_set("cannot %s %s: S3 does not accept the session token (from %s); set AWS_SESSION_TOKEN to the "
                         "token of this access key, or unset it for a key without one",
                         failure->doing, url, source);
    if (is_code(failure, "RequestTimeTooSkewed"))
        return error_set("cannot %s %s: this machine's clock differs from S3's by %.0f s; set the clock, e.g. with "
                         "chrony",
                         failure->doing, url, failure->skew_seconds);
    return error_set("cannot %s %s: access denied for the access key …%s (from %s); it needs s3:GetObject and "
                     "s3:ListBucket to read, and s3:PutObject and s3:DeleteObject to save%s%.200s",
                     failure->doing, url, end_of(own->access_key), source, failure->message[0] ? ". S3 says: " : "",
                     failure->message);
}

static int explain_s3(const struct remote_failure *failure, const char *url) {
    if (is_code(failure, "NoSuchBucket"))
        return error_set("cannot %s %s: no such bucket; check the name and AWS_ENDPOINT_URL", failure->doing, url);
    if (failure->status == 404)
        return error_set("cannot %s %s: no such object; list what is there with `aws s3 ls`", failure->doing, url);
    if (failure->status == 403 || failure->status == 401 ||
        is_code(failure, "ExpiredToken ExpiredTokenException TokenRefreshRequired InvalidToken RequestTimeTooSkewed"))
        return explain_denied(failure, url);
    return error_set("cannot %s %s: S3 answered HTTP %d%s%s%s%.300s", failure->doing, url, failure->status,
                     failure->code[0] ? " " : "", failure->code, failure->message[0] ? ": " : "", failure->message);
}

static int explain_web(const struct remote_failure *failure, const char *url) {
    const char *remedy = failure->status == 404 ? "no such file; check the address"
                         : failure->status == 401 || failure->status == 403
                             ? "the server refuses access; download it with a program that can log in"
                         : failure->status == 416 ? "the server cannot send this part of it"
                                                  : "check the address, or try again later";
    return error_set("cannot %s %s: HTTP %d; %s", failure->doing, url, failure->status, remedy);
}

int remote_explain(const struct remote_failure *failure) {
    OWNED char *url = secret_redact(failure->url);
    if (failure->status == 412 || failure->status == 409)
        error_set("%s has changed since it was first read; start over, and change inputs only between runs", url);
    else if (url_is_s3(failure->url))
        explain_s3(failure, url);
    else
        explain_web(failure, url);
    return -1;
}
