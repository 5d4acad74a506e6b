// Opens, recognizes and decompresses. The input goes through one buffer; plain files are copied from it, others are fed
// to their codec, which loops until the file has ended between two compressed streams.
#include "data/extract/reader.h"
#include "data/extract/codec.h"
#include "data/extract/inputs.h"
#include "data/extract/piece_ring.h"
#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "base/secret.h"
#include "net/remote.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INPUT_BYTES = 1 << 18, MAGIC_BYTES = 10, PATIENCE_MS = 100, VERIFIED_BYTES = 1 << 30 };
enum { AHEAD_PARTS = 4, AHEAD_BYTES = 1 << 20 };

static const char plain[] = "plain";

struct reader {
    char *name;  // for messages
    char *path;  // as given
    int descriptor;
    struct remote_stream *remote;  // owns the descriptor if the input is remote; else NULL
    const struct codec *codec;     // NULL for plain files
    void *state;
    unsigned char *input;
    size_t begin, end;    // unused part of input
    uint64_t read_bytes;  // all bytes read from the file
    bool ended;           // the file has ended
    bool between;         // the codec is between two streams
    void *parallel;       // of codec->parallel, which reads in place of the codec; NULL for one thread
    bool has_head;        // the first bytes from the codec were checked
    unsigned char head[CONTENT_TEXT_BYTES];
    size_t head_bytes, head_taken;
    bool takes_tables;
    struct table_columns columns;    // of tables
    const struct table_kind *table;  // NULL if the text is what the codec gives
    void *rows;                      // of the table; NULL if no columns are wanted
    struct remote_object object;     // read by ranges
    struct buffer lines;             // of the table, of which lines_taken bytes were delivered
    size_t lines_taken;
    struct piece_ring *ahead;            // of a thread that reads ahead; NULL if the caller's does
    struct error_note *ahead_error;      // of that thread: comes after the bytes before it
    uint64_t ahead_input, ahead_memory;  // when the bytes that the caller has received were read
};

// A pipe may be silent for long, and a signal may reach another thread than the waiting one.
static int wait_for_input(const struct reader *reader) {
    struct pollfd wanted = {.fd = reader->descriptor, .events = POLLIN};
    int ready;
    do {
        TRY(interrupt_check());
        ready = poll(&wanted, 1, PATIENCE_MS);
    } while (ready == 0 || (ready < 0 && errno == EINTR));
    return 0;
}

// Refills an empty input buffer; sets `ended` at the end of the file.
static int fill(struct reader *reader) {
    ssize_t got;
    TRY(wait_for_input(reader));
    do
        got = read(reader->descriptor, reader->input + reader->end, INPUT_BYTES - reader->end);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return error_set("cannot read %s at byte %" PRIu64 ": %s; check the file and the disk", reader->name,
                         reader->read_bytes, strerror(errno));
    reader->end += (size_t)got;
    reader->read_bytes += (uint64_t)got;
    reader->ended = got == 0;
    return reader->ended && reader->remote ? remote_stream_check(reader->remote) : 0;
}

// How compressed files begin.
static const struct format_magic {
    const struct codec *codec;
    const char *suffix;  // of such files
    const char *magic;
    size_t bytes;
} magics[] = {
    {&codec_gzip, ".gz", "\x1F\x8B", 2},
    {&codec_xz, ".xz", "\xFD\x37\x7A\x58\x5A\x00", 6},
    {&codec_bzip2, ".bz2", "BZh", 3},
    {&codec_zstd, ".zst", "\x28\xB5\x2F\xFD", 4},
};
enum { MAGICS = sizeof magics / sizeof magics[0] };

// After BZh: the level, and the mark of a block or of the end of an empty stream.
static bool continues_as_bzip2(const unsigned char *bytes) {
    return bytes[3] >= '1' && bytes[3] <= '9' &&
           (memcmp(bytes + 4, "\x31\x41\x59\x26\x53\x59", 6) == 0 ||
            memcmp(bytes + 4, "\x17\x72\x45\x38\x50\x90", 6) == 0);
}

