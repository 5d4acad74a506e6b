// Workers fetch parts into the slots of a ring, and a writer passes them on to the pipe. See remote.h.
#include "net/remote.h"
#include "net/internal.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/secret.h"
#include "base/interrupt.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_STREAMS = 64, PIPE_BYTES = 1 << 20 };

struct stream_part {
    char *bytes;
    size_t count;
    bool is_filled;
    struct error_note *error;  // instead of bytes
};

struct remote_stream {
    struct remote_object object;
    uint64_t begin;
    size_t part_bytes;
    int64_t parts;  // in all
    int pipe[2];    // read, write; -1 if closed
    atomic_bool stop;
    pthread_t writer, workers[MOST_STREAMS];
    int worker_count;  // number of workers and slots
    bool has_writer;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    // Guarded by the lock:
    struct stream_part ring[MOST_STREAMS];
    int64_t taken, written;  // parts
    struct error_note *error;
};

// ---- parts ----

static int fetch(struct remote_stream *stream, int64_t number, struct stream_part *part) {
    uint64_t from = stream->begin + (uint64_t)number * stream->part_bytes, left = stream->object.size - from;
    part->count = left < stream->part_bytes ? (size_t)left : stream->part_bytes;
    if (!part->bytes)
        part->bytes = memory_alloc(stream->parts == 1 ? part->count : stream->part_bytes);
    return remote_read(&stream->object, from, part->bytes, part->count, &stream->stop);
}

