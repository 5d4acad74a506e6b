// Writing to S3: whole objects, and files in parts. The body of every request is hashed, and S3 compares the hash with
// the received bytes. See remote.h.
#include "net/internal.h"
#include "net/xml.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/interrupt.h"
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_PARTS = 10000, MOST_SENDERS = 16 };

int remote_write_all(const char *text, const void *bytes, size_t count, const atomic_bool *stop) {
    OWNED_BY(url_free) struct url url = {0};
    TRY(url_parse(&url, text));
    OWNED_BY(remote_answer_free) struct remote_answer answer = {0};
    const struct remote_call call = {.method = "PUT",
                                     .url = &url,
                                     .doing = "write",
                                     .body = count > 0 ? bytes : NULL,
                                     .body_bytes = count,
                                     .stop = stop};
    int status = remote_call(&call, &answer);
    return status < 0 ? -1 : 0;
}

int remote_remove(const char *text, const atomic_bool *stop) {
    OWNED_BY(url_free) struct url url = {0};
    TRY(url_parse(&url, text));
    OWNED_BY(remote_answer_free) struct remote_answer answer = {0};
    const struct remote_call call = {
        .method = "DELETE", .url = &url, .doing = "remove", .stop = stop, .may_be_absent = true};
    int status = remote_call(&call, &answer);
    return status < 0 ? -1 : 0;
}

// ---- files in parts ----

struct upload_job {
    const struct remote_upload *upload;
    struct url url;
    char *id;  // percent-encoded
    size_t part_bytes;
    int64_t parts;
    pthread_mutex_t lock;
    // Guarded by the lock:
    int64_t next;  // part to read
    struct sha256 hash;
    char **tags;  // (parts) S3's tags of them
    struct error_note *error;
    atomic_bool stop;  // an error, or the caller's stop
};

static int read_part(const struct remote_upload *upload, uint64_t from, char *bytes, size_t count) {
    size_t got = file_read_at(upload->descriptor, bytes, count, from);
    if (got == count)
        return 0;
    return error_set("cannot read %s at byte %" PRIu64 ": %s", upload->name, from + got,
                     errno ? strerror(errno) : "it was truncated");
}

// Takes the next part: its number from 1 and its bytes; 0 if there is none, -1 on error. Parts are read in order under
// the lock, so that the hash of the whole is computed on the way.
static int64_t take_part(struct upload_job *job, char *bytes, size_t *count) {
    int64_t number = 0;
    pthread_mutex_lock(&job->lock);
    if (job->next < job->parts && !atomic_load(&job->stop)) {
        uint64_t from = (uint64_t)job->next * job->part_bytes, left = job->upload->size - from;
        *count = left < job->part_bytes ? (size_t)left : job->part_bytes;
        number = read_part(job->upload, from, bytes, *count) < 0 ? -1 : ++job->next;
        if (number > 0)
            sha256_update(&job->hash, bytes, *count);
    }
    pthread_mutex_unlock(&job->lock);
    return number;
}

static int send_part(struct upload_job *job, int64_t number, const char *bytes, size_t count) {
    OWNED_BY(remote_answer_free) struct remote_answer answer = {0};
    char *query = memory_printf("partNumber=%" PRId64 "&uploadId=%s", number, job->id), tag[REMOTE_TAG_BYTES];
    const struct remote_call call = {.method = "PUT",
                                     .url = &job->url,
                                     .query = query,
                                     .doing = "write",
                                     .body = bytes,
                                     .body_bytes = count,
                                     .stop = job->upload->stop ? job->upload->stop : &job->stop};
    int status = remote_call(&call, &answer);
    if (status > 0 && !http_header(&answer.response, "ETag", tag, sizeof tag))
        status = error_set("cannot write %s: S3 did not name part %" PRId64, job->upload->url, number);
    if (status > 0)
        job->tags[number - 1] = memory_string(tag);
    free(query);
    return status < 0 ? -1 : 0;
}

static void *send_parts(void *argument) {
    struct upload_job *job = argument;
    OWNED char *bytes = memory_alloc(job->part_bytes);
    size_t count;
    int64_t number;
    int status = 0;
    while (status == 0 && (number = take_part(job, bytes, &count)) != 0)
        status = number < 0 ? -1 : send_part(job, number, bytes, count);
    if (status < 0) {
        struct error_note *error = error_take();
        pthread_mutex_lock(&job->lock);
        if (job->error)
            error_drop(error);
        else
            job->error = error;
        atomic_store(&job->stop, true);
        pthread_mutex_unlock(&job->lock);
    }
    return NULL;
}

static int begin_upload(struct upload_job *job) {
    OWNED_BY(remote_answer_free) struct remote_answer answer = {0};
    OWNED_BY(buffer_free) struct buffer id = {0}, encoded = {0};
    const struct remote_call call = {
        .method = "POST", .url = &job->url, .query = "uploads=", .doing = "write", .stop = job->upload->stop};
    int status = remote_call(&call, &answer);
    if (status > 0 && !xml_find(buffer_string(&answer.body), answer.body.length, "UploadId", &id))
        status = error_set("cannot write %s: the answer to a new upload has no UploadId", job->upload->url);
    if (status > 0) {
        url_encode(&encoded, buffer_string(&id), false);
        job->id = memory_string(buffer_string(&encoded));
    }
    return status < 0 ? -1 : 0;
}