static const struct codec *find_codec(const unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < MAGICS; i++)
        if (count >= magics[i].bytes && memcmp(bytes, magics[i].magic, magics[i].bytes) == 0 &&
            (magics[i].codec != &codec_bzip2 || (count >= MAGIC_BYTES && continues_as_bzip2(bytes))))
            return magics[i].codec;
    bool is_skippable = count >= 4 && (bytes[0] & 0xF0) == 0x50 && memcmp(bytes + 1, "\x2A\x4D\x18", 3) == 0;
    return is_skippable ? &codec_zstd : NULL;
}

static int64_t decompress(struct reader *reader, void *out, size_t capacity);
static int64_t read_text(struct reader *reader, void *out, size_t capacity);

static int64_t read_for_table(void *context, void *out, size_t capacity) {
    return read_text(context, out, capacity);
}

// A table that is read from any byte on is a regular file, or an object with ranges.
static int find_ranges(struct reader *reader, struct table_input *input) {
    struct stat status;
    if (reader->remote) {
        TRY(remote_find(&reader->object, reader->path));
        remote_stream_close(reader->remote);
        reader->remote = NULL;
        reader->descriptor = -1;
        input->object = reader->object;
        input->size = reader->object.size;
    } else if (fstat(reader->descriptor, &status) == 0 && S_ISREG(status.st_mode)) {
        input->descriptor = reader->descriptor;
        input->size = (uint64_t)status.st_size;
    }
    bool has_ranges = input->descriptor >= 0 || reader->object.has_ranges;
    return has_ranges && !reader->codec
               ? 0
               : error_set(
                     "%s is a %s file, which is read from its end, not from a pipe or from compressed data; write "
                     "it to a file first",
                     reader->name, reader->table->name);
}

// Opens a table, or checks that the first bytes are those of a text.
static int open_content(struct reader *reader, const unsigned char *bytes, size_t count, int threads) {
    if (reader->takes_tables)
        reader->table = table_find(reader->path, (const char *)bytes, count);
    // Anything may be called a table.
    if (!reader->table || reader->table->needs_ending)
        TRY(content_check(reader->name, reader->path, bytes, count));
    if (!reader->table || reader->columns.count == 0)
        return 0;
    struct table_input input = {.name = reader->name,
                                .columns = reader->columns,
                                .threads = threads,
                                .descriptor = -1,
                                .read = read_for_table,
                                .context = reader};
    if (reader->table->needs_ranges)
        TRY(find_ranges(reader, &input));
    return reader->table->open(&reader->rows, &input);
}

static int recognise(struct reader *reader, int threads) {
    reader->codec = find_codec(reader->input, reader->end);
    if (reader->codec && reader->codec->open(&reader->state, threads) < 0) {
        reader->codec = NULL;
        return error_context("%s", reader->name);
    }
    return reader->codec ? 0 : open_content(reader, reader->input, reader->end, threads);
}

// Waits for enough bytes to recognize the file. A complete line is enough to know that it is text, so a writer that
// fills a pipe line by line is not blocked.
static int read_beginning(struct reader *reader) {
    while (!reader->ended &&
           (reader->end < MAGIC_BYTES || (reader->end < CONTENT_BYTES && !memchr(reader->input, '\n', reader->end))))
        TRY(fill(reader));
    return 0;
}

// The name says that the file is compressed, but it is empty or too short to tell: probably a download that failed
// early.
static int check_promise(const struct reader *reader, const char *path) {
    size_t length = strlen(path), got = reader->end;
    for (size_t i = 0; i < MAGICS; i++) {
        size_t suffix = strlen(magics[i].suffix), compared = magics[i].bytes;
        if (length <= suffix || strcmp(path + length - suffix, magics[i].suffix) != 0)
            continue;
        if (got == 0)
            return bad_data("%s is empty, so it is not a compressed file; copy or download it again", reader->name);
        if (!reader->codec && got < MAGIC_BYTES &&
            memcmp(reader->input, magics[i].magic, got < compared ? got : compared) == 0)
            return bad_data("%s is truncated: it ends at byte %zu, near the start of its compressed data; copy or "
                            "download it again",
                            reader->name, got);
    }
    return 0;
}

