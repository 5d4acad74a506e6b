// Shared by the files of this folder: access to S3, and one request with its repetitions.
#ifndef NET_INTERNAL_H
#define NET_INTERNAL_H

#include "net/credentials.h"
#include "net/http.h"
#include "net/remote.h"

struct remote_patience remote_patience(void);  // with the usual values filled in

// ---- access (access.c) ----

// Inputs of a request to a bucket; a copy, so that threads do not wait for each other.
struct remote_access {
    struct aws_credentials credentials;
    char *region;
    char *endpoint;  // NULL for AWS's own
    char *ca_file;   // NULL for the system's
    int64_t time;    // now, by S3's clock as far as known
};
int remote_access_take(struct remote_access *access, const char *bucket);
// For an address outside S3: only certificates.
int remote_access_take_plain(struct remote_access *access);
void remote_access_free(struct remote_access *access);
// Facts learnt from answers. The first two return whether the fact is new, so that another attempt makes sense.
bool remote_learn_region(const char *bucket, const char *region);
bool remote_learn_time(double server_seconds);
bool remote_renew(const char *stale_access_key, const char *stale_token);

// The address that remote_hide replaced by this one, or this one itself; to be freed.
char *remote_reveal(const char *url);

// The cache of objects. Finding copies; false if it is not cached.
bool remote_cache_find(struct remote_object *object, const char *url);
void remote_cache_add(const struct remote_object *object);

// ---- requests (request.c) ----

// Signs a request and adds the headers that must be sent with it.
void remote_sign(struct http_headers *headers, const struct sign_request *request);

struct remote_call {
    const char *method;
    const struct url *url;
    const char *query;    // percent-encoded and sorted; NULL for none
    const char *doing;    // "read", "list", "write": for messages
    const char *tag;      // the object must still have this one; NULL or "" for any
    uint64_t begin, end;  // bytes to ask for; end 0 for all
    bool is_probe;        // only status and headers are wanted
    const void *body;
    size_t body_bytes;
    int (*sink)(void *context, const void *bytes, size_t count);  // for a good answer; NULL: into the answer
    void *context;
    const atomic_bool *stop;
    bool may_be_absent;  // 404 is an answer
    bool may_fail_late;  // an answer with status 200 may hold an <Error>
};

struct remote_answer {
    struct http_response response;
    struct buffer body;  // of an error answer, or if there is no sink
    uint64_t received;   // bytes taken by the sink
    int attempts;        // requests sent
};
void remote_answer_free(struct remote_answer *answer);
// Returns 1 with a good answer, 0 if absent, -1 with a message.
int remote_call(const struct remote_call *call, struct remote_answer *answer);

// Queries the current state of an object, past the cache (object.c). 1, 0 if it is absent, -1.
int remote_look(struct remote_object *object, const struct url *url);

// The tag in an answer.
void remote_tag(const struct http_response *response, char *tag, size_t size);
enum { REMOTE_TAG_BYTES = 512 };

// Adds the objects listed in one answer; *next becomes the token of the next page, empty if this is the last
// (object.c).
int remote_list_parse(struct remote_list *list, const char *bucket, const struct buffer *answer, struct buffer *next);

// ---- messages (explain.c) ----

struct remote_failure {
    const char *doing;
    const char *url;
    int status;
    const char *code, *message;  // of S3's answer; "" for none
    const struct aws_credentials *credentials;
    double skew_seconds;  // of this machine's clock, if the answer tells
};
int remote_explain(const struct remote_failure *failure);

#endif