static void *work(void *argument) {
    struct remote_stream *stream = argument;
    pthread_mutex_lock(&stream->lock);
    for (;;) {
        while (!atomic_load(&stream->stop) && stream->taken < stream->parts &&
               stream->taken - stream->written >= stream->worker_count)
            pthread_cond_wait(&stream->changed, &stream->lock);
        if (atomic_load(&stream->stop) || stream->taken == stream->parts)
            break;
        int64_t number = stream->taken++;
        struct stream_part *part = &stream->ring[number % stream->worker_count];
        pthread_mutex_unlock(&stream->lock);
        int status = fetch(stream, number, part);
        struct error_note *error = status < 0 ? error_take() : NULL;
        pthread_mutex_lock(&stream->lock);
        part->error = error;
        part->is_filled = true;
        pthread_cond_broadcast(&stream->changed);
        if (status < 0)
            break;
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

// ---- the pipe ----

// -1 if the reader has closed it.
static int put(struct remote_stream *stream, const char *bytes, size_t count) {
    if (file_put(stream->pipe[1], bytes, count) < count)
        return error_set("the reader of %s has closed it", stream->object.url);
    return 0;
}

// One error is enough; all workers end.
static void fail(struct remote_stream *stream, struct error_note *error) {
    pthread_mutex_lock(&stream->lock);
    if (stream->error)
        error_drop(error);
    else
        stream->error = error;
    atomic_store(&stream->stop, true);
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

static void end_pipe(struct remote_stream *stream) {
    close(stream->pipe[1]);
    stream->pipe[1] = -1;
}

static void *write_parts(void *argument) {
    struct remote_stream *stream = argument;
    for (int64_t number = 0; number < stream->parts; number++) {
        struct stream_part *part = &stream->ring[number % stream->worker_count];
        pthread_mutex_lock(&stream->lock);
        while (!part->is_filled && !atomic_load(&stream->stop))
            pthread_cond_wait(&stream->changed, &stream->lock);
        bool is_filled = part->is_filled;
        struct error_note *error = part->error;
        part->error = NULL;
        pthread_mutex_unlock(&stream->lock);
        if (!is_filled)
            break;
        if (!error && put(stream, part->bytes, part->count) < 0)
            error = error_take();
        if (error) {
            fail(stream, error);
            break;
        }
        pthread_mutex_lock(&stream->lock);
        part->is_filled = false;
        stream->written++;
        pthread_cond_broadcast(&stream->changed);
        pthread_mutex_unlock(&stream->lock);
    }
    end_pipe(stream);
    return NULL;
}

// ---- servers without ranges ----

struct whole_sink {
    struct remote_stream *stream;
    uint64_t to_skip;
};

static int put_whole(void *context, const void *bytes, size_t count) {
    struct whole_sink *sink = context;
    size_t skipped = sink->to_skip < count ? (size_t)sink->to_skip : count;
    sink->to_skip -= skipped;
    return put(sink->stream, (const char *)bytes + skipped, count - skipped);
}

static void *write_whole(void *argument) {
    struct remote_stream *stream = argument;
    struct whole_sink sink = {.stream = stream, .to_skip = stream->begin};
    struct url url;
    struct remote_answer answer = {0};
    int status = url_parse(&url, stream->object.url);
    if (status == 0) {
        const struct remote_call call = {.method = "GET",
                                         .url = &url,
                                         .doing = "read",
                                         .tag = stream->object.tag,
                                         .sink = put_whole,
                                         .context = &sink,
                                         .stop = &stream->stop};
        status = remote_call(&call, &answer);
        remote_answer_free(&answer);
        url_free(&url);
    }
    if (status < 0)
        fail(stream, error_take());
    end_pipe(stream);
    return NULL;
}

// ---- opening and closing ----

static int open_pipe(struct remote_stream *stream) {
    if (pipe2(stream->pipe, O_CLOEXEC) < 0) {
        stream->pipe[0] = stream->pipe[1] = -1;
        return error_set("cannot read %s: cannot create a pipe: %s; raise the limit of open files (ulimit -n)",
                         stream->object.url, strerror(errno));
    }
    (void)fcntl(stream->pipe[1], F_SETPIPE_SZ, PIPE_BYTES);  // the usual size works too
    return 0;
}

static int start(struct remote_stream *stream) {
    struct remote_patience patience = remote_patience();
    const struct remote_object *object = &stream->object;
    bool is_whole = !object->has_ranges && object->size != 0;
    uint64_t left = object->size > stream->begin ? object->size - stream->begin : 0;
    stream->part_bytes = patience.part_bytes;
    stream->parts = is_whole ? 0 : (int64_t)(left / patience.part_bytes + (left % patience.part_bytes > 0));
    int wanted = patience.streams < MOST_STREAMS ? patience.streams : MOST_STREAMS;
    int64_t most = stream->parts < wanted ? stream->parts : wanted;
    // The ring has one slot per planned worker; fewer workers can fill it too.
    stream->worker_count = (int)most;
    TRY(open_pipe(stream));
    int started = 0;
    while (started < most && thread_start(&stream->workers[started], work, stream))
        started++;
    if (started == 0 && most > 0)
        return error_set("cannot read %s: cannot start a thread; check ulimit -u", object->url);
    stream->has_writer = thread_start(&stream->writer, is_whole ? write_whole : write_parts, stream);
    if (!stream->has_writer)
        atomic_store(&stream->stop, true);
    for (int64_t i = started; i < most; i++)
        stream->workers[i] = 0;
    return stream->has_writer ? 0 : error_set("cannot read %s: cannot start a thread; check ulimit -u", object->url);
}

int remote_stream_open(struct remote_stream **opened, const char *url, uint64_t begin) {
    *opened = NULL;
    struct remote_stream *stream = memory_alloc(sizeof *stream);
    stream->pipe[0] = stream->pipe[1] = -1;
    stream->begin = begin;
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->changed, NULL);
    int status = remote_find(&stream->object, url);
    if (status == 0) {
        OWNED char *printed = secret_redact(url);
        status =
            error_set("cannot open %s: no such %s; check the address", printed, url_is_s3(url) ? "object" : "file");
    } else if (status > 0) {
        status = start(stream);
    }
    if (status < 0) {
        struct error_note *error = error_take();
        remote_stream_close(stream);
        return error_give(error);
    }
    *opened = stream;
    return 0;
}

int remote_stream_descriptor(const struct remote_stream *stream) {
    return stream->pipe[0];
}

int remote_stream_check(struct remote_stream *stream) {
    pthread_mutex_lock(&stream->lock);
    struct error_note *error = stream->error;
    stream->error = NULL;
    pthread_mutex_unlock(&stream->lock);
    return error ? error_give(error) : 0;
}

void remote_stream_stop(struct remote_stream *stream) {
    if (!stream)
        return;
    pthread_mutex_lock(&stream->lock);
    atomic_store(&stream->stop, true);
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

void remote_stream_close(struct remote_stream *stream) {
    if (!stream)
        return;
    remote_stream_stop(stream);
    if (stream->pipe[0] >= 0)
        close(stream->pipe[0]);
    for (int i = 0; i < stream->worker_count; i++)
        if (stream->workers[i])
            pthread_join(stream->workers[i], NULL);
    if (stream->has_writer)
        pthread_join(stream->writer, NULL);
    if (stream->pipe[1] >= 0)
        close(stream->pipe[1]);
    for (int i = 0; i < MOST_STREAMS; i++) {
        error_drop(stream->ring[i].error);
        free(stream->ring[i].bytes);
    }
    error_drop(stream->error);
    remote_object_free(&stream->object);
    pthread_mutex_destroy(&stream->lock);
    pthread_cond_destroy(&stream->changed);
    free(stream);
}
