// TensorBoard: bytes equal to those of its own library (tests/golden/make_tensorboard.py), and the tags of a run.
// Called with "write FOLDER" it makes the file that tests/peers/tensorboard_peers.py reads.
#include "base/file.h"
#include "base/hash.h"
#include "report/report.h"
#include "report/tensorboard.h"
#include "test.h"
#include <dirent.h>
#include <unistd.h>

TEST(golden_bytes) {
    struct buffer expected = {0}, out = {0};
    const double time = 1767322245.678901;
    EXPECT_OK(file_read_all("tests/golden/tensorboard.bin", 1 << 16, &expected));
    event_version(&out, time);
    event_scalar(&out, (struct event_place){time, 0}, "lm loss", 10.825);
    event_scalar(&out, (struct event_place){time + 1, 300000000000}, "lm loss vs samples", 1.5e-7);
    event_text(&out, (struct event_place){time + 2, 7}, "lr/text_summary", "0.00015 and 'ünïcode'");
    EXPECT_INT(out.length, expected.length);
    for (size_t i = 0; i < out.length; i++) {
        if (out.data[i] != expected.data[i])
            test_fail("byte %zu is %02x, expected %02x", i, (unsigned char)out.data[i],
                      (unsigned char)expected.data[i]);
    }
    buffer_free(&out);
    buffer_free(&expected);
}

static int write_run(const char *folder) {
    struct report *report = NULL;
    struct report_options options = {.tensorboard_folder = folder,
                                     .tensorboard_interval = 2,
                                     .tensorboard = {.timers = true, .validation_ppl = true, .world_size = 4},
                                     .no_live_view = true};
    TRY(report_open(&report, &options));
    report_run(report, 0,
               "{\"num_layers\": 12, \"lr\": 1.5e-4, \"save\": null, \"bf16\": true, \"split\": [\"a\", 1]}");
    for (int64_t i = 1; i <= 6; i++) {
        struct metrics m = {.iteration = i,
                            .consumed_samples = 8 * i,
                            .elapsed_ms = 250,
                            .has_throughput = true,
                            .teraflops = 400,
                            .learning_rate = 1e-3 * (double)i,
                            .global_batch_size = 8,
                            .losses = {{"lm loss", 10.0 / (double)i}},
                            .loss_count = 1,
                            .loss_scale = 1,
                            .has_grad_norm = true,
                            .grad_norm = 2};
        report_step(report, &m);
        if (i % 3 == 0)
            report_interval(report, &m);
    }
    struct metrics_eval eval = {
        .iteration = 6, .consumed_samples = 48, .set = "validation", .losses = {{"lm loss", 2.0}}, .loss_count = 1};
    report_eval(report, &eval);
    report_close(report);
    return 0;
}

// The one file of a folder, whole.
static struct buffer read_only_file(const char *folder, char *name, size_t size) {
    struct buffer content = {0};
    DIR *stream = opendir(folder);
    const struct dirent *entry;
    EXPECT(stream != NULL);
    while ((entry = readdir(stream))) {
        if (entry->d_name[0] == '.')
            continue;
        EXPECT(content.length == 0);
        char *path = file_join(folder, entry->d_name);
        EXPECT_OK(file_read_all(path, 1 << 20, &content));
        snprintf(name, size, "%s", entry->d_name);
        free(path);
    }
    closedir(stream);
    return content;
}

TEST(records_of_a_run) {
    char folder[] = "/tmp/bevatron_board_XXXXXX", name[256], host[256] = "", pattern[600];
    EXPECT(mkdtemp(folder) != NULL);
    EXPECT_OK(write_run(folder));
    struct buffer content = read_only_file(folder, name, sizeof name);
    gethostname(host, sizeof host - 1);
    snprintf(pattern, sizeof pattern, ".%s.%ld.0", host, (long)getpid());
    EXPECT(strncmp(name, "events.out.tfevents.1", 21) == 0 && strstr(name, pattern) != NULL);
    size_t at = 0;
    int records = 0;
    while (at < content.length) {
        uint64_t length = 0;
        uint32_t check = 0;
        EXPECT(content.length - at > 16);
        memcpy(&length, content.data + at, 8);
        memcpy(&check, content.data + at + 8, 4);
        EXPECT(check == crc32c_masked(content.data + at, 8));
        EXPECT(length <= content.length - at - 16);
        memcpy(&check, content.data + at + 12 + length, 4);
        EXPECT(check == crc32c_masked(content.data + at + 12, length));
        at += 16 + length;
        records++;
    }
    // 1 version, 5 arguments, 3 steps × 6 tags × 2, 2 intervals × (2 iteration-time + 1 throughput), 2 × 2
    // evaluation.
    EXPECT_INT(records, 1 + 5 + 36 + 6 + 4);
    buffer_free(&content);
    EXPECT_OK(file_remove_tree(folder));
}

TEST(unwritable_folder) {
    struct tensorboard *board = NULL;
    EXPECT_ERROR(tensorboard_open(&board, "/proc/nothing", &(struct metrics_choice){0}), "/proc/nothing");
    EXPECT(board == NULL);
    tensorboard_close(NULL);
}

int main(int argc, char **argv) {
    static const struct test_case cases[] = {TEST_CASE(golden_bytes), TEST_CASE(records_of_a_run),
                                             TEST_CASE(unwritable_folder)};
    if (argc == 3 && strcmp(argv[1], "write") == 0)
        return write_run(argv[2]) < 0;
    return test_main(cases, sizeof cases / sizeof cases[0]);
}
