// bevatron dataset inspect, verify, peek: what datasets hold.
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/tokenizer_flags.h"
#include "config/flag_rows.h"
#include "data/index/index.h"
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

// ---- peek ----

// bevatron dataset peek: prints documents as ids, or as text if a tokenizer is given.

struct dataset_peek_options {
    struct flag_given given;
    struct string_list prefixes;
    int64_t document, count, max_tokens;
    bool json;
    struct tokenizer_flags tokenizer;
};

#define FLAG_STRUCT struct dataset_peek_options

static const struct flag peek_rows[] = {
    INT("--document", document, "0", 0, 1e18, "first document to print, counted from 0"),
    INT("--count", count, "3", 1, 1e18, "number of documents"),
    INT("--max-tokens", max_tokens, "256", 0, 1e18, "tokens to print of each document; 0 for all"),
    SWITCH("--json", json, "print one JSON object per document"),
};

// The printed part of one document.
struct document {
    int64_t number;
    int64_t tokens;         // number of all its tokens
    struct token_list ids;  // the first of them
    bool has_text;
    struct buffer text;
};

static int add_sequence(const struct index_reader *reader, int64_t sequence, int64_t limit, struct document *document) {
    struct token_list *ids = &document->ids;
    int64_t length = index_length(reader, sequence), wanted = length;
    if (length < 0 || length > reader->token_count)
        return bad_data("%s.idx: sequence %" PRId64 " has %" PRId64
                        " tokens, which is impossible; run `bevatron dataset verify` on it",
                        reader->files.prefix, sequence, length);
    document->tokens += length;
    if (limit > 0 && wanted > limit - ids->count)
        wanted = limit - ids->count;
    if (wanted == 0)
        return 0;
    token_list_reserve(ids, wanted);
    TRY(index_read(reader, sequence, 0, wanted, ids->ids + ids->count));
    ids->count += wanted;
    return 0;
}

static int read_document(const struct index_reader *reader, int64_t limit, struct document *document) {
    int64_t begin = index_document_begin(reader, document->number);
    int64_t end = index_document_begin(reader, document->number + 1);
    if (begin < 0 || begin > end || end > reader->sequence_count)
        return bad_data("%s.idx: document %" PRId64 " is sequences %" PRId64 " to %" PRId64
                        ", which is impossible; run `bevatron dataset verify` on it",
                        reader->files.prefix, document->number, begin, end);
    document->tokens = document->ids.count = 0;
    for (int64_t sequence = begin; sequence < end; sequence++)
        TRY(add_sequence(reader, sequence, limit, document));
    return 0;
}

// Text from a dataset may contain anything; control characters must not reach a terminal.
static void peek_text(const struct buffer *text) {
    bool is_terminal = isatty(STDOUT_FILENO);
    for (size_t at = 0, bytes; at < text->length; at += bytes) {
        const unsigned char *here = (const unsigned char *)text->data + at;
        uint32_t character;
        bytes = utf8_decode(here, text->length - at, &character, NULL);
        if (is_terminal && utf8_is_acting(character) && character != '\n' && character != '\t')
            putchar('?');
        else
            fwrite(here, 1, bytes, stdout);
    }
    putchar('\n');
}

static void peek_json(const struct document *document) {
    OWNED_BY(buffer_free) struct buffer out = {0};
    struct json_writer json = {.out = &out};
    json_begin_object(&json);
    json_put_int(&json, "document", document->number);
    json_put_int(&json, "tokens", document->tokens);
    json_key(&json, "ids");
    json_begin_array(&json);
    for (int64_t i = 0; i < document->ids.count; i++)
        json_int(&json, document->ids.ids[i]);
    json_end_array(&json);
    if (document->has_text) {
        json_key(&json, "text");
        json_string(&json, buffer_string(&document->text), document->text.length);
    }
    json_end_object(&json);
    puts(buffer_string(&out));
}

static void peek_plain(const struct document *document) {
    printf("=== document %" PRId64 ", %" PRId64 " tokens%s\n", document->number, document->tokens,
           document->ids.count < document->tokens ? ", the first of them:" : "");
    if (document->has_text) {
        peek_text(&document->text);
        return;
    }
    for (int64_t i = 0; i < document->ids.count; i++)
        printf("%s%" PRId32, i > 0 ? " " : "", document->ids.ids[i]);
    putchar('\n');
}