static int check_hash(struct upload_job *job) {
    unsigned char digest[32];
    char hex[65];
    sha256_final(&job->hash, digest);
    sha256_hex(digest, hex);
    if (job->upload->sha256 && strcmp(hex, job->upload->sha256) != 0)
        return error_set("%s is damaged: its SHA-256 is not that of its manifest", job->upload->name);
    return 0;
}

// Whether an attempt whose answer was lost has completed the upload.
static int check_completed(const struct upload_job *job, int attempts) {
    struct remote_object object = {0};
    int status = attempts > 1 ? remote_look(&object, &job->url) : 0;
    bool is_whole = status > 0 && object.size == job->upload->size;
    remote_object_free(&object);
    if (status >= 0 && !is_whole)
        status = error_set("cannot write %s: S3 does not know its parts any more (NoSuchUpload); does a lifecycle rule "
                           "or another process remove unfinished uploads?",
                           job->upload->url);
    return status;
}

// Completes the upload from its parts.
static int complete_upload(struct upload_job *job) {
    OWNED_BY(buffer_free) struct buffer body = {0};
    OWNED_BY(remote_answer_free) struct remote_answer answer = {0};
    OWNED char *query = memory_printf("uploadId=%s", job->id);
    buffer_append_string(&body, "<CompleteMultipartUpload>");
    for (int64_t i = 0; i < job->parts; i++)
        buffer_printf(&body, "<Part><PartNumber>%" PRId64 "</PartNumber><ETag>%s</ETag></Part>", i + 1, job->tags[i]);
    buffer_append_string(&body, "</CompleteMultipartUpload>");
    const struct remote_call call = {.method = "POST",
                                     .url = &job->url,
                                     .query = query,
                                     .doing = "write",
                                     .body = body.data,
                                     .body_bytes = body.length,
                                     .stop = job->upload->stop,
                                     .may_be_absent = true,
                                     .may_fail_late = true};
    int status = remote_call(&call, &answer);
    if (status == 0)
        status = check_completed(job, answer.attempts);
    return status < 0 ? -1 : 0;
}

// Sent parts would stay, invisible and billed. The error that led here is kept.
static void abort_upload(struct upload_job *job) {
    struct error_note *error = error_take();
    OWNED_BY(remote_answer_free) struct remote_answer answer = {0};
    OWNED char *query = memory_printf("uploadId=%s", job->id);
    const struct remote_call call = {
        .method = "DELETE", .url = &job->url, .query = query, .doing = "remove", .may_be_absent = true};
    (void)remote_call(&call, &answer);
    if (error)
        error_give(error);
}

static int send_all_parts(struct upload_job *job) {
    pthread_t senders[MOST_SENDERS];
    int wanted = remote_patience().streams, count = 0;
    wanted = wanted < MOST_SENDERS ? wanted : MOST_SENDERS;
    while (count + 1 < wanted && count + 1 < job->parts && thread_start(&senders[count], send_parts, job))
        count++;
    send_parts(job);
    for (int i = 0; i < count; i++)
        pthread_join(senders[i], NULL);
    struct error_note *error = job->error;
    job->error = NULL;
    if (error)
        return error_give(error);
    return check_hash(job);
}

static int upload_in_parts(struct upload_job *job) {
    TRY(begin_upload(job));
    job->tags = memory_alloc((size_t)job->parts * sizeof *job->tags);
    int status = send_all_parts(job);
    if (status == 0)
        status = complete_upload(job);
    if (status < 0)
        abort_upload(job);
    for (int64_t i = 0; i < job->parts; i++)
        free(job->tags[i]);
    free(job->tags);
    return status;
}

static int upload_at_once(struct upload_job *job) {
    const struct remote_upload *upload = job->upload;
    OWNED char *bytes = memory_alloc((size_t)upload->size + 1);
    int status = read_part(upload, 0, bytes, (size_t)upload->size);
    if (status == 0) {
        sha256_update(&job->hash, bytes, (size_t)upload->size);
        status = check_hash(job);
    }
    if (status == 0)
        status = remote_write_all(upload->url, bytes, (size_t)upload->size, upload->stop);
    return status;
}

int remote_upload(const struct remote_upload *upload) {
    struct upload_job job = {.upload = upload, .part_bytes = remote_patience().part_bytes};
    TRY(url_parse(&job.url, upload->url));
    // At most MOST_PARTS are allowed.
    uint64_t least = upload->size / MOST_PARTS + 1;
    job.part_bytes = least > job.part_bytes ? (size_t)least : job.part_bytes;
    job.parts = (int64_t)((upload->size + job.part_bytes - 1) / job.part_bytes);
    pthread_mutex_init(&job.lock, NULL);
    sha256_init(&job.hash);
    int status = job.parts <= 1 ? upload_at_once(&job) : upload_in_parts(&job);
    pthread_mutex_destroy(&job.lock);
    free(job.id);
    url_free(&job.url);
    return status;
}