static int begin(struct reader *reader, const char *path, int threads) {
    reader->path = memory_string(path);
    if (strcmp(path, "-") == 0) {
        reader->name = memory_string("standard input");
        reader->descriptor = dup(STDIN_FILENO);
    } else if (url_is_remote(path)) {
        reader->name = secret_redact(path);
        TRY(remote_stream_open(&reader->remote, path, 0));
        reader->descriptor = remote_stream_descriptor(reader->remote);
    } else {
        reader->name = memory_string(path);
        struct stat status;
        reader->descriptor = file_open_input(path, &status);
        TRY(reader->descriptor);
    }
    if (reader->descriptor < 0)
        return error_set("cannot open %s: %s; check the path and its permissions", reader->name, strerror(errno));
    reader->input = memory_alloc(INPUT_BYTES);
    TRY(read_beginning(reader));
    TRY(recognise(reader, threads));
    return check_promise(reader, path);
}

// Lets several threads read the file if the format allows it.
static int share_work(struct reader *reader, int threads) {
    const struct codec_file file = {
        .descriptor = reader->descriptor,
        .name = reader->name,
        .begin = reader->input,
        .begin_bytes = reader->end,
        .threads = threads,
    };
    bool can_share = threads > 1 && reader->codec && reader->codec->parallel;
    return can_share ? reader->codec->parallel->open(&reader->parallel, &file) : 0;
}

int reader_open_columns(struct reader **reader, const char *path, int threads, const struct table_columns *columns) {
    *reader = NULL;
    struct reader *opened = memory_alloc(sizeof *opened);
    opened->takes_tables = columns;
    opened->columns = columns ? *columns : (struct table_columns){0};
    opened->descriptor = -1;
    if (begin(opened, path, threads) < 0 || share_work(opened, threads) < 0) {
        reader_close(opened);
        return -1;
    }
    *reader = opened;
    return 0;
}

int reader_open_threads(struct reader **reader, const char *path, int threads) {
    return reader_open_columns(reader, path, threads, NULL);
}

int reader_open(struct reader **reader, const char *path) {
    return reader_open_threads(reader, path, 1);
}

void reader_close(struct reader *reader) {
    if (!reader)
        return;
    piece_ring_close(reader->ahead);
    error_drop(reader->ahead_error);
    if (reader->rows)
        reader->table->close(reader->rows);
    remote_stream_stop(reader->remote);
    if (reader->parallel)
        reader->codec->parallel->close(reader->parallel);
    if (reader->codec)
        reader->codec->close(reader->state);
    if (reader->descriptor >= 0 && !reader->remote)
        close(reader->descriptor);
    remote_stream_close(reader->remote);
    remote_object_free(&reader->object);
    buffer_free(&reader->lines);
    free(reader->input);
    free(reader->name);
    free(reader->path);
    free(reader);
}

static int refill(struct reader *reader) {
    if (reader->begin < reader->end || reader->ended)
        return 0;
    reader->begin = reader->end = 0;
    return fill(reader);
}

static uint64_t position_of(const struct reader *reader) {
    if (reader->rows && reader->table->position)
        return reader->table->position(reader->rows);
    return reader->parallel ? reader->codec->parallel->position(reader->parallel)
                            : reader->read_bytes - (reader->end - reader->begin);
}

static uint64_t memory_of(const struct reader *reader) {
    return reader->codec && reader->codec->memory ? reader->codec->memory(reader->state) : 0;
}

static int64_t read_plain(struct reader *reader, unsigned char *out, size_t capacity) {
    TRY(refill(reader));
    size_t count = reader->end - reader->begin;
    count = count < capacity ? count : capacity;
    memcpy(out, reader->input + reader->begin, count);
    reader->begin += count;
    return (int64_t)count;
}

