// Recognizes tokenizer files by their beginning: users often pass a file to the wrong type.
#include "data/tokenizer/kind.h"
#include "base/error.h"
#include "base/file.h"
#include "base/file_patience.h"
#include "net/hub.h"
#include "base/hash.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum file_kind {
    OTHER,
    VOCAB_JSON,
    TOKENIZER_JSON,
    MERGES,
    VOCAB_TXT,
    SENTENCEPIECE,
    RANKS,
    TEKKEN,
    DICTIONARY,
    KIND_COUNT
};

static const struct {
    const char *look;   // "it looks like …"
    const char *types;  // prefixes of the types that read it, separated by spaces
    const char *advice;
} kinds[KIND_COUNT] = {
    [OTHER] = {"", "", ""},
    [VOCAB_JSON] = {"GPT-2's vocab.json", "GPT2BPE Fairseq", "--tokenizer-type GPT2BPETokenizer --vocab-file"},
    [TOKENIZER_JSON] = {"a Hugging Face tokenizer.json", "HuggingFace",
                        "--tokenizer-type HuggingFaceTokenizer --tokenizer-model"},
    [MERGES] = {"GPT-2's merges.txt", "", "--merge-file"},
    [VOCAB_TXT] = {"BERT's vocab.txt", "BertWordPiece",
                   "--tokenizer-type BertWordPieceLowerCase or BertWordPieceCase --vocab-file"},
    [SENTENCEPIECE] = {"a SentencePiece model", "SentencePiece GPTSentencePiece Llama2",
                       "--tokenizer-type Llama2Tokenizer, GPTSentencePieceTokenizer or SentencePieceTokenizer "
                       "--tokenizer-model"},
    [RANKS] = {"a tiktoken rank file", "TikTokenizer", "--tokenizer-type TikTokenizer --tokenizer-model"},
    [TEKKEN] = {"Mistral's tekken.json", "TikTokenizer", "--tokenizer-type TikTokenizer --tokenizer-model"},
    [DICTIONARY] = {"a fairseq dictionary", "Fairseq", "--tokenizer-type FairseqTokenizer --tokenizer-model"},
};

// Whether the first line is a word and a number.
static bool is_word_and_number(const char *text, size_t length, bool is_base64) {
    const char *end = memchr(text, '\n', length), *blank = memchr(text, ' ', length);
    if (!end || !blank || blank > end || blank == text || end - blank < 2)
        return false;
    for (const char *p = blank + 1; p < end; p++)
        if (!isdigit((unsigned char)*p))
            return false;
    return !is_base64 || blank[-1] == '=';
}

// *other: another kind it may be, see file_kind_explain.
static enum file_kind look_at(const char *path, const char **other) {
    *other = "";
    struct file_map map;
    if (!path || !file_exists(path) || file_is_folder(path))
        return OTHER;
    if (file_map_open(&map, path) < 0)
        return OTHER;
    enum { BEGINNING = 4096 };
    char text[BEGINNING + 1];
    size_t length = map.size < BEGINNING ? map.size : BEGINNING;
    memcpy(text, length ? map.data : (const void *)"", length);
    text[length] = '\0';
    file_map_close(&map);
    *other = file_looks_like(text, length);
    enum file_kind kind = OTHER;
    if (text[strspn(text, " \t\r\n")] == '{')
        kind = strstr(text, "\"added_tokens\"") || strstr(text, "\"normalizer\"")          ? TOKENIZER_JSON
               : strstr(text, "\"default_vocab_size\"") || strstr(text, "\"token_bytes\"") ? TEKKEN
                                                                                           : VOCAB_JSON;
    else if (strncmp(text, "#version", 8) == 0)
        kind = MERGES;
    else if (strncmp(text, "[PAD]\n", 6) == 0 || strstr(text, "\n[CLS]\n"))
        kind = VOCAB_TXT;
    else if (length > 2 && text[0] == '\n' && memchr(text, '\0', length))
        kind = SENTENCEPIECE;
    else if (is_word_and_number(text, length, true))
        kind = RANKS;
    else if (is_word_and_number(text, length, false))
        kind = DICTIONARY;
    return kind;
}

static bool reads(const char *type, const char *types) {
    while (*types) {
        size_t length = strcspn(types, " ");
        if (strncmp(type, types, length) == 0)
            return true;
        types += length + (types[length] == ' ');
    }
    return false;
}

static void add_kind(const char *path, enum file_kind kind) {
    error_set_code(error_exit_code(), "%s; %s looks like %s; use %s", error_message(), path, kinds[kind].look,
                   kinds[kind].advice);
}

static bool add_look(const char *type, const char *path, bool is_merges) {
    const char *other;
    enum file_kind kind = look_at(path, &other);
    bool is_right = is_merges ? kind == MERGES : reads(type, kinds[kind].types);
    // For JSON the message already says it.
    if (*other && strstr(error_message(), path) && !strstr(error_message(), other)) {
        error_set_code(error_exit_code(), "%s%s", error_message(), other);
        return true;
    }
    if (kind == OTHER || is_right)
        return false;
    add_kind(path, kind);
    return true;
}

