// layer: report
// The cache of a run, forged: an honest one with bytes changed (two bytes say where, one what) and a checksum that
// fits. It is refused, or what it says stays within the file.
#include "base/hash.h"
#include "board_run.h"

static char path[64];
static struct buffer honest;

static struct board_run *open_run(void) {
    struct board_run *run = run_new("/fuzz", "fuzz", false, PYRAMID_MOST_BINS);
    run_add_file(run, path);
    return run;
}

static void make_honest(void) {
    struct buffer text = {0};
    buffer_printf(&text, "{\"kind\":\"run\",\"time\":1,\"iteration\":0,\"host\":\"a\",\"tokens_per_sample\":4}\n");
    for (int i = 1; i <= 20; i++)
        buffer_printf(&text, "{\"kind\":\"train\",\"time\":%d,\"iteration\":%d,\"losses\":{\"a\":%d}}\n", i, i, i);
    buffer_printf(&text, "{\"kind\":\"eval\",\"time\":9,\"iteration\":20,\"set\":\"test\",\"losses\":{\"a\":1}}\n"
                         "{\"kind\":\"event\",\"time\":9,\"iteration\":20,\"event\":\"failed\",\"text\":\"x\"}\n");
    (void)board_memory_file(text.data, text.length, path);
    struct board_run *run = open_run();
    board_read_all(run);
    run_cache_write(run, &honest);
    run_free(run);
    buffer_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { HEAD_BYTES = 40, CHECK_AT = 32 };
    if (honest.length == 0)
        make_honest();
    struct buffer forged = {0};
    buffer_append(&forged, honest.data, honest.length);
    size_t body = honest.length - HEAD_BYTES;
    for (size_t i = 0; i + 2 < size; i += 3) {
        size_t at = (size_t)data[i] | (size_t)data[i + 1] << 8;
        forged.data[HEAD_BYTES + at % body] = (char)data[i + 2];
    }
    uint32_t check = crc32c(forged.data + HEAD_BYTES, body);
    memcpy(forged.data + CHECK_AT, &check, sizeof check);
    struct board_run *run = open_run();
    bool is_honest = memcmp(forged.data, honest.data, honest.length) == 0;
    int result = run_cache_read(run, forged.data, forged.length);
    CHECK(result == 0 || !is_honest);
    board_read_all(run);
    board_check_run(run);
    run_free(run);
    buffer_free(&forged);
    return 0;
}