static int64_t read_compressed(struct reader *reader, unsigned char *out, size_t capacity) {
    for (;;) {
        TRY(refill(reader));
        size_t available = reader->end - reader->begin;
        if (reader->ended && available == 0 && reader->between)
            return 0;
        struct codec_io io = {
            .in = reader->input + reader->begin,
            .in_bytes = available,
            .in_ended = reader->ended,
            .out = out,
            .out_bytes = capacity,
        };
        int status = reader->codec->step(reader->state, &io);
        reader->begin = reader->end - io.in_bytes;
        uint64_t position = position_of(reader);
        if (status < 0)
            return bad_data("%s: %s data is damaged near byte %" PRIu64 ": %s; copy or download the file again",
                            reader->name, reader->codec->name, position, io.problem);
        reader->between = io.between;
        if (io.out_bytes < capacity)
            return (int64_t)(capacity - io.out_bytes);
        if (reader->ended && io.in_bytes == available && !io.between)
            return bad_data("%s: %s data is truncated: the file ends at byte %" PRIu64
                            " inside a compressed stream; copy or download it again",
                            reader->name, reader->codec->name, position);
    }
}

static int64_t decompress(struct reader *reader, void *out, size_t capacity) {
    int64_t got = reader->parallel ? reader->codec->parallel->read(reader->parallel, out, capacity)
                                   : read_compressed(reader, out, capacity);
    // A stream that broke off looks like a truncated file.
    if (got <= 0 && reader->remote)
        TRY(remote_stream_check(reader->remote));
    return got;
}

// Checks the first decompressed bytes: often they are those of an archive, or of a table.
static int look_inside(struct reader *reader) {
    int64_t got = 1;
    while (got > 0 && reader->head_bytes < sizeof reader->head) {
        got = decompress(reader, reader->head + reader->head_bytes, sizeof reader->head - reader->head_bytes);
        TRY((int)got);
        reader->head_bytes += (size_t)got;
    }
    reader->has_head = true;
    return open_content(reader, reader->head, reader->head_bytes, 1);
}

static int64_t read_text(struct reader *reader, void *out, size_t capacity) {
    if (!reader->codec)
        return read_plain(reader, out, capacity);
    size_t left = reader->head_bytes - reader->head_taken;
    if (left == 0)
        return decompress(reader, out, capacity);
    size_t count = left < capacity ? left : capacity;
    memcpy(out, reader->head + reader->head_taken, count);
    reader->head_taken += count;
    return (int64_t)count;
}

static int64_t read_lines(struct reader *reader, void *out, size_t capacity) {
    while (reader->lines_taken == reader->lines.length) {
        buffer_clear(&reader->lines);
        reader->lines_taken = 0;
        int status = reader->rows ? reader->table->next(reader->rows, &reader->lines) : 0;
        if (status <= 0)
            return status;
    }
    size_t left = reader->lines.length - reader->lines_taken, count = left < capacity ? left : capacity;
    memcpy(out, reader->lines.data + reader->lines_taken, count);
    reader->lines_taken += count;
    return (int64_t)count;
}

static int64_t read_now(struct reader *reader, void *out, size_t capacity) {
    if (reader->codec && !reader->has_head)
        TRY(look_inside(reader));
    return reader->table ? read_lines(reader, out, capacity) : read_text(reader, out, capacity);
}

// ---- reading ahead ----

struct ahead_part {
    struct buffer text;
    uint64_t input_bytes, memory;
};

// Reads until the part is full or the input ends.
static int fill_part(void *context, void *piece) {
    struct reader *reader = context;
    struct ahead_part *part = piece;
    int64_t got = 1;
    buffer_clear(&part->text);
    buffer_reserve(&part->text, AHEAD_BYTES);
    while (!reader->ahead_error && got > 0 && part->text.length < AHEAD_BYTES) {
        got = read_now(reader, part->text.data + part->text.length, AHEAD_BYTES - part->text.length);
        part->text.length += got > 0 ? (size_t)got : 0;
        reader->ahead_error = got < 0 ? error_take() : NULL;
    }
    part->input_bytes = position_of(reader);
    part->memory = memory_of(reader);
    if (part->text.length > 0 || !reader->ahead_error)
        return part->text.length > 0;
    struct error_note *error = reader->ahead_error;
    reader->ahead_error = NULL;
    return error_give(error);
}

static int take_part(const void *context, void *piece, struct buffer *out, void *scratch) {
    struct buffer *text = &((struct ahead_part *)piece)->text, swapped = *out;
    (void)context, (void)scratch;
    *out = *text;
    *text = swapped;
    return 1;
}