static int print_document(const struct dataset_peek_options *options, const struct index_reader *reader,
                          const struct tokenizer *tokenizer, struct document *document) {
    TRY(read_document(reader, options->max_tokens, document));
    buffer_clear(&document->text);
    if (tokenizer && tokenizer_decode(tokenizer, document->ids.ids, document->ids.count, &document->text) < 0)
        return error_context("document %" PRId64 " of %s", document->number, reader->files.prefix);
    if (options->json)
        peek_json(document);
    else
        peek_plain(document);
    return 0;
}

static int print_documents(const struct dataset_peek_options *options, const struct index_reader *reader,
                           const struct tokenizer *tokenizer) {
    if (options->document >= reader->document_count)
        return error_set("--document %" PRId64 ": %s has %" PRId64 " documents, counted from 0", options->document,
                         reader->files.prefix, reader->document_count);
    int64_t left = reader->document_count - options->document;
    int64_t count = options->count < left ? options->count : left;
    struct document document = {.has_text = tokenizer != NULL};
    int status = 0;
    for (int64_t i = 0; i < count && status == 0; i++) {
        document.number = options->document + i;
        status = print_document(options, reader, tokenizer, &document);
    }
    token_list_free(&document.ids);
    buffer_free(&document.text);
    return status;
}

static int run_peek(void *context) {
    const struct dataset_peek_options *options = context;
    const struct tokenizer_flags *flags = &options->tokenizer;
    bool has_tokenizer =
        flags->vocab_file || flags->merge_file || flags->model_file || flag_is_given(&flags->given, "--tokenizer-type");
    OWNED_BY(tokenizer_drop) struct tokenizer *tokenizer = NULL;
    struct index_reader *reader = NULL;
    int status = has_tokenizer ? tokenizer_open_from_flags(&tokenizer, flags) : 0;
    if (status == 0)
        status = index_open(&reader, options->prefixes.items[0]);
    if (status == 0)
        status = print_documents(options, reader, tokenizer);
    index_close(reader);
    return status;
}

const struct command cmd_dataset_peek = {
    .flags = {.name = "dataset peek",
              .summary = "Prints documents of a dataset as ids, or as text if a tokenizer is given.",
              .positional_name = "PREFIX",
              .positional_minimum = 1,
              .positional_maximum = 1,
              .positional_offset = OFFSET(prefixes),
              .epilogue = "Example:\n"
                          "  bevatron dataset peek data/corpus_text_document --document 7 --count 1 \\\n"
                          "      --vocab-file vocab.json --merge-file merges.txt\n"},
    .tables = {{FLAG_TABLE(peek_rows)}},
    .shared = tokenizer_flag_table,
    .shared_at = OFFSET(tokenizer),
    .options_bytes = sizeof(struct dataset_peek_options),
    .run = run_peek,
};

// ---- inspect, verify ----

struct dataset_inspect_options {
    struct flag_given given;
    struct string_list prefixes;
    int64_t vocab_size;
    bool json;
};

#undef FLAG_STRUCT
#define FLAG_STRUCT struct dataset_inspect_options
#define VOCAB_SIZE_LIMIT 2147483648.0

static const struct flag inspect_rows[] = {
    SWITCH("--json", json, "print one JSON object per dataset"),
};

static const struct flag verify_rows[] = {
    INT("--vocab-size", vocab_size, NULL, 1, VOCAB_SIZE_LIMIT,
        "report ids of this value and above as errors; default: only negative ids"),
    SWITCH("--json", json, "print one JSON object per dataset"),
};

// Results of a pass over the index.
struct facts {
    int64_t empty_documents;
    int64_t shortest, longest;  // sequences, in tokens
};

static struct facts look_at(const struct index_reader *reader) {
    struct facts facts = {.shortest = reader->sequence_count > 0 ? INT64_MAX : 0};
    for (int64_t i = 0; i < reader->sequence_count; i++) {
        int64_t length = index_length(reader, i);
        facts.shortest = length < facts.shortest ? length : facts.shortest;
        facts.longest = length > facts.longest ? length : facts.longest;
    }
    for (int64_t i = 0; i < reader->document_count; i++)
        facts.empty_documents += index_document_begin(reader, i) == index_document_begin(reader, i + 1);
    return facts;
}

static double mean(int64_t sum, int64_t count) {
    return count > 0 ? (double)sum / (double)count : 0;
}

