// Writes the parts of an .idx file in constant memory.
#include "data/index/assemble.h"

#include "base/error.h"
#include "base/memory.h"
#include <stdlib.h>

enum { STEP_NUMBERS = 1 << 16 };

int index_write_header(struct file_writer *index, enum index_dtype dtype, int64_t sequences, int64_t boundaries) {
    unsigned char header[INDEX_HEADER_BYTES] = INDEX_MAGIC;
    uint64_t version = 1;
    memcpy(header + 9, &version, 8);
    header[17] = (unsigned char)dtype;
    memcpy(header + 18, &sequences, 8);
    memcpy(header + 26, &boundaries, 8);
    return file_write(index, header, sizeof header);
}

static int copy(struct file_writer *index, const struct index_list *list, size_t item_bytes, unsigned char *block) {
    const uint64_t bytes = (uint64_t)list->count * item_bytes;
    const size_t step = (size_t)STEP_NUMBERS * 8;
    for (uint64_t done = 0; done < bytes;) {
        size_t part = bytes - done < step ? (size_t)(bytes - done) : step;
        TRY(list->read(list->context, done, block, part));
        TRY(file_write(index, block, part));
        done += part;
    }
    return 0;
}

int index_write_list(struct file_writer *index, const struct index_list *list, size_t item_bytes) {
    unsigned char *block = memory_alloc((size_t)STEP_NUMBERS * 8);
    int result = copy(index, list, item_bytes, block);
    free(block);
    return result;
}

// Running sums of a list of int32, times a factor: before each number or after it.
struct sums {
    int64_t sum;
    int64_t factor;
    bool is_after;
    int32_t numbers[STEP_NUMBERS];
    int64_t results[STEP_NUMBERS];
};

static int write_sums(struct file_writer *index, const struct index_list *list, struct sums *sums) {
    for (int64_t done = 0; done < list->count;) {
        int64_t left = list->count - done, part = left < STEP_NUMBERS ? left : STEP_NUMBERS;
        TRY(list->read(list->context, (uint64_t)done * 4, sums->numbers, (size_t)part * 4));
        for (int64_t i = 0; i < part; i++) {
            int64_t before = sums->sum;
            sums->sum += sums->numbers[i] * sums->factor;
            sums->results[i] = sums->is_after ? sums->sum : before;
        }
        TRY(file_write(index, sums->results, (size_t)part * 8));
        done += part;
    }
    return 0;
}

int index_write_pointers(struct file_writer *index, const struct index_list *lengths, size_t token_bytes,
                         int64_t *end) {
    struct sums *sums = memory_alloc(sizeof *sums);
    sums->factor = (int64_t)token_bytes;
    int result = write_sums(index, lengths, sums);
    *end = sums->sum;
    free(sums);
    return result;
}

int index_write_boundaries(struct file_writer *index, const struct index_list *documents, int64_t *end) {
    struct sums *sums = memory_alloc(sizeof *sums);
    sums->factor = 1;
    sums->is_after = true;
    int result = file_write(index, &sums->sum, sizeof sums->sum);
    if (result == 0)
        result = write_sums(index, documents, sums);
    *end = sums->sum;
    free(sums);
    return result;
}
