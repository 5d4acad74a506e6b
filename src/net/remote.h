// Data in S3 or at https:// addresses, read and written in pieces. Credentials, regions and open connections are state
// of the process: the command line passes on the environment once, and everything is looked up when the first address
// is used. All functions may be called from any thread.
//
// Requests that fail temporarily (500, 503, time-outs, connections that end early) are repeated with growing pauses. A
// read continues after the bytes received. An object is identified by its ETag: if it is replaced while being read,
// reading ends with an error instead of mixing both versions.
#ifndef NET_REMOTE_H
#define NET_REMOTE_H

#include "net/url.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- settings of the process ----

// Sets the lookup of environment variables: getenv, in the program. Not base/environment.h, which remembers values for
// jobs that start later: these are secrets.
void remote_set_environment(char *(*get)(const char *name));
// S3's address instead of AWS's own, e.g. http://127.0.0.1:9000; NULL for the one in the environment.
void remote_set_endpoint(const char *url);
// Limits before giving up; 0 for the usual value.
struct remote_patience {
    int attempts;            // without progress; 8
    double backoff_seconds;  // before the second attempt, growing from there; 0.5
    double stall_seconds;    // without a byte; 60
    size_t part_bytes;       // of a request; 8 MiB
    int streams;             // requests at the same time for one object; 8
};
void remote_set_patience(const struct remote_patience *patience);
// An address as it may appear in messages, journals and configurations, to be freed: signatures in its query are
// hidden, and this process remembers them, so that the result can be opened like the address itself.
char *remote_hide(const char *url);
// Forgets credentials, regions, objects and hidden addresses; for tests.
void remote_forget(void);

// ---- objects ----

struct remote_object {
    char *url;
    uint64_t size;    // UINT64_MAX if the server does not say
    char *tag;        // ETag, or the time of the last change; "" if the server sends neither
    bool has_ranges;  // can be read from any byte on
};
void remote_object_free(struct remote_object *object);

// 1 if there is such an object, 0 if not, -1 on error. The answer is kept, so that all parts of a run see one version.
int remote_find(struct remote_object *object, const char *url);

// Lists objects of a bucket whose address begins with the prefix s3://BUCKET/…, in byte order of their keys. If
// `stays_in_folder`, only those without a further slash.
struct remote_list {
    struct remote_object *objects;
    size_t count;
};
int remote_list(struct remote_list *list, const char *prefix, bool stays_in_folder);
void remote_list_free(struct remote_list *list);
// Lists objects that match a pattern: * and ? and [ ] match within one folder, as in a shell.
int remote_glob(struct remote_list *list, const char *pattern);

// Bytes [begin, begin + count) of an object with ranges.
int remote_read(const struct remote_object *object, uint64_t begin, void *out, size_t count, const atomic_bool *stop);
// Reads a whole small object in its current version; more than limit_bytes is an error. 1, 0 if there is none, -1.
int remote_read_all(const char *url, size_t limit_bytes, struct buffer *out);

// ---- writing to S3 ----

// Writes a whole object at once.
int remote_write_all(const char *url, const void *bytes, size_t count, const atomic_bool *stop);
// Removes an object; one that is gone already is not an error.
int remote_remove(const char *url, const atomic_bool *stop);
// Copies an open file, whose SHA-256 must be as given (NULL: not checked). Sent in parts, several at a time; on any
// failure the parts are removed again, and the object appears whole or not at all.
struct remote_upload {
    const char *url;
    const char *name;  // of the file, for messages
    int descriptor;
    uint64_t size;
    const char *sha256;
    const atomic_bool *stop;
};
int remote_upload(const struct remote_upload *upload);

// ---- an object as a stream ----

// An object as a stream of bytes in a pipe, so that any code that reads files can read it. Several requests for parts
// of it are in flight at the same time; the parts go into the pipe in order. Memory is bounded by the number of parts
// in flight. A server without ranges is read by one request from beginning to end.

struct remote_stream;

// From byte `begin` on. The object must exist.
int remote_stream_open(struct remote_stream **stream, const char *url, uint64_t begin);
// The read end of the pipe; it belongs to the stream.
int remote_stream_descriptor(const struct remote_stream *stream);
// To be called at the end of the pipe: 0 if all bytes came, -1 with a message.
int remote_stream_check(struct remote_stream *stream);
// Ends the transfers; the reader of the pipe soon sees its end. To be called before waiting for threads that read the
// stream.
void remote_stream_stop(struct remote_stream *stream);   // NULL is fine
void remote_stream_close(struct remote_stream *stream);  // at any moment; NULL is fine

#endif
