// PREFIX.sha256: the SHA-256 of both files of a dataset, in the format of sha256sum, which can check them too:
//
//   64 hexadecimal digits, two spaces, NAME.bin, newline; the same for NAME.idx
//
// A comment before them, "# tokenizer COUNT SHA-256", names what made the ids; see tokenizer/tokenizer.h. The names are
// for sha256sum: a dataset that was renamed is still checked. Other programs' datasets have no such file.
#include "data/index/index.h"

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const endings[INDEX_SUMS] = {"bin", "idx"};

static char *sums_path(const char *prefix) {
    return memory_printf("%s.sha256", prefix);
}

static const char tokenizer_line[] = "# tokenizer ";

int index_sums_write(const char *prefix, const char *name, const char *tokenizer) {
    struct buffer text = {0};
    if (*tokenizer)
        buffer_printf(&text, "%s%s\n", tokenizer_line, tokenizer);
    const char *slash = strrchr(name, '/');
    int result = 0;
    for (int i = 0; i < INDEX_SUMS && result == 0; i++) {
        char sum[65], *path = memory_printf("%s.%s", prefix, endings[i]);
        result = sha256_file(path, sum);
        buffer_printf(&text, "%s  %s.%s\n", sum, slash ? slash + 1 : name, endings[i]);
        free(path);
    }
    char *path = sums_path(prefix);
    if (result == 0)
        result = file_write_all(path, text.data, text.length);
    free(path);
    buffer_free(&text);
    return result;
}

void index_tokenizer_read(const char *prefix, struct buffer *record) {
    enum { MOST_BYTES = 1 << 16 };
    char *path = sums_path(prefix);
    struct buffer text = {0};
    if (file_exists(path) && file_read_all(path, MOST_BYTES, &text) < 0)
        error_clear();
    if (strncmp(buffer_string(&text), tokenizer_line, strlen(tokenizer_line)) == 0) {
        const char *begin = buffer_string(&text) + strlen(tokenizer_line);
        buffer_append(record, begin, strcspn(begin, "\r\n"));
    }
    buffer_free(&text);
    free(path);
}

int index_sums_remove(const char *prefix) {
    char *path = sums_path(prefix);
    int result = unlink(path) == 0 || errno == ENOENT
                     ? 0
                     : error_set("cannot remove %s: %s; remove it by hand", path, strerror(errno));
    free(path);
    return result;
}

// The line of a file: its digits are copied. False if there is none.
static bool find_sum(const char *text, const char *ending, char sum[65]) {
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t length = strcspn(line, "\n"), digits = strspn(line, "0123456789abcdef"), end = strlen(ending);
        bool is_it = digits == 64 && length > digits + end + 3 && line[length - end - 1] == '.' &&
                     strncmp(line + length - end, ending, end) == 0;
        if (!is_it)
            continue;
        memcpy(sum, line, 64);
        sum[64] = '\0';
        return true;
    }
    return false;
}

int index_sums_read(const char *prefix, char sums[INDEX_SUMS][65]) {
    enum { MOST_BYTES = 1 << 16 };
    char *path = sums_path(prefix);
    struct buffer text = {0};
    bool is_there = file_exists(path);
    int result = is_there ? file_read_all(path, MOST_BYTES, &text) : 0;
    for (int i = 0; i < INDEX_SUMS && is_there && result == 0; i++)
        if (!find_sum(buffer_string(&text), endings[i], sums[i]))
            result = error_set_code(EXIT_CODE_BAD_DATA,
                                    "%s has no line of 64 hexadecimal digits for the .%s file; restore it from a copy, "
                                    "or remove it to do without checksums",
                                    path, endings[i]);
    buffer_free(&text);
    free(path);
    return result < 0 ? -1 : is_there;
}

int index_sums_check(const char *prefix) {
    char expected[INDEX_SUMS][65];
    int result = index_sums_read(prefix, expected);
    for (int i = 0; i < INDEX_SUMS && result > 0; i++) {
        char sum[65], *path = memory_printf("%s.%s", prefix, endings[i]);
        if (sha256_file(path, sum) < 0)
            result = -1;
        else if (strcmp(sum, expected[i]) != 0)
            result = error_set_code(
                EXIT_CODE_BAD_DATA,
                "%s has the SHA-256 %.12s… and %s.sha256 says %.12s…: its bytes have changed; " INDEX_REMEDY
                ", or remove %s.sha256 if it was replaced on purpose",
                path, sum, prefix, expected[i], prefix);
        free(path);
    }
    return result;
}
