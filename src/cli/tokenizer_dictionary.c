// bevatron tokenizer dictionary: the words of a text as a dictionary of fairseq, the one that fairseq-preprocess
// builds.
#include "cli/commands.h"
#include "cli/tokenizer_commands.h"
#include "data/extract/reader.h"
#include "data/tokenizer/fairseq.h"
#include "base/error.h"
#include "base/file.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct dictionary_options {
    struct flag_given given;
    struct string_list input;
    char *output;
    int64_t threshold;
    int64_t most_words;
    int64_t multiple;
};

#define OFFSET(member) offsetof(struct dictionary_options, member)

static const struct flag rows[] = {
    {.name = "Dictionary", .type = FLAG_GROUP},
    {.name = "--input",
     .type = FLAG_STRING_LIST,
     .offset = OFFSET(input),
     .value_name = "FILE…",
     .required = true,
     .repeats_add = true,
     .help = "text, plain or compressed; - is standard input"},
    {.name = "--output",
     .type = FLAG_STRING,
     .offset = OFFSET(output),
     .value_name = "FILE",
     .required = true,
     .help = "dict.txt"},
    {.name = "--threshold",
     .type = FLAG_INT,
     .offset = OFFSET(threshold),
     .initial = "0",
     .minimum = 0,
     .maximum = 1e15,
     .help = "words seen less often are left out (fairseq: --thresholdsrc)"},
    {.name = "--nwords",
     .type = FLAG_INT,
     .offset = OFFSET(most_words),
     .initial = "0",
     .minimum = 0,
     .maximum = INT32_MAX,
     .help = "symbols at most, the four special ones included; 0 for all (fairseq: --nwordssrc)"},
    {.name = "--padding-factor",
     .type = FLAG_INT,
     .offset = OFFSET(multiple),
     .initial = "8",
     .minimum = 1,
     .maximum = 1 << 20,
     .help = "the size is a multiple of this, filled up with made-up words"},
};

// Counts what stands before the last line end of the text, which no word goes across, and keeps the rest.
static void count_lines(struct word_table *words, struct buffer *text) {
    const char *end = memrchr(text->data, '\n', text->length);
    if (!end)
        return;
    size_t length = (size_t)(end - text->data);
    fairseq_count_words(words, text->data, length);
    memmove(text->data, text->data + length, text->length - length);
    text->length -= length;
}

static int count_file(struct word_table *words, const char *path) {
    enum { STEP_BYTES = 1 << 20 };
    struct reader *reader;
    struct buffer text = {0};
    TRY(reader_open(&reader, path));
    int64_t got;
    do {
        buffer_reserve(&text, STEP_BYTES);
        got = reader_read(reader, text.data + text.length, STEP_BYTES);
        if (got > 0) {
            text.length += (size_t)got;
            count_lines(words, &text);
        }
    } while (got > 0);
    fairseq_count_words(words, text.data, text.length);
    reader_close(reader);
    buffer_free(&text);
    return got < 0 ? -1 : 0;
}

static int count_files(struct word_table *words, const struct string_list *input) {
    for (int64_t i = 0; i < input->count; i++)
        TRY(count_file(words, input->items[i]));
    return 0;
}

static int run_dictionary(void *opaque) {
    const struct dictionary_options *options = opaque;
    struct word_table words = {0};
    struct buffer text = {0};
    TRY(file_make_parent(options->output));
    int status = count_files(&words, &options->input);
    if (status == 0) {
        struct fairseq_build build = {options->threshold, options->most_words, options->multiple};
        fairseq_build_dictionary(&words, &build, &text);
        status = file_write_all(options->output, buffer_string(&text), text.length);
    }
    if (status == 0) {
        int64_t count = 0;
        for (size_t i = 0; i < text.length; i++)
            count += text.data[i] == '\n';
        printf("wrote %s: %" PRId64 " symbols with the special ones, of %" PRId64 " different words\n", options->output,
               count + FAIRSEQ_SPECIALS, words.count);
    }
    word_table_free(&words);
    buffer_free(&text);
    return status;
}

int tokenizer_dictionary_main(int argc, char **argv) {
    const struct flag_table tables[] = {
        {.flags = rows, .count = sizeof rows / sizeof rows[0], .given = OFFSET(given)},
    };
    struct dictionary_options options;
    const struct flag_command command = {
        .name = "tokenizer dictionary",
        .summary = "Counts the words of a text into a dictionary of fairseq, for FairseqTokenizer.",
        .epilogue = "Example:\n  bevatron tokenizer dictionary --input wiki.train.bpe --output dict.txt\n",
        .tables = tables,
        .table_count = sizeof tables / sizeof tables[0]};
    return command_run(&(struct command_call){.flags = &command, .options = &options, .run = run_dictionary}, argc,
                       argv);
}