static void free_part(void *piece) {
    buffer_free(&((struct ahead_part *)piece)->text);
}

void reader_read_ahead(struct reader *reader) {
    static const struct piece_codec functions = {
        .piece_bytes = sizeof(struct ahead_part), .cut = fill_part, .decode = take_part, .free_piece = free_part};
    const struct piece_ring_options ring = {
        .functions = &functions, .codec = reader, .name = reader->name, .threads = 1, .places = AHEAD_PARTS};
    if (piece_ring_open(&reader->ahead, &ring) < 0)
        error_clear();
}

int64_t reader_read(struct reader *reader, void *out, size_t capacity) {
    if (capacity == 0)
        return 0;
    if (!reader->ahead)
        return read_now(reader, out, capacity);
    struct piece_place *oldest;
    int status = piece_ring_wait(reader->ahead, &oldest);
    if (status <= 0)
        return status;
    const struct ahead_part *part = oldest->piece;
    reader->ahead_input = part->input_bytes;
    reader->ahead_memory = part->memory + (uint64_t)AHEAD_PARTS * AHEAD_BYTES;
    return (int64_t)piece_ring_read(reader->ahead, out, capacity);
}

int reader_seek(struct reader *reader, uint64_t offset) {
    if (!reader->remote || reader->codec || reader->table || offset == 0)
        return 0;
    struct remote_object object;
    int status = remote_find(&object, reader->path);
    bool has_byte = status > 0 && object.has_ranges && offset < object.size;
    remote_object_free(&object);
    TRY(status);
    if (!has_byte)
        return 0;
    remote_stream_close(reader->remote);
    reader->remote = NULL;
    reader->descriptor = -1;
    TRY(remote_stream_open(&reader->remote, reader->path, offset));
    reader->descriptor = remote_stream_descriptor(reader->remote);
    reader->begin = reader->end = 0;
    reader->ended = false;
    reader->read_bytes = offset;
    return 1;
}

uint64_t reader_input_bytes(const struct reader *reader) {
    return reader->ahead ? reader->ahead_input : position_of(reader);
}

uint64_t reader_memory(const struct reader *reader) {
    return reader->ahead ? reader->ahead_memory : memory_of(reader);
}

const char *reader_format(const struct reader *reader) {
    return reader->codec ? reader->codec->name : reader->table ? reader->table->name : plain;
}

bool reader_is_table(const struct reader *reader) {
    return reader->table;
}

// ---- damage ----

// Adds to the error that the file may be damaged, and how to check it.
static void suspect_damage(const char *format, const char *path) {
    char *message = memory_string(error_message());
    error_set_code(error_exit_code(), "%s (the input may be damaged; check it with `%s -t %s`)", message, format, path);
    free(message);
}

// Reads a compressed file to its end.
static int find_damage(const char *path) {
    struct reader *reader;
    TRY(reader_open(&reader, path));
    int64_t got = 1;
    void *text = memory_alloc(INPUT_BYTES);
    while (got > 0)
        got = reader_read(reader, text, INPUT_BYTES);
    free(text);
    reader_close(reader);
    return got < 0 ? -1 : 0;
}

int reader_blame_damage(const char *path, const char *format) {
    struct stat status;
    bool is_input = strcmp(path, "-") == 0, is_packed = false;
    for (size_t i = 0; i < MAGICS; i++)
        is_packed = is_packed || (format && strcmp(format, magics[i].codec->name) == 0);
    if (!is_packed)
        return -1;
    if (url_is_remote(path)) {
        suspect_damage(format, "FILE");
        return -1;
    }
    // Standard input can be reopened if it is a file.
    path = is_input ? "/dev/stdin" : path;
    if (stat(path, &status) < 0 || !S_ISREG(status.st_mode) || status.st_size > VERIFIED_BYTES) {
        suspect_damage(format, is_input ? "FILE" : path);
        return -1;
    }
    struct error_note *blamed = error_take();
    CHECK(blamed);
    if (find_damage(path) == 0)
        return error_give(blamed);
    error_drop(blamed);
    return -1;
}
