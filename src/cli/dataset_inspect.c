// bevatron dataset inspect, bevatron dataset verify: the contents of a dataset, and whether it is whole.
#include "cli/dataset.h"

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/commands.h"
#include "config/flag_rows.h"
#include "data/index/index.h"
#include <inttypes.h>
#include <stdio.h>

struct dataset_inspect_options {
    struct flag_given given;
    struct string_list prefixes;
    int64_t vocab_size;
    bool json;
};

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
    struct buffer text = {0};
    struct json_writer json = {.out = &text};
    json_begin_object(&json);
    json_key(&json, "prefix");
    json_cstring(&json, reader->files.prefix);
    json_key(&json, "dtype");
    json_cstring(&json, index_dtype_name(reader->dtype));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        json_key(&json, numbers[i].key);
        json_int(&json, numbers[i].value);
    }
    json_key(&json, "mean_sequence");
    json_double(&json, mean(reader->token_count, reader->sequence_count));
    json_key(&json, "mean_document");
    json_double(&json, mean(reader->token_count, reader->document_count));
    json_end_object(&json);
    puts(buffer_string(&text));
    buffer_free(&text);
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

int dataset_inspect(int argc, char **argv) {
    const struct flag_table table = {FLAG_TABLE(inspect_rows)};
    const struct flag_command command = {
        .name = "dataset inspect",
        .summary = "Prints what datasets hold.",
        .tables = &table,
        .table_count = 1,
        .positional_name = "PREFIX…",
        .positional_minimum = 1,
        .positional_maximum = INT32_MAX,
        .positional_offset = OFFSET(prefixes),
        .epilogue = "Example:\n  bevatron dataset inspect data/corpus_text_document\n",
    };
    struct dataset_inspect_options options;
    return command_run(&(struct command_call){.flags = &command, .options = &options, .run_each = inspect}, argc, argv);
}

int dataset_verify(int argc, char **argv) {
    const struct flag_table table = {FLAG_TABLE(verify_rows)};
    const struct flag_command command = {
        .name = "dataset verify",
        .summary = "Checks every length, pointer, document boundary and token of datasets, and both "
                   "files' SHA-256 if there is a .sha256 file.",
        .tables = &table,
        .table_count = 1,
        .positional_name = "PREFIX…",
        .positional_minimum = 1,
        .positional_maximum = INT32_MAX,
        .positional_offset = OFFSET(prefixes),
        .epilogue = "The exit code is 215 if a dataset is damaged.\nExample:\n  bevatron dataset verify "
                    "data/corpus_text_document --vocab-size 32000\n",
    };
    struct dataset_inspect_options options;
    return command_run(
        &(struct command_call){
            .flags = &command, .options = &options, .run_each = verify, .phase = "verifying the dataset"},
        argc, argv);
}
