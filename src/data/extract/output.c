// Picks the compression by name and passes packed pieces to the atomic writer or to standard output.
#include "data/extract/output.h"
#include "data/extract/codec.h"
#include "base/error.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

static bool ends_with(const char *path, const char *suffix) {
    size_t length = strlen(path), end = strlen(suffix);
    return length > end && strcmp(path + length - end, suffix) == 0;
}

static bool is_articles(const char *begin, size_t length) {
    static const char first[] = "{\"id\":";
    return length >= sizeof first - 1 && memcmp(begin, first, sizeof first - 1) == 0;
}

int output_open(struct output *output, const char *path) {
    *output = (struct output){.file.descriptor = -1};
    output->is_stdout = strcmp(path, "-") == 0;
    if (output->is_stdout)
        return 0;
    if (ends_with(path, ".bz2") || ends_with(path, ".xz"))
        return error_set_code(EXIT_CODE_USAGE,
                              "cannot write %s: output is plain, .gz or .zst; choose one of these names", path);
    struct buffer trial = {0};
    if (ends_with(path, ".gz"))
        output->pack = pack_gzip;
    else if (ends_with(path, ".zst"))
        output->pack = pack_zstd;
    // A build without the library must fail now, not after hours of work.
    int status = output->pack ? output->pack(&trial, "", 0) : 0;
    buffer_free(&trial);
    TRY(status);
    // The beginning of a compressed file does not reveal its content.
    TRY(file_check_output(path, "a file of articles", output->pack ? NULL : is_articles));
    TRY(file_make_parent(path));
    return file_create(&output->file, path);
}

int output_pack(const struct output *output, struct buffer *packed, struct buffer *plain) {
    buffer_clear(packed);
    if (output->pack)
        return plain->length ? output->pack(packed, plain->data, plain->length) : 0;
    struct buffer swapped = *packed;
    *packed = *plain;
    *plain = swapped;
    return 0;
}

static int write_stdout(const char *bytes, size_t count) {
    while (count > 0) {
        ssize_t done = write(STDOUT_FILENO, bytes, count);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return error_set("cannot write to standard output: %s; check what reads it", strerror(errno));
        bytes += done;
        count -= (size_t)done;
    }
    return 0;
}

int output_write(struct output *output, const struct buffer *packed) {
    output->written_bytes += packed->length;
    if (output->is_stdout)
        return write_stdout(packed->data, packed->length);
    return file_write(&output->file, packed->data, packed->length);
}

int output_commit(struct output *output) {
    return output->is_stdout ? 0 : file_commit(&output->file);
}

void output_abort(struct output *output) {
    if (!output->is_stdout)
        file_abort(&output->file);
}
