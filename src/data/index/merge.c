// Concatenates indexed datasets in constant memory: one is open at a time, and its tokens are copied as bytes.
#include "data/index/index.h"

#include "base/error.h"
#include "base/memory.h"
#include <stdlib.h>
#include <sys/stat.h>

static bool is_same_file(const char *a, const char *b) {
    struct stat of_a, of_b;
    return stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

// The output must not be an input: that would be replaced while it is read.
static int check_output(const char *output, const char *prefix) {
    char *of_output = memory_printf("%s.bin", output), *of_input = memory_printf("%s.bin", prefix);
    bool is_same = is_same_file(of_output, of_input);
    free(of_output);
    free(of_input);
    return is_same ? error_set("%s is one of the datasets to merge; choose another output", output) : 0;
}

static int append(struct index_writer **w, const char *output, const char *prefix) {
    TRY(check_output(output, prefix));
    struct index_reader *reader;
    TRY(index_open(&reader, prefix));
    int result = *w ? 0 : index_writer_open(w, output, reader->dtype);
    if (result == 0)
        result = index_writer_append(*w, reader);
    index_close(reader);
    return result;
}

int index_merge(const char *output, char *const *prefixes, int64_t count) {
    CHECK(count > 0);
    struct index_writer *w = NULL;
    for (int64_t i = 0; i < count; i++) {
        if (append(&w, output, prefixes[i]) < 0) {
            index_writer_abort(w);
            return -1;
        }
    }
    return index_writer_commit(w);
}
