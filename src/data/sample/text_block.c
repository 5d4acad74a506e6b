// Cuts a stream of sentences into blocks, as fairseq does, in one pass over their lengths, without reading tokens. See
// text_block.h for the four modes.
#include "data/sample/text_block.h"

#include "base/error.h"
#include "base/memory.h"
#include "data/bad_data.h"
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SEPARATOR_TOKENS = 1 };

int text_block_mode_parse(enum text_block_mode *mode, const char *name) {
    static const char *const names[] = {"none", "complete", "complete_doc", "eos"};
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0) {
            *mode = (enum text_block_mode)i;
            return 0;
        }
    return error_set_code(EXIT_CODE_USAGE, "--sample-break-mode %s: use none, complete, complete_doc or eos", name);
}

static void add(struct text_block_list *list, struct text_block block) {
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? 2 * list->capacity : 1024;
        list->blocks = memory_realloc(list->blocks, (size_t)list->capacity * sizeof *list->blocks);
    }
    list->blocks[list->count++] = block;
}

// The lengths decide how many blocks there are, so a small file must not claim more tokens than .bin has.
static int check_lengths(const struct index_reader *reader, const struct text_block_options *options) {
    int64_t left = reader->token_count;
    for (int64_t i = options->begin; i < options->end; i++) {
        int64_t length = index_length(reader, i);
        if (length < 0 || length > left)
            return bad_data("%s.idx: sequence %" PRId64 " has %" PRId64 " tokens, of %" PRId64
                            " that are left for it; check it with `dataset verify`",
                            reader->files.prefix, i, length, left);
        left -= length;
    }
    return 0;
}

static void cut_anywhere(struct text_block_list *list, const struct index_reader *reader,
                         const struct text_block_options *options) {
    struct text_block block = {.sequence = options->begin};
    for (int64_t i = options->begin; i < options->end; i++) {
        int64_t length = index_length(reader, i), used = 0;
        while (used < length) {
            int64_t room = options->size - block.length, taken = length - used < room ? length - used : room;
            if (block.length == 0)
                block = (struct text_block){.sequence = i, .offset = (int32_t)used};
            block.length += (int32_t)taken;
            used += taken;
            if (block.length == options->size) {
                add(list, block);
                block.length = 0;
            }
        }
    }
    if (block.length > 0)
        add(list, block);
}

// In complete_doc a block of one token is dropped, and so are the separators.
static int cut_whole(struct text_block_list *list, const struct index_reader *reader,
                     const struct text_block_options *options) {
    bool by_document = options->mode == BLOCK_COMPLETE_DOC;
    int64_t shortest = by_document ? 2 : 1, first = options->begin, filled = 0;
    for (int64_t i = options->begin; i < options->end; i++) {
        int64_t length = index_length(reader, i);
        bool is_separator = by_document && length == SEPARATOR_TOKENS;
        bool is_full = is_separator || options->mode == BLOCK_EOS || (filled > 0 && filled + length > options->size);
        if (is_full) {
            if (filled >= shortest)
                add(list, (struct text_block){.sequence = first, .length = (int32_t)filled});
            filled = 0;
            first = i + is_separator;
        }
        if (!is_separator)
            filled += length;
        if (filled > INT32_MAX)
            return bad_data("%s: a block of %" PRId64 " tokens from sequence %" PRId64 " on is too long",
                            reader->files.prefix, filled, first);
    }
    if (filled >= shortest)
        add(list, (struct text_block){.sequence = first, .length = (int32_t)filled});
    return 0;
}

int text_block_list_make(struct text_block_list *list, const struct index_reader *reader,
                         const struct text_block_options *options) {
    CHECK(options->size > 0 && options->begin >= 0 && options->end <= reader->sequence_count);
    *list = (struct text_block_list){0};
    TRY(check_lengths(reader, options));
    int result = 0;
    if (options->mode == BLOCK_NONE)
        cut_anywhere(list, reader, options);
    else
        result = cut_whole(list, reader, options);
    if (result < 0)
        text_block_list_free(list);
    return result;
}

void text_block_list_free(struct text_block_list *list) {
    free(list->blocks);
    *list = (struct text_block_list){0};
}