// The folder lacks the file that the type needs, but has that of another tokenizer.
static bool add_neighbour(const char *folder) {
    static const char *const names[] = {"tekken.json", "tokenizer.model", "vocab.json", "vocab.txt"};
    char *expected = file_join(folder, "tokenizer.json");
    bool found = file_exists(expected);
    free(expected);
    for (size_t i = 0; !found && i < sizeof names / sizeof names[0]; i++) {
        char *path = file_join(folder, names[i]);
        const char *other;
        enum file_kind kind = look_at(path, &other);
        found = kind != OTHER;
        if (found)
            add_kind(path, kind);
        free(path);
    }
    return found;
}

int file_kind_explain(const char *type, const struct tokenizer_options *options) {
    const char *model = options->model_file;
    if (model && !file_exists(model) && strcmp(type, "HuggingFaceTokenizer") == 0) {
        error_set_code(error_exit_code(),
                       "%s; models are not downloaded from the Hub: give a tokenizer.json, or its folder",
                       error_message());
        return hub_suggest(model, HUB_TOKENIZER);
    }
    if (model && file_is_folder(model)) {
        add_neighbour(model);
        return -1;
    }
    if (!add_look(type, options->vocab_file, false) && !add_look(type, options->merge_file, true))
        add_look(type, model, false);
    return -1;
}

// ---- lines ----

struct token_line token_line_next(const char **at, const char *end) {
    struct token_line line = {*at, 0};
    while (*at < end && **at != '\n' && **at != '\r')
        ++*at;
    line.length = (size_t)(*at - line.text);
    if (*at < end)
        *at += **at == '\r' && *at + 1 < end && (*at)[1] == '\n' ? 2 : 1;
    return line;
}

// ---- truncated files ----

// The known files: their sizes, and CRC-32C of their first bytes. Some have the same beginning (Llama 3's ranks are
// cl100k_base's and more), and a text is complete if it equals one of them.

enum { HEADS = 6 };

struct known {
    const char *name;
    uint64_t bytes;
    uint32_t heads[HEADS];  // CRC-32C of the first head_bytes bytes; 0 if others have the same beginning
};

static const size_t head_bytes[HEADS] = {8, 64, 1024, 4096, 16384, 65536};

static const struct known files[] = {
    {"r50k_base.tiktoken", 835554, {0, 0, 0x8BD89E43, 0x86E1AD4E, 0x88B839B8, 0x90DE86FC}},
    {"p50k_base.tiktoken", 836186, {0, 0, 0x8BD89E43, 0x86E1AD4E, 0x88B839B8, 0x90DE86FC}},
    {"cl100k_base.tiktoken", 1681126, {0, 0, 0x8BD89E43, 0xEEA755D0, 0x66FA55CA, 0x30C8E059}},
    {"o200k_base.tiktoken", 3613922, {0, 0, 0x8BD89E43, 0x58268B6C, 0x5A009E46, 0x23ED2DEB}},
    {"Llama 3's tokenizer.model", 2183982, {0, 0, 0x8BD89E43, 0xEEA755D0, 0x66FA55CA, 0x30C8E059}},
    {"qwen.tiktoken", 2561218, {0, 0, 0x8BD89E43, 0xCF8F1794, 0xB37B8672, 0xE960C3E7}},
    {"BERT's uncased vocab.txt", 231508, {0, 0, 0xC2DEDDC0, 0xDD44F0B5, 0x2DCC2760, 0x7ACFC2E1}},
    {"BERT's cased vocab.txt", 213450, {0, 0, 0x2DDEF186, 0x4FDF2FA4, 0x21F48247, 0x86FBC3F9}},
    {"RoBERTa's dict.txt", 603290, {0x3E9FAE90, 0xF6D74CCE, 0xA5B53001, 0x9C6DDDF2, 0xF73FB55C, 0xBB9049A9}},
};

// The smallest known file that begins with the text; NULL if there is none, or if the text is all of one, with or
// without the last line end.
static const struct known *find_longer(const char *text, size_t length) {
    int head = HEADS - 1;
    while (head >= 0 && head_bytes[head] > length)
        head--;
    if (head < 0)
        return NULL;
    uint32_t sum = crc32c(text, head_bytes[head]);
    const struct known *longer = NULL;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        const struct known *file = &files[i];
        if (!file->heads[head] || file->heads[head] != sum)
            continue;
        if (length == file->bytes || length + 1 == file->bytes)
            return NULL;
        if (length < file->bytes && (!longer || file->bytes < longer->bytes))
            longer = file;
    }
    return longer;
}

static int64_t count_lines(const char *text, size_t length) {
    int64_t count = length > 0 && text[length - 1] != '\n';
    for (size_t i = 0; i < length; i++)
        count += text[i] == '\n';
    return count;
}

int whole_check_known(const char *text, size_t length, const char *name, int64_t vocab_size) {
    const struct known *file = find_longer(text, length);
    if (!file)
        return 0;
    int64_t lines = count_lines(text, length);
    if (lines == vocab_size)
        return 0;
    return error_set("%s is truncated: it starts like %s, but has %zu bytes of %" PRIu64
                     "; copy or download it again, or give --vocab-size %" PRId64
                     " if it should have only that many tokens",
                     name, file->name, length, file->bytes, lines);
}

int whole_check_end(const char *text, size_t length, const char *name) {
    if (length == 0 || text[length - 1] == '\n' || text[length - 1] == '\r')
        return 0;
    return error_set("%s: the last line has no newline, so the file may be truncated at byte %zu; copy or download it "
                     "again, or append a newline if it is complete",
                     name, length);
}
