// bevatron tokenizer encode and decode: filters from standard input to standard output.
#include "cli/commands.h"
#include "cli/tokenizer_flags.h"
#include "data/extract/lines.h"
#include "config/flag_rows.h"
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct convert_options {
    struct flag_given given;
    bool lines;
    bool json_lines;
    int64_t max_line_bytes;
    struct tokenizer_flags tokenizer;
};

#define FLAG_STRUCT struct convert_options

static const struct flag rows[] = {
    GROUP("Conversion"),
    SWITCH("--lines", lines, "convert every line by itself, without its line end; default: standard input is one text"),
    SWITCH("--json-lines", json_lines, "every line is JSON: a string for text, an array for ids"),
    INT("--max-line-bytes", max_line_bytes, "1073741824", 1, 1e15,
        "a longer line, or a longer text without --lines, is an error; memory grows with this limit"),
};

// Conversion of standard input: convert appends the result of text[0…length) to out.
struct conversion {
    bool lines;    // converts line by line, one output line for each
    size_t limit;  // longest text or line in bytes
    int (*convert)(void *context, const char *text, size_t length, struct buffer *out);
    void *context;
};

// Appends more of standard input: returns 1, 0 at its end, -1.
static int read_more(struct buffer *input) {
    enum { STEP_BYTES = 1 << 16 };
    buffer_reserve(input, STEP_BYTES);
    size_t got = fread(input->data + input->length, 1, STEP_BYTES, stdin);
    input->length += got;
    input->data[input->length] = 0;
    if (ferror(stdin))
        return error_set("cannot read standard input: %s", strerror(errno));
    return got > 0;
}

// Converts a text or a line, and writes the result.
static int convert_piece(const struct conversion *conversion, const char *text, size_t length) {
    OWNED_BY(buffer_free) struct buffer out = {0};
    TRY(conversion->convert(conversion->context, text, length, &out));
    if (conversion->lines)
        buffer_append_byte(&out, '\n');
    fwrite(buffer_string(&out), 1, out.length, stdout);
    return 0;
}

static int too_long(const struct conversion *conversion, int64_t line) {
    if (!conversion->lines)
        return error_set_code(EXIT_CODE_BAD_DATA,
                              "standard input is longer than %zu bytes; convert it line by line with --lines, or raise "
                              "the limit with --max-line-bytes",
                              conversion->limit);
    line_too_long(conversion->limit);
    return error_context("line %" PRId64, line);
}

// Converts the whole lines at the beginning of the input, and removes them. No line ends before byte `searched`. At the
// end of the input (searched is its length) the last line needs no line end.
static int convert_lines(const struct conversion *conversion, struct buffer *input, size_t searched, int64_t *line) {
    bool is_end = searched == input->length;
    size_t at = 0;
    if (!is_end && !memchr(input->data + searched, '\n', input->length - searched))
        return 0;
    while (at < input->length) {
        const char *text = input->data + at, *end = memchr(text, '\n', input->length - at);
        if (!end && !is_end)
            break;
        size_t length = end ? (size_t)(end - text) : input->length - at;
        ++*line;
        if (length > conversion->limit)
            return too_long(conversion, *line);
        if (convert_piece(conversion, text, length) < 0)
            return error_context("line %" PRId64, *line);
        at += length + (end != NULL);
    }
    if (at > 0)
        memmove(input->data, input->data + at, input->length - at);
    input->length -= at;
    return 0;
}

// Standard input may be endless: at most one line is kept, and at most the limit.
static int convert_all(const struct conversion *conversion, struct buffer *input) {
    int64_t line = 0;
    int more = 1;
    while (more > 0) {
        size_t searched = input->length;
        more = read_more(input);
        TRY(more);
        if (conversion->lines)
            TRY(convert_lines(conversion, input, searched, &line));
        if (input->length > conversion->limit)
            return too_long(conversion, line + 1);
    }
    return conversion->lines ? 0 : convert_piece(conversion, buffer_string(input), input->length);
}

static int convert_input(const struct conversion *conversion) {
    OWNED_BY(buffer_free) struct buffer input = {0};
    return convert_all(conversion, &input);
}

struct encoding {
    struct tokenizer_encoder *encoder;
    struct token_list ids;
    bool end_line;
};

static int encode_text(void *context, const char *text, size_t length, struct buffer *out) {
    struct encoding *encoding = context;
    encoding->ids.count = 0;
    TRY(tokenizer_encode(encoding->encoder, text, length, &encoding->ids));
    for (int64_t i = 0; i < encoding->ids.count; i++)
        buffer_printf(out, "%s%" PRId32, i ? " " : "", encoding->ids.ids[i]);
    if (encoding->end_line)
        buffer_append_byte(out, '\n');
    return 0;
}

static int encode_json(void *context, const char *line, size_t length, struct buffer *out) {
    struct encoding *encoding = context;
    OWNED struct json *text = NULL;
    TRY(json_parse(&text, line, length, "standard input"));
    encoding->ids.count = 0;
    TRY(text->type == JSON_STRING ? tokenizer_encode(encoding->encoder, text->string, text->length, &encoding->ids)
                                  : error_set_code(EXIT_CODE_BAD_DATA, "a line of --json-lines must be a string"));
    struct json_writer json = {.out = out};
    json_begin_array(&json);
    for (int64_t i = 0; i < encoding->ids.count; i++)
        json_int(&json, encoding->ids.ids[i]);
    json_end_array(&json);
    return 0;
}

