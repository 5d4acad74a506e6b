// Writes an indexed dataset in constant memory: tokens go straight into the temporary .bin, lengths and document
// boundaries into spill files, and .idx is assembled from them at the end. A crash at any moment leaves the old pair,
// no .idx, or the new pair; never an .idx beside a .bin it does not describe.
#include "data/index/index.h"

#include "base/error.h"
#include "base/memory.h"
#include "data/index/spill.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK_TOKENS = 1 << 13, COPY_BYTES = INDEX_RELEASE_BYTES, STEP_NUMBERS = 1 << 16 };

struct index_writer {
    char *prefix;
    char *index_path;
    enum index_dtype dtype;
    size_t item_bytes;
    int64_t sequence_count;
    int64_t boundary_count;  // D: boundaries in the spill, including the leading 0
    int64_t last_boundary;
    struct file_writer tokens;  // PREFIX.bin
    struct file_writer index;   // PREFIX.idx, created when the rest is done
    char *tokens_name;          // final names of both files, after following links
    char *index_name;
    struct spill lengths;     // i32 each
    struct spill boundaries;  // i64 each
    unsigned char chunk[CHUNK_TOKENS * 8];
};

static void writer_free(struct index_writer *w) {
    file_abort(&w->tokens);
    file_abort(&w->index);
    spill_close(&w->lengths);
    spill_close(&w->boundaries);
    free(w->tokens_name);
    free(w->index_name);
    free(w->index_path);
    free(w->prefix);
    free(w);
}

int index_writer_put_boundary(struct index_writer *w, int64_t sequence) {
    TRY(spill_write(&w->boundaries, &sequence, sizeof sequence));
    w->boundary_count++;
    w->last_boundary = sequence;
    return 0;
}

static int open_files(struct index_writer *w) {
    char *tokens_path = memory_printf("%s.bin", w->prefix);
    int result = file_make_parent(tokens_path);
    if (result == 0)
        result = file_create(&w->tokens, tokens_path);
    free(tokens_path);
    TRY(result);
    TRY(spill_open(&w->lengths, w->index_path));
    TRY(spill_open(&w->boundaries, w->index_path));
    return index_writer_put_boundary(w, 0);
}

int index_writer_open(struct index_writer **out, const char *prefix, enum index_dtype dtype) {
    CHECK(index_dtype_is_integer(dtype));
    *out = NULL;
    struct index_writer *w = memory_alloc(sizeof *w);
    w->prefix = memory_string(prefix);
    w->index_path = memory_printf("%s.idx", prefix);
    w->dtype = dtype;
    w->item_bytes = index_dtype_bytes(dtype);
    w->tokens.descriptor = w->index.descriptor = -1;
    w->lengths.descriptor = w->boundaries.descriptor = -1;
    if (open_files(w) < 0) {
        writer_free(w);
        return -1;
    }
    *out = w;
    return 0;
}

int index_writer_add(struct index_writer *w, const int32_t *tokens, int64_t count) {
    if (count == 0)
        return 0;
    if (count < 0 || count > INT32_MAX)
        return error_set("cannot write %s.bin: a sequence of %" PRId64 " tokens is longer than the format's %" PRId32
                         "; split the document",
                         w->prefix, count, INT32_MAX);
    for (int64_t done = 0; done < count; done += CHUNK_TOKENS) {
        int64_t part = count - done < CHUNK_TOKENS ? count - done : CHUNK_TOKENS;
        int64_t good = index_encode(w->dtype, tokens + done, part, w->chunk);
        if (good < part)
            return error_set("cannot write %s.bin: token %" PRId32 " at position %" PRId64 " of sequence %" PRId64
                             " does not fit %s; choose a wider dtype",
                             w->prefix, tokens[done + good], done + good, w->sequence_count,
                             index_dtype_name(w->dtype));
        TRY(file_write(&w->tokens, w->chunk, (size_t)part * w->item_bytes));
    }
    int32_t length = (int32_t)count;
    TRY(spill_write(&w->lengths, &length, sizeof length));
    w->sequence_count++;
    return 0;
}

int index_writer_end_document(struct index_writer *w) {
    return index_writer_put_boundary(w, w->sequence_count);
}

int index_writer_put_tokens(struct index_writer *w, const void *bytes, size_t count) {
    return file_write(&w->tokens, bytes, count);
}

