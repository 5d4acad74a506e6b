// The known files: their sizes, and CRC-32C of their first bytes. Some have the same beginning (Llama 3's ranks are
// cl100k_base's and more), and a text is complete if it equals one of them.
#include "data/tokenizer/whole.h"
#include "base/error.h"
#include "base/hash.h"
#include <inttypes.h>

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
