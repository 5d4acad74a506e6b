// layer: report
// TensorBoard event files out of hostile bytes. The first byte says whether they are a file, or one event that gets a
// frame with fitting checksums, twice. A file that comes in two parts is read as if it had come at once.
#include "base/hash.h"
#include "board_run.h"
#include "report/board/line_reader.h"

static void append_frame(struct buffer *out, const void *event, uint64_t length) {
    uint32_t check = crc32c_masked(&length, 8);
    buffer_append(out, &length, 8);
    buffer_append(out, &check, 4);
    buffer_append(out, event, length);
    check = crc32c_masked(event, length);
    buffer_append(out, &check, 4);
}

static struct board_run *open_run(const char *path) {
    struct board_run *run = run_new("/fuzz", "fuzz", true, PYRAMID_FEWEST_BINS);
    run_add_file(run, path);
    return run;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    struct buffer content = {0};
    if (data[0] % 2) {
        append_frame(&content, data + 1, size - 1);
        append_frame(&content, data + 1, size - 1);
    } else {
        buffer_append(&content, data + 1, size - 1);
    }
    char path[64];
    int descriptor = board_memory_file(content.data, content.length / 2, path);
    struct board_run *parts = open_run(path);
    board_read_all(parts);
    if (write(descriptor, content.data + content.length / 2, content.length - content.length / 2) < 0)
        abort();
    board_read_all(parts);
    struct board_run *whole = open_run(path);
    board_read_all(whole);
    CHECK(parts->line_count == whole->line_count && parts->tag_count == whole->tag_count);
    CHECK(parts->files[0].offset == whole->files[0].offset);
    board_check_run(whole);
    run_free(parts);
    run_free(whole);
    close(descriptor);
    buffer_free(&content);
    return 0;
}