int index_writer_put_lengths(struct index_writer *w, const void *lengths, int64_t count) {
    w->sequence_count += count;
    return spill_write(&w->lengths, lengths, 4 * (size_t)count);
}

int index_writer_append(struct index_writer *w, const struct index_reader *reader) {
    CHECK(w->last_boundary == w->sequence_count);
    if (reader->dtype != w->dtype)
        return error_set_code(
            EXIT_CODE_BAD_DATA, "%s.idx: tokens are %s, but %s.idx has %s; merge datasets of one dtype",
            reader->files.prefix, index_dtype_name(reader->dtype), w->prefix, index_dtype_name(w->dtype));
    TRY(index_verify(reader));
    int64_t first = w->sequence_count;
    for (size_t done = 0; done < reader->files.tokens.size; done += COPY_BYTES) {
        size_t left = reader->files.tokens.size - done, part = left < COPY_BYTES ? left : COPY_BYTES;
        TRY(index_writer_put_tokens(w, reader->files.tokens.data + done, part));
        index_release(reader);
    }
    if (reader->sequence_count > 0)
        TRY(index_writer_put_lengths(w, index_lengths(reader, 0), reader->sequence_count));
    for (int64_t document = 1; document <= reader->document_count; document++)
        TRY(index_writer_put_boundary(w, first + index_document_begin(reader, document)));
    return 0;
}

// ---- the parts of .idx ----

int index_write_header(struct file_writer *index, enum index_dtype dtype, int64_t sequences, int64_t boundaries) {
    unsigned char header[INDEX_HEADER_BYTES] = INDEX_MAGIC;
    uint64_t version = 1;
    memcpy(header + 9, &version, 8);
    header[17] = (unsigned char)dtype;
    memcpy(header + 18, &sequences, 8);
    memcpy(header + 26, &boundaries, 8);
    return file_write(index, header, sizeof header);
}

static int copy(struct file_writer *index, const struct index_list *list, size_t item_bytes, unsigned char *block) {
    const uint64_t bytes = (uint64_t)list->count * item_bytes;
    const size_t step = (size_t)STEP_NUMBERS * 8;
    for (uint64_t done = 0; done < bytes;) {
        size_t part = bytes - done < step ? (size_t)(bytes - done) : step;
        TRY(list->read(list->context, done, block, part));
        TRY(file_write(index, block, part));
        done += part;
    }
    return 0;
}

int index_write_list(struct file_writer *index, const struct index_list *list, size_t item_bytes) {
    unsigned char *block = memory_alloc((size_t)STEP_NUMBERS * 8);
    int result = copy(index, list, item_bytes, block);
    free(block);
    return result;
}

// Running sums of a list of int32, times a factor: before each number or after it.
struct sums {
    int64_t sum;
    int64_t factor;
    bool is_after;
    int32_t numbers[STEP_NUMBERS];
    int64_t results[STEP_NUMBERS];
};

static int write_sums(struct file_writer *index, const struct index_list *list, struct sums *sums) {
    for (int64_t done = 0; done < list->count;) {
        int64_t left = list->count - done, part = left < STEP_NUMBERS ? left : STEP_NUMBERS;
        TRY(list->read(list->context, (uint64_t)done * 4, sums->numbers, (size_t)part * 4));
        for (int64_t i = 0; i < part; i++) {
            int64_t before = sums->sum;
            sums->sum += sums->numbers[i] * sums->factor;
            sums->results[i] = sums->is_after ? sums->sum : before;
        }
        TRY(file_write(index, sums->results, (size_t)part * 8));
        done += part;
    }
    return 0;
}

int index_write_pointers(struct file_writer *index, const struct index_list *lengths, size_t token_bytes,
                         int64_t *end) {
    struct sums *sums = memory_alloc(sizeof *sums);
    sums->factor = (int64_t)token_bytes;
    int result = write_sums(index, lengths, sums);
    *end = sums->sum;
    free(sums);
    return result;
}

int index_write_boundaries(struct file_writer *index, const struct index_list *documents, int64_t *end) {
    struct sums *sums = memory_alloc(sizeof *sums);
    sums->factor = 1;
    sums->is_after = true;
    int result = file_write(index, &sums->sum, sizeof sums->sum);
    if (result == 0)
        result = write_sums(index, documents, sums);
    *end = sums->sum;
    free(sums);
    return result;
}

