// Decodes a growing list of ids. See tokenizer.h. Both decodings, with and without the new ids, start at the same id,
// so that changes that a tokenizer makes at the beginning of a text are in both and cancel out.
#include "data/tokenizer/tokenizer.h"
#include <string.h>

void token_stream_begin(struct token_stream *stream, const int32_t *ids, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        token_list_append(&stream->ids, ids[i]);
    stream->said = stream->ids.count;
}

// Whether the text ends in U+FFFD, which stands for an incomplete character.
static bool is_cut(const struct buffer *text) {
    return text->length >= 3 && memcmp(text->data + text->length - 3, "\xEF\xBF\xBD", 3) == 0;
}

static int say(struct token_stream *stream, bool is_last, struct buffer *out) {
    const int32_t *ids = stream->ids.ids + stream->start;
    struct buffer before = {0}, after = {0};
    int status = tokenizer_decode(stream->tokenizer, ids, stream->said - stream->start, &before);
    if (status == 0)
        status = tokenizer_decode(stream->tokenizer, ids, stream->ids.count - stream->start, &after);
    if (status == 0 && (is_last || !is_cut(&after))) {
        size_t common = 0;
        while (common < before.length && common < after.length && before.data[common] == after.data[common])
            common++;
        buffer_append(out, buffer_string(&after) + common, after.length - common);
        // If nothing was added, the next token would look like the beginning of a text.
        if (after.length > common)
            stream->start = stream->said;
        stream->said = stream->ids.count;
    }
    buffer_free(&before);
    buffer_free(&after);
    return status;
}

int token_stream_add(struct token_stream *stream, int32_t id, struct buffer *out) {
    token_list_append(&stream->ids, id);
    return say(stream, false, out);
}

int token_stream_end(struct token_stream *stream, struct buffer *out) {
    return stream->said == stream->ids.count ? 0 : say(stream, true, out);
}

void token_stream_free(struct token_stream *stream) {
    token_list_free(&stream->ids);
    *stream = (struct token_stream){0};
}
