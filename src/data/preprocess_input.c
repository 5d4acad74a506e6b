// Which file is read next, and by which reader. See preprocess_run.h.
#include "data/preprocess_run.h"
#include "base/error.h"
#include "base/memory.h"
#include <pthread.h>
#include <stdlib.h>

// Limit for the memory of all decompressors. Each further one is expected to need as much as the largest so far.
static const uint64_t most_memory = (uint64_t)256 << 20;

// The lock guards the members below it.
struct preprocess_input {
    const struct preprocess_run *run;
    struct line_file_options options;  // except the path, threads and beginning
    int64_t begin_file;
    uint64_t begin_offset;
    pthread_mutex_t lock;
    int64_t next_file;         // the first that no reader has taken
    struct line_file *opened;  // that file, if a reader of plain files has opened it; mostly NULL
    bool is_enough;            // the last reader reads plain files, or may
    uint64_t memory, largest;  // of decompressors: of all readers together, and of the largest one
};

// Belongs to the thread that works on it.
struct text_reader {
    struct preprocess_input *input;
    struct line_file *file;  // currently open; NULL for none
    int64_t number;          // of the file
    bool is_known;           // the kind of its files is known
    bool is_plain;
    uint64_t memory;
};

struct preprocess_input *preprocess_input_open(const struct preprocess_run *run, const struct preprocess_state *begin,
                                               void (*charge)(void *context, struct line_piece *piece, size_t bytes),
                                               void *context) {
    struct preprocess_input *input = memory_alloc(sizeof *input);
    *input = (struct preprocess_input){.run = run,
                                       .options = {.reads_ahead = run->threads == 1,  // threads overlap anyway
                                                   .piece_bytes = run->piece_bytes,
                                                   .line_limit = run->line_limit,
                                                   .skips_long = run->workers[0].parser.options.skip_bad_lines,
                                                   .charge = charge,
                                                   .context = context},
                                       .begin_file = begin->file,
                                       .begin_offset = begin->offset,
                                       .next_file = begin->file};
    pthread_mutex_init(&input->lock, NULL);
    return input;
}

void preprocess_input_close(struct preprocess_input *input) {
    line_file_close(input->opened);
    pthread_mutex_destroy(&input->lock);
    free(input);
}

bool preprocess_input_is_used_up(struct preprocess_input *input) {
    pthread_mutex_lock(&input->lock);
    bool is_used_up = input->next_file == input->run->files->count;
    pthread_mutex_unlock(&input->lock);
    return is_used_up;
}

struct text_reader *text_reader_begin(struct preprocess_input *input) {
    struct text_reader *reader = NULL;
    pthread_mutex_lock(&input->lock);
    if (input->next_file < input->run->files->count && !input->is_enough &&
        input->memory + input->largest <= most_memory) {
        reader = memory_alloc(sizeof *reader);
        *reader = (struct text_reader){.input = input, .file = input->opened, .number = input->next_file++};
        input->opened = NULL;
        input->is_enough = true;
    }
    pthread_mutex_unlock(&input->lock);
    return reader;
}

void text_reader_end(struct text_reader *reader) {
    line_file_close(reader->file);
    free(reader);
}

int64_t text_reader_file(const struct text_reader *reader) {
    return reader->number;
}

static int open_file(struct text_reader *reader) {
    const struct preprocess_input *input = reader->input;
    struct line_file_options options = input->options;
    int64_t left = input->run->files->count - reader->number;
    int together = left < input->run->threads ? (int)left : input->run->threads;
    options.path = input->run->files->items[reader->number];
    options.threads = input->run->threads / together;
    const struct jsonl_options *jsonl = &input->run->workers[0].parser.options;
    options.columns = &(struct table_columns){jsonl->keys, jsonl->key_count};
    if (input->run->are_plain[reader->number]) {
        options.columns = NULL;
        options.block_bytes = input->run->block_bytes;
        options.piece_bytes =
            (options.piece_bytes + options.block_bytes - 1) / options.block_bytes * options.block_bytes;
    }
    options.begin = reader->number == input->begin_file ? input->begin_offset : 0;
    return line_file_open(&reader->file, &options);
}

// Does the open file belong to this reader? Its first file decides its kind. A compressed file or pipe after plain
// files goes to a new reader and stays open: the bytes read from a pipe to detect its kind could not be read again.
static bool keeps_file(struct text_reader *reader) {
    struct preprocess_input *input = reader->input;
    bool is_plain = line_file_is_plain(reader->file);
    if (reader->is_known && is_plain == reader->is_plain)
        return true;
    pthread_mutex_lock(&input->lock);
    bool keeps = !reader->is_known;
    if (keeps) {
        reader->is_known = true;
        reader->is_plain = input->is_enough = is_plain;
    } else {
        CHECK(!input->opened);
        input->opened = reader->file;
        reader->file = NULL;
        input->next_file--;
    }
    pthread_mutex_unlock(&input->lock);
    return keeps;
}

// A reader of plain files continues with the next file. It is the last reader; while it is active, no other is started.
static bool take_next_file(struct text_reader *reader) {
    struct preprocess_input *input = reader->input;
    line_file_close(reader->file);
    reader->file = NULL;
    pthread_mutex_lock(&input->lock);
    bool is_next = reader->is_plain && input->next_file < input->run->files->count;
    if (is_next)
        reader->number = input->next_file++;
    pthread_mutex_unlock(&input->lock);
    return is_next;
}

static int cut(struct text_reader *reader, struct line_piece *piece) {
    for (;;) {
        if (!reader->file)
            TRY(open_file(reader));
        if (!keeps_file(reader))
            return 0;
        int status = line_file_next(reader->file, piece);
        if (status != 0)
            return status;
        if (!take_next_file(reader))
            return 0;
    }
}

int text_reader_next(struct text_reader *reader, struct line_piece *piece) {
    struct preprocess_input *input = reader->input;
    int status = cut(reader, piece);
    uint64_t memory = status > 0 ? line_file_memory(reader->file) : 0;
    pthread_mutex_lock(&input->lock);
    input->memory += memory - reader->memory;
    input->largest = memory > input->largest ? memory : input->largest;
    if (status <= 0 && (reader->is_plain || !reader->is_known))
        input->is_enough = false;
    pthread_mutex_unlock(&input->lock);
    reader->memory = memory;
    return status;
}

bool text_reader_next_at_once(struct text_reader *reader, struct line_piece *piece) {
    return reader->file && reader->is_plain && line_file_next(reader->file, piece) > 0;
}