// ---- committing ----

static int read_spill(void *spill, uint64_t offset, void *out, size_t count) {
    return spill_read(spill, offset, out, count);
}

static int write_index(struct index_writer *w, struct file_writer *index) {
    const struct index_list lengths = {read_spill, &w->lengths, w->sequence_count};
    const struct index_list boundaries = {read_spill, &w->boundaries, w->boundary_count};
    int64_t end;
    TRY(index_write_header(index, w->dtype, w->sequence_count, w->boundary_count));
    TRY(index_write_list(index, &lengths, sizeof(int32_t)));
    TRY(index_write_pointers(index, &lengths, w->item_bytes, &end));
    CHECK((uint64_t)end == w->tokens.written_bytes);
    return index_write_list(index, &boundaries, sizeof(int64_t));
}

// Completes both files and syncs them to disk under temporary names.
static int finish(struct index_writer *w) {
    CHECK(w->last_boundary == w->sequence_count);
    TRY(file_create(&w->index, w->index_path));
    TRY(write_index(w, &w->index));
    TRY(file_finish(&w->tokens));
    TRY(file_finish(&w->index));
    w->tokens_name = memory_string(w->tokens.path);
    w->index_name = memory_string(w->index.path);
    return 0;
}

static void discard(const struct index_writer *w) {
    unlink(w->index_name);
    unlink(w->tokens_name);
}

// The inode of a path; 0 if there is none.
static ino_t file_of(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 ? status.st_ino : 0;
}

// An old .idx is moved away before its .bin is replaced, and moved back if that fails. After that only renames can
// fail.
static int publish(struct index_writer *w) {
    char *aside = file_temporary_name(w->index_name);
    ino_t old_tokens = file_of(w->tokens_name);
    int result = 0;
    if (index_sums_remove(w->prefix) < 0)
        result = -1;
    else if (rename(w->index_name, aside) < 0 && errno != ENOENT)
        result = error_set("cannot replace %s: %s; choose a writable folder", w->index_name, strerror(errno));
    else if (file_publish(&w->tokens) < 0 || file_publish(&w->index) < 0)
        result = -1;
    if (result < 0 && file_of(w->tokens_name) == old_tokens)
        (void)rename(aside, w->index_name);
    else if (result < 0)
        discard(w);
    unlink(aside);
    free(aside);
    return result;
}

int index_writers_commit(struct index_writer **writers, int64_t count) {
    int result = 0;
    for (int64_t i = 0; result == 0 && i < count; i++)
        result = finish(writers[i]);
    for (int64_t i = 0; result == 0 && i < count; i++) {
        result = publish(writers[i]);
        for (int64_t done = 0; result < 0 && done < i; done++)
            discard(writers[done]);
    }
    for (int64_t i = 0; i < count; i++) {
        writer_free(writers[i]);
        writers[i] = NULL;
    }
    return result;
}

int index_writer_commit(struct index_writer *w) {
    return index_writers_commit(&w, 1);
}

void index_writer_abort(struct index_writer *w) {
    if (w)
        writer_free(w);
}

// ---- concatenating ----

// In constant memory: one dataset is open at a time, and its tokens are copied as bytes.
// The output must not be an input: that would be replaced while it is read.
static int check_output(const char *output, const char *prefix) {
    char *of_output = memory_printf("%s.bin", output), *of_input = memory_printf("%s.bin", prefix);
    bool is_same = file_is_same(of_output, of_input);
    free(of_output);
    free(of_input);
    return is_same ? error_set("%s is one of the datasets to merge; choose another output", output) : 0;
}

static int append_dataset(struct index_writer **w, const char *output, const char *prefix) {
    TRY(check_output(output, prefix));
    struct index_reader *reader;
    TRY(index_open(&reader, prefix));
    int result = *w ? 0 : index_writer_open(w, output, reader->dtype);
    if (result == 0)
        result = index_writer_append(*w, reader);
    index_close(reader);
    return result;
}

int index_merge(const char *output, char *const *prefixes, int64_t count) {
    CHECK(count > 0);
    struct index_writer *w = NULL;
    for (int64_t i = 0; i < count; i++) {
        if (append_dataset(&w, output, prefixes[i]) < 0) {
            index_writer_abort(w);
            return -1;
        }
    }
    return index_writer_commit(w);
}
