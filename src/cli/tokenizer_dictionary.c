// bevatron tokenizer dictionary: makes a fairseq dictionary of a text's words, as fairseq-preprocess does.
#include "cli/commands.h"
#include "cli/tokenizer_commands.h"
#include "data/extract/inputs.h"
#include "data/extract/lines.h"
#include "data/tokenizer/fairseq.h"
#include "config/flag_rows.h"
#include "base/error.h"
#include "base/file.h"
#include "net/remote.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct dictionary_options {
    struct flag_given given;
    struct string_list input;
    char *endpoint_url;
    char *output;
    int64_t threshold;
    int64_t most_words;
    int64_t multiple;
    int64_t max_line_bytes;
};

#define FLAG_STRUCT struct dictionary_options

static const struct flag rows[] = {
    GROUP("Dictionary"),
    LIST("--input", input, "FILE…",
         "text, plain or compressed; patterns are expanded, s3:// and https:// are streamed, - is standard input",
         .required = true, .repeats_add = true),
    TEXT("--endpoint-url", endpoint_url, NULL, "URL", ENDPOINT_URL_HELP),
    TEXT("--output", output, NULL, "FILE", "dict.txt to write", .required = true),
    INT("--threshold", threshold, "0", 0, 1e15, "drop words that occur less often (fairseq: --thresholdsrc)"),
    INT("--nwords", most_words, "0", 0, INT32_MAX,
        "maximum number of symbols, including the four special ones; 0 for all (fairseq: --nwordssrc)"),
    INT("--padding-factor", multiple, "8", 1, 1 << 20, "pad the size to a multiple of this with filler words"),
    INT("--max-line-bytes", max_line_bytes, "1073741824", 1, 1e15,
        "a longer line is an error; memory grows with this limit"),
};

// No word crosses a line end, and chunks are whole lines.
static int count_words(struct byte_table *words, const struct dictionary_options *options) {
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
    struct byte_table words = {0};
    struct buffer text = {0};
    remote_set_endpoint(options->endpoint_url);
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
    byte_table_free(&words);
    buffer_free(&text);
    return status;
}

int tokenizer_dictionary_main(int argc, char **argv) {
    const struct flag_table tables[] = {
        {FLAG_TABLE(rows)},
    };
    struct dictionary_options options;
    const struct flag_command command = {
        .name = "tokenizer dictionary",
        .summary = "Counts the words of a text and writes a fairseq dictionary, for FairseqTokenizer.",
        .epilogue = "Example:\n  bevatron tokenizer dictionary --input wiki.train.bpe --output dict.txt\n",
        .tables = tables,
        .table_count = sizeof tables / sizeof tables[0]};
    return command_run(&(struct command_call){.flags = &command, .options = &options, .run = run_dictionary}, argc,
                       argv);
}
