// bevatron tokenizer dictionary: the words of a text as a dictionary of fairseq, the one that fairseq-preprocess
// builds.
#include "cli/commands.h"
#include "cli/tokenizer_commands.h"
#include "data/extract/inputs.h"
#include "data/extract/lines.h"
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
    int64_t max_line_bytes;
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
     .help = "text, plain or compressed; patterns are expanded, - is standard input"},
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
    {.name = "--max-line-bytes",
     .type = FLAG_INT,
     .offset = OFFSET(max_line_bytes),
     .initial = "1073741824",
     .minimum = 1,
     .maximum = 1e15,
     .help = "a longer line is an error; memory grows with it"},
};

// No word goes across the end of a line, and chunks are whole lines.
static int count_words(struct word_table *words, const struct dictionary_options *options) {
    struct string_list files = {0};
    struct line_reader *lines = NULL;
    struct line_chunk chunk = {0};
    int status = inputs_expand(&files, &options->input);
    if (status == 0) {
        const struct line_options reading = {
            .paths = (const char *const *)files.items,
            .path_count = files.count,
            .line_limit = (size_t)options->max_line_bytes,
        };
        line_reader_open(&lines, &reading);
        while ((status = line_reader_next(lines, &chunk)) > 0)
            fairseq_count_words(words, chunk.text.data, chunk.text.length);
    }
    line_reader_close(lines);
    buffer_free(&chunk.text);
    string_list_free(&files);
    return status;
}

static int run_dictionary(void *opaque) {
    const struct dictionary_options *options = opaque;
    struct word_table words = {0};
    struct buffer text = {0};
    TRY(file_check_output(options->output, "a dictionary", fairseq_dictionary_begins));
    TRY(file_make_parent(options->output));
    int status = count_words(&words, options);
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
