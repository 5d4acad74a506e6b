// bevatron tokenizer encode and decode: filters from standard input to standard output.
#include "cli/commands.h"
#include "cli/tokenizer_commands.h"
#include "cli/tokenizer_flags.h"
#include "base/error.h"
#include "base/json.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct convert_options {
    struct flag_given given;
    bool lines;
    bool json_lines;
    struct tokenizer_flags tokenizer;
};

#define OFFSET(member) offsetof(struct convert_options, member)

static const struct flag rows[] = {
    {.name = "Conversion", .type = FLAG_GROUP},
    {.name = "--lines",
     .type = FLAG_BOOL,
     .offset = OFFSET(lines),
     .help = "every line by itself, its line end left out; without it standard input is one text"},
    {.name = "--json-lines",
     .type = FLAG_BOOL,
     .offset = OFFSET(json_lines),
     .help = "every line is JSON: the text a string, its ids an array"},
};

// What is done to standard input: convert appends the result of text[0…length) to out.
struct conversion {
    bool lines;  // each line by itself, and a line comes out
    int (*convert)(void *context, const char *text, size_t length, struct buffer *out);
    void *context;
};

static int read_input(struct buffer *input) {
    enum { STEP_BYTES = 1 << 16 };
    size_t got;
    do {
        buffer_reserve(input, STEP_BYTES);
        got = fread(input->data + input->length, 1, STEP_BYTES, stdin);
        input->length += got;
        input->data[input->length] = 0;
    } while (got > 0);
    return ferror(stdin) ? error_set("cannot read standard input: %s", strerror(errno)) : 0;
}

// Converts what stands at *at, up to the end of the input or of the line, writes what comes out and moves *at on.
static int convert_piece(const struct conversion *conversion, const struct buffer *input, size_t *at) {
    const char *text = buffer_string(input) + *at;
    const char *end = conversion->lines ? memchr(text, '\n', input->length - *at) : NULL;
    size_t length = end ? (size_t)(end - text) : input->length - *at;
    struct buffer out = {0};
    int status = conversion->convert(conversion->context, text, length, &out);
    if (status == 0) {
        if (conversion->lines)
            buffer_append_byte(&out, '\n');
        fwrite(buffer_string(&out), 1, out.length, stdout);
    }
    buffer_free(&out);
    *at += length + (end != NULL);
    return status;
}

static int convert_input(const struct conversion *conversion) {
    struct buffer input = {0};
    int status = read_input(&input);
    if (status == 0 && !conversion->lines) {
        status = convert_piece(conversion, &input, &(size_t){0});
    } else {
        size_t at = 0;
        for (int64_t line = 1; status == 0 && at < input.length; line++) {
            status = convert_piece(conversion, &input, &at);
            if (status < 0)
                error_context("line %" PRId64, line);
        }
    }
    buffer_free(&input);
    return status;
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
    struct json *text;
    TRY(json_parse(&text, line, length, "standard input"));
    encoding->ids.count = 0;
    int status = text->type == JSON_STRING
                     ? tokenizer_encode(encoding->encoder, text->string, text->length, &encoding->ids)
                     : error_set_code(EXIT_CODE_BAD_DATA, "a line of --json-lines must be a string");
    json_free(text);
    TRY(status);
    struct json_writer json = {.out = out};
    json_begin_array(&json);
    for (int64_t i = 0; i < encoding->ids.count; i++)
        json_int(&json, encoding->ids.ids[i]);
    json_end_array(&json);
    return 0;
}

static int run_encode(void *opaque) {
    const struct convert_options *options = opaque;
    struct tokenizer *tokenizer;
    TRY(tokenizer_open_from_flags(&tokenizer, &options->tokenizer));
    struct encoding encoding = {.end_line = !options->lines};
    int status = tokenizer_encoder_create(&encoding.encoder, tokenizer);
    struct conversion conversion = {options->lines, encode_text, &encoding};
    if (options->json_lines)
        conversion = (struct conversion){true, encode_json, &encoding};
    if (status == 0)
        status = convert_input(&conversion);
    token_list_free(&encoding.ids);
    tokenizer_encoder_free(encoding.encoder);
    tokenizer_free(tokenizer);
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
            return error_set_code(EXIT_CODE_BAD_DATA,
                                  "byte %zu of the input is no token id; decode takes decimal ids with blanks between",
                                  begin);
        token_list_append(ids, (int32_t)id);
    }
}

static int decode_ids(void *context, const char *text, size_t length, struct buffer *out) {
    struct token_list ids = {0};
    int status = read_ids(text, length, &ids);
    if (status == 0)
        status = tokenizer_decode(context, ids.ids, ids.count, out);
    token_list_free(&ids);
    return status;
}

static int decode_json(void *context, const char *line, size_t length, struct buffer *out) {
    struct token_list ids = {0};
    struct buffer text = {0};
    struct json *array;
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
    json_free(array);
    token_list_free(&ids);
    buffer_free(&text);
    return status;
}

static int run_decode(void *opaque) {
    const struct convert_options *options = opaque;
    struct tokenizer *tokenizer;
    TRY(tokenizer_open_from_flags(&tokenizer, &options->tokenizer));
    struct conversion conversion = {options->lines, decode_ids, tokenizer};
    if (options->json_lines)
        conversion = (struct conversion){true, decode_json, tokenizer};
    int status = convert_input(&conversion);
    tokenizer_free(tokenizer);
    return status;
}

static int convert_main(struct flag_command command, int (*run)(void *), int argc, char **argv) {
    const struct flag_table tables[] = {
        {.flags = rows, .count = sizeof rows / sizeof rows[0], .given = OFFSET(given)},
        tokenizer_flag_table(OFFSET(tokenizer)),
    };
    struct convert_options options;
    command.tables = tables;
    command.table_count = sizeof tables / sizeof tables[0];
    return command_run(
        &(struct command_call){.flags = &command, .options = &options, .run = run, .phase = "converting the tokenizer"},
        argc, argv);
}

int tokenizer_encode_main(int argc, char **argv) {
    const struct flag_command command = {.name = "tokenizer encode",
                                         .summary = "Writes the ids of the text on standard input.",
                                         .epilogue = "Example:\n  echo Hello | bevatron tokenizer encode --lines "
                                                     "--vocab-file vocab.json --merge-file merges.txt\n"};
    return convert_main(command, run_encode, argc, argv);
}

int tokenizer_decode_main(int argc, char **argv) {
    const struct flag_command command = {
        .name = "tokenizer decode",
        .summary = "Writes the text of the ids on standard input, byte for byte.",
        .epilogue =
            "Example:\n  echo 15496 995 | bevatron tokenizer decode --vocab-file vocab.json --merge-file merges.txt\n"};
    return convert_main(command, run_decode, argc, argv);
}
