// Credentials for AWS, found where the AWS tools find them, in their order:
//
//   1. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
//   2. AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN (EKS service accounts), exchanged by STS
//   3. the profile (AWS_PROFILE, else "default") in ~/.aws/credentials and ~/.aws/config: a role, keys, a
//      credential_process, or a sign-on (by asking the aws command)
//   4. the endpoint of a container (ECS, EKS pod identity)
//   5. the instance's own endpoint (IMDSv2)
//
// Secrets stay in memory: no message, log or file of ours contains one.
#ifndef NET_CREDENTIALS_H
#define NET_CREDENTIALS_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Files of the AWS tools, ~/.aws/credentials and ~/.aws/config: "[section]" lines, "name = value" lines below them,
// comments after # or ;. Indented lines belong to the value above them (the settings of one service) and are skipped.
struct aws_file {
    const char *path;  // for messages; borrowed
    struct buffer text;
};

// A missing file is empty. -1 with file and line if a line is none of the above.
int aws_file_read(struct aws_file *file, const char *path);
int aws_file_check(const struct aws_file *file);
void aws_file_free(struct aws_file *file);  // also wipes it

bool aws_file_has_section(const struct aws_file *file, const char *section);
// The value of a name in a section, to be freed; NULL if there is none. The last of equal names counts.
char *aws_file_get(const struct aws_file *file, const char *section, const char *name);

struct aws_credentials {
    char *access_key, *secret_key;  // NULL: requests are not signed
    char *session_token;            // NULL for none
    int64_t expires;                // seconds since the epoch; 0 for never
    bool renews;                    // asking again may give newer ones
    char *source;                   // for messages: "the environment", "profile x of ~/.aws/credentials"
};
void credentials_free(struct aws_credentials *credentials);  // also wipes them

// Inputs of the search. `get` returns a variable of the environment, or NULL.
struct aws_context {
    char *(*get)(const char *name);
    struct aws_file keys, config;  // ~/.aws/credentials and ~/.aws/config
    char *keys_path, *config_path;
    const char *profile;  // from AWS_PROFILE, else "default"
    bool has_profile;     // AWS_PROFILE is set
};
// Reads the files, if they exist. A requested profile that does not exist is an error.
int aws_context_open(struct aws_context *context, char *(*get)(const char *name));
void aws_context_close(struct aws_context *context);
// A variable that is set and not empty; NULL otherwise.
const char *aws_context_get(const struct aws_context *context, const char *name);
// A setting of this profile in ~/.aws/config, to be freed; NULL if there is none.
char *aws_context_setting(const struct aws_context *context, const char *profile, const char *name);
// AWS_REGION, AWS_DEFAULT_REGION, or the profile's; to be freed; NULL if there is none.
char *aws_context_region(const struct aws_context *context);
// AWS_ENDPOINT_URL_SERVICE, AWS_ENDPOINT_URL, or the profile's endpoint_url; to be freed; NULL if there is none.
char *aws_context_endpoint(const struct aws_context *context, const char *service);
// AWS_CA_BUNDLE, or the profile's ca_bundle: certificates to trust instead of the system's; to be freed; NULL if there
// is none.
char *aws_context_ca_file(const struct aws_context *context);

// Returns 0 with access_key NULL if there are none anywhere; -1 if a place that should have them fails.
int credentials_find(struct aws_credentials *credentials, const struct aws_context *context);

// Places queried over HTTP (credentials_endpoint.c). 1 if found, 0 if this machine has no such place.
int credentials_from_container(struct aws_credentials *credentials, const struct aws_context *context);
int credentials_from_instance(struct aws_credentials *credentials, const struct aws_context *context);
// STS. A role is assumed with the identity in a file, or with other credentials.
struct aws_role {
    const char *arn, *session, *external_id;  // the latter two may be NULL
};
int credentials_from_identity(struct aws_credentials *credentials, const struct aws_context *context,
                              const struct aws_role *role, const char *token_file);
int credentials_from_role(struct aws_credentials *credentials, const struct aws_context *context,
                          const struct aws_role *role, const struct aws_credentials *own);
// {"AccessKeyId": …, "SecretAccessKey": …, "Token" or "SessionToken": …, "Expiration": …}
int credentials_parse_json(struct aws_credentials *credentials, const char *text, size_t length, const char *name);
// Reads credentials from an answer of STS.
int credentials_parse_xml(struct aws_credentials *credentials, const char *text, size_t length, const char *name);

// ---- signatures ----

// Signatures of requests to AWS, version 4 (SigV4), from the text of the request and the keys alone.

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