static void print_json(const struct index_reader *reader) {
    struct facts facts = look_at(reader);
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {
        {"documents", reader->document_count},
        {"empty_documents", facts.empty_documents},
        {"sequences", reader->sequence_count},
        {"tokens", reader->token_count},
        {"shortest_sequence", facts.shortest},
        {"longest_sequence", facts.longest},
        {"bin_bytes", (int64_t)reader->files.tokens.size},
        {"idx_bytes", (int64_t)reader->files.index.size},
    };
    OWNED_BY(buffer_free) struct buffer text = {0};
    struct json_writer json = {.out = &text};
    json_begin_object(&json);
    json_put_string(&json, "prefix", reader->files.prefix);
    json_put_string(&json, "dtype", index_dtype_name(reader->dtype));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        json_put_int(&json, numbers[i].key, numbers[i].value);
    json_put_double(&json, "mean_sequence", mean(reader->token_count, reader->sequence_count));
    json_put_double(&json, "mean_document", mean(reader->token_count, reader->document_count));
    json_end_object(&json);
    puts(buffer_string(&text));
}

static void print_text(const struct index_reader *reader) {
    struct facts facts = look_at(reader);
    printf("%s\n", reader->files.prefix);
    printf("  documents   %" PRId64, reader->document_count);
    if (facts.empty_documents > 0)
        printf(" (%" PRId64 " empty)", facts.empty_documents);
    printf("\n  sequences   %" PRId64 ", %" PRId64 " to %" PRId64 " tokens, %.1f on average\n", reader->sequence_count,
           facts.shortest, facts.longest, mean(reader->token_count, reader->sequence_count));
    printf("  tokens      %" PRId64 " (%s), %.1f a document\n", reader->token_count, index_dtype_name(reader->dtype),
           mean(reader->token_count, reader->document_count));
    printf("  bytes       %zu in .bin, %zu in .idx\n", reader->files.tokens.size, reader->files.index.size);
}

static int inspect(const void *context, const char *prefix) {
    const struct dataset_inspect_options *options = context;
    struct index_reader *reader;
    TRY(index_open(&reader, prefix));
    if (options->json)
        print_json(reader);
    else
        print_text(reader);
    index_close(reader);
    return 0;
}

static void print_verdict(const char *prefix, const struct index_reader *reader, int result, bool as_json) {
    log_status(NULL);  // the result starts on a new line
    if (as_json)
        command_print_verdict("prefix", prefix, result < 0 ? error_message() : NULL);
    else if (result >= 0)
        printf("%s: whole, %" PRId64 " documents, %" PRId64 " tokens%s\n", prefix, reader->document_count,
               reader->token_count, result > 0 ? ", SHA-256 equal" : " (no .sha256 file: changed tokens go unnoticed)");
}

static int verify(const void *context, const char *prefix) {
    const struct dataset_inspect_options *options = context;
    struct index_reader *reader;
    int result = index_open(&reader, prefix);
    if (result == 0)
        result = index_verify_tokens(reader, options->vocab_size);
    if (result == 0)
        result = index_sums_check(prefix);
    print_verdict(prefix, reader, result, options->json);
    index_close(reader);
    return result < 0 ? -1 : 0;
}

const struct command cmd_dataset_inspect = {
    .flags = {.name = "dataset inspect",
              .summary = "Prints what datasets hold.",
              .positional_name = "PREFIX…",
              .positional_minimum = 1,
              .positional_maximum = INT32_MAX,
              .positional_offset = OFFSET(prefixes),
              .epilogue = "Example:\n  bevatron dataset inspect data/corpus_text_document\n"},
    .tables = {{FLAG_TABLE(inspect_rows)}},
    .options_bytes = sizeof(struct dataset_inspect_options),
    .run_each = inspect,
};

const struct command cmd_dataset_verify = {
    .flags = {.name = "dataset verify",
              .summary = "Checks every length, pointer, document boundary and token of datasets, and both "
                         "files' SHA-256 if there is a .sha256 file.",
              .positional_name = "PREFIX…",
              .positional_minimum = 1,
              .positional_maximum = INT32_MAX,
              .positional_offset = OFFSET(prefixes),
              .epilogue = "The exit code is 215 if a dataset is damaged.\nExample:\n  bevatron dataset verify "
                          "data/corpus_text_document --vocab-size 32000\n"},
    .tables = {{FLAG_TABLE(verify_rows)}},
    .options_bytes = sizeof(struct dataset_inspect_options),
    .run_each = verify,
    .phase = "verifying the dataset",
};