static int run_encode(void *opaque) {
    const struct convert_options *options = opaque;
    OWNED_BY(tokenizer_drop) struct tokenizer *tokenizer = NULL;
    TRY(tokenizer_open_from_flags(&tokenizer, &options->tokenizer));
    struct encoding encoding = {.end_line = !options->lines};
    int status = tokenizer_encoder_create(&encoding.encoder, tokenizer);
    struct conversion conversion = {
        .lines = options->lines || options->json_lines,
        .limit = (size_t)options->max_line_bytes,
        .convert = options->json_lines ? encode_json : encode_text,
        .context = &encoding,
    };
    if (status == 0)
        status = convert_input(&conversion);
    token_list_free(&encoding.ids);
    tokenizer_encoder_free(encoding.encoder);
    return status;
}

static bool is_blank(char byte) {
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

static int read_ids(const char *text, size_t length, struct token_list *ids) {
    size_t at = 0;
    for (;;) {
        while (at < length && is_blank(text[at]))
            at++;
        if (at == length)
            return 0;
        int64_t id = 0;
        size_t begin = at;
        while (at < length && text[at] >= '0' && text[at] <= '9' && id <= INT32_MAX)
            id = id * 10 + (text[at++] - '0');
        if (at == begin || id > INT32_MAX || (at < length && !is_blank(text[at])))
            return error_set_code(
                EXIT_CODE_BAD_DATA,
                "byte %zu of the input is not a token id; decode takes decimal ids separated by spaces", begin);
        token_list_append(ids, (int32_t)id);
    }
}

static int decode_ids(void *context, const char *text, size_t length, struct buffer *out) {
    OWNED_BY(token_list_free) struct token_list ids = {0};
    TRY(read_ids(text, length, &ids));
    return tokenizer_decode(context, ids.ids, ids.count, out);
}

static int decode_json(void *context, const char *line, size_t length, struct buffer *out) {
    OWNED_BY(token_list_free) struct token_list ids = {0};
    OWNED_BY(buffer_free) struct buffer text = {0};
    OWNED struct json *array = NULL;
    TRY(json_parse(&array, line, length, "standard input"));
    int status = array->type == JSON_ARRAY ? 0 : -1;
    for (size_t i = 0; status == 0 && i < array->count; i++) {
        double id = array->items[i].type == JSON_NUMBER ? array->items[i].number : -1;
        if (id >= 0 && id <= INT32_MAX && id == (double)(int32_t)id)
            token_list_append(&ids, (int32_t)id);
        else
            status = -1;
    }
    if (status < 0)
        error_set_code(EXIT_CODE_BAD_DATA, "a line of --json-lines must be an array of token ids");
    else
        status = tokenizer_decode(context, ids.ids, ids.count, &text);
    struct json_writer json = {.out = out};
    if (status == 0)
        json_string(&json, buffer_string(&text), text.length);
    return status;
}

static int run_decode(void *opaque) {
    const struct convert_options *options = opaque;
    OWNED_BY(tokenizer_drop) struct tokenizer *tokenizer = NULL;
    TRY(tokenizer_open_from_flags(&tokenizer, &options->tokenizer));
    const struct conversion conversion = {
        .lines = options->lines || options->json_lines,
        .limit = (size_t)options->max_line_bytes,
        .convert = options->json_lines ? decode_json : decode_ids,
        .context = tokenizer,
    };
    return convert_input(&conversion);
}

static const char *input_remedy(const char *argument) {
    return *argument ? "text and ids are read from standard input: put `echo WORDS |` before the command" : NULL;
}

const struct command cmd_tokenizer_encode = {
    .flags = {.name = "tokenizer encode",
              .argument_remedy = input_remedy,
              .summary = "Encodes the text on standard input to ids.",
              .epilogue = "Example:\n  echo Hello | bevatron tokenizer encode --lines "
                          "--vocab-file vocab.json --merge-file merges.txt\n"},
    .tables = {{FLAG_TABLE(rows)}},
    .shared = tokenizer_flag_table,
    .shared_at = OFFSET(tokenizer),
    .options_bytes = sizeof(struct convert_options),
    .run = run_encode,
    .phase = "encoding standard input",
    .is_in_the_way = true,
};

const struct command cmd_tokenizer_decode = {
    .flags = {.name = "tokenizer decode",
              .argument_remedy = input_remedy,
              .summary = "Decodes the ids on standard input to text, byte for byte.",
              .epilogue = "Example:\n  echo 15496 995 | bevatron tokenizer decode --vocab-file vocab.json --merge-file "
                          "merges.txt\n"},
    .tables = {{FLAG_TABLE(rows)}},
    .shared = tokenizer_flag_table,
    .shared_at = OFFSET(tokenizer),
    .options_bytes = sizeof(struct convert_options),
    .run = run_decode,
    .phase = "decoding standard input",
    .is_in_the_way = true,
};
