// Ranks that are slow for a reason that the test gives them are named with that reason; and a profile of all ranks has
// their iterations. Run under mpirun.
// tier: all
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "comm/backend.h"
#include "data/extract/reader.h"
#include "recovery/stragglers.h"
#include "step/ranks_step.h"
#include "train/tracing.h"

#include <unistd.h>

#define MODEL                                                                                                          \
    "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 "            \
    "--micro-batch-size 2 --global-batch-size 16 --vocab-size 97 --make-vocab-size-divisible-by 1 --threads 1 "

enum { STEPS = 4, SLOW = 1 };  // rank 1 is slow

static struct ranks ranks;
static char folder[64];

struct delays {
    double data, host;  // seconds per step of the slow rank
};

static double data_delay;

static int next_slowly(void *context, struct batch *batch) {
    clock_sleep(data_delay);
    return rank_step_next(context, batch);
}

static void run_steps(struct tracing *tracing, struct rank_step *r, const struct delays *delays) {
    bool is_slow = ranks.place.rank == SLOW;
    data_delay = is_slow ? delays->data : 0;
    for (int64_t i = 1; i <= STEPS; i++) {
        tracing_begin(tracing, i, 0);
        struct tracing_times times = {.started = clock_seconds()};
        if (is_slow)
            clock_sleep(delays->host);
        struct step_source source = {.next = next_slowly, .context = r, .count = 1};
        EXPECT_OK(step_train(r->step, &source, 1e-3, 0.01));
        times.awaited = clock_seconds();
        (void)step_result(r->step);
        times.ended = clock_seconds();
        tracing_end(tracing, i, times);
    }
}

static void run_once(const char *flags, const struct delays *delays) {
    struct rank_step r;
    struct tracing tracing;
    struct report *report = NULL;
    char *path = memory_printf("%s/metrics.jsonl", folder);
    if (ranks.place.rank == 0)
        EXPECT_OK(report_open(&report, &(struct report_options){.metrics_path = path, .no_live_view = true}));
    rank_step_open(&r, &ranks, flags);
    tracing_open(&tracing, &(struct tracing_options){
                               .config = &r.config, .mesh = step_mesh(r.step), .step = r.step, .report = report});
    run_steps(&tracing, &r, delays);
    tracing_close(&tracing, false);
    rank_step_close(&r);
    report_close(report);
    free(path);
}

static void begin(void) {
    // All ranks have the first one's folder.
    int64_t words[8] = {0};
    if (ranks.place.rank == 0) {
        snprintf(folder, sizeof folder, "/tmp/bevatron_tracing_XXXXXX");
        EXPECT(mkdtemp(folder) != NULL);
        memcpy(words, folder, sizeof folder);
    }
    comm_broadcast_i64(world_group_all(ranks.world), words, 8, 0, "folder");
    memcpy(folder, words, sizeof folder);
}

static void end(void) {
    comm_barrier(world_group_all(ranks.world), "end of a test");
    if (ranks.place.rank == 0)
        EXPECT_OK(file_remove_tree(folder));
}

// Content of the last line of metrics.jsonl, on the first rank.
static bool is_named(const char *cause) {
    char *path = memory_printf("%s/metrics.jsonl", folder);
    struct buffer text = {0};
    struct json *line = NULL;
    EXPECT_OK(file_read_all(path, 1 << 20, &text));
    EXPECT_OK(json_parse(&line, text.data, text.length, path));
    const char *kind, *found = "";
    int64_t rank = -1, steps;
    EXPECT_OK(json_get_string(line, "kind", &kind));
    EXPECT_STRING(kind, "ranks");
    EXPECT_OK(json_get_int(line, "steps", &steps));
    EXPECT_INT(steps, STEPS);
    const struct json *list = json_member(line, "ranks"), *slow = json_member(line, "slow");
    EXPECT_INT(list->count, ranks.place.size);
    for (size_t i = 0; i < list->count; i++) {
        double step_ms, wait_ms, data_ms;
        EXPECT_OK(json_get_double(&list->items[i], "step_ms", &step_ms));
        EXPECT_OK(json_get_double(&list->items[i], "wait_ms", &wait_ms));
        EXPECT_OK(json_get_double(&list->items[i], "data_ms", &data_ms));
        EXPECT(step_ms > 0 && wait_ms >= 0 && data_ms >= 0 && wait_ms + data_ms <= step_ms * 1.001);
    }
    if (slow) {
        EXPECT_OK(json_get_int(slow, "rank", &rank));
        EXPECT_OK(json_get_string(slow, "cause", &found));
    }
    bool is = rank == SLOW && strcmp(found, cause) == 0;
    if (!is)
        printf("    %s\n", buffer_string(&text));
    EXPECT_OK(unlink(path));
    json_free(line);
    buffer_free(&text);
    free(path);
    return is;
}

// A busy machine delays ranks as well: so the given delay grows until it is longer than any other.
static void expect_cause(const char *cause, struct delays delays) {
    int64_t is_right = 0;
    begin();
    for (int tries = 0; tries < 4 && !is_right; tries++) {
        run_once(MODEL "--log-interval 4 ", &delays);
        if (ranks.place.rank == 0)
            is_right = is_named(cause);
        comm_broadcast_i64(world_group_all(ranks.world), &is_right, 1, 0, "verdict");
        delays.data *= 6;
        delays.host *= 6;
    }
    EXPECT(is_right);
    end();
}

TEST(a_rank_that_waits_for_data) {
    expect_cause("data", (struct delays){.data = 0.05});
}

// Asleep, stopped or without a core: its process does not run.
TEST(a_rank_whose_host_does_not_run_it) {
    expect_cause("host", (struct delays){.host = 0.05});
}

// A rank whose links are slow is found by the probe where there are three or more.
TEST(a_rank_with_slow_links) {
    double links[8] = {0};
    int stride = 0;
    struct group *all = world_group_all(ranks.world);
    // An eighth of a second per message on the slow rank, and more if the machine is that slow itself.
    for (double rate = 2 << 20; rate > 1e5; rate /= 4) {
        ranks.world->link = (struct link){.bytes_per_second = ranks.place.rank == SLOW ? rate : 0};
        EXPECT_OK(link_probe_measure(all, ranks.device, links, &stride));
        ranks.world->link = (struct link){0};
        if (link_probe_find(links, ranks.place.size, stride).rank == SLOW)
            break;
    }
    EXPECT_INT(stride, 1);
    EXPECT_INT(link_probe_find(links, ranks.place.size, stride).rank, ranks.place.size >= 3 ? SLOW : -1);
}

// Finds the first text after a place; NULL if there is none.
static const char *after(const char *text, const char *wanted) {
    const char *found = text ? strstr(text, wanted) : NULL;
    return found ? found + strlen(wanted) : NULL;
}

TEST(a_profile_of_all_ranks) {
    begin();
    char *flags = memory_printf(MODEL "--log-interval 4 --timing-log-level 2 --profile --profile-step-start 1 "
                                      "--profile-step-end 3 --profile-dir %s/profile ",
                                folder);
    run_once(flags, &(struct delays){0});
    if (ranks.place.rank == 0) {
        char *path = memory_printf("%s/profile/trace.json.gz", folder);
        struct reader *reader;
        struct buffer text = {0};
        char block[4096];
        EXPECT_OK(reader_open(&reader, path));
        for (int64_t got; (got = reader_read(reader, block, sizeof block)) > 0;)
            buffer_append(&text, block, (size_t)got);
        reader_close(reader);
        struct json *root = NULL;
        EXPECT_OK(json_parse(&root, text.data, text.length, path));
        for (int i = 0; i < ranks.place.size; i++) {
            char *name = memory_printf("\"name\":\"rank %d on ", i);
            EXPECT(after(text.data, name));
            free(name);
        }
        EXPECT(!after(text.data, "\"iteration 1\"") && !after(text.data, "\"iteration 4\""));
        const char *at = text.data;
        for (int i = 0; i < ranks.place.size; i++)
            EXPECT((at = after(after(at, "\"iteration 2\""), "\"iteration 3\"")));
        EXPECT(after(text.data, "\"wait: gradients\"") || after(text.data, "\"name\":\"gradients\""));
        json_free(root);
        buffer_free(&text);
        free(path);
    }
    free(flags);
    end();
}

int main(void) {
    const struct test_case cases[] = {TEST_CASE(a_rank_that_waits_for_data),
                                      TEST_CASE(a_rank_whose_host_does_not_run_it), TEST_CASE(a_rank_with_slow_links),
                                      TEST_CASE(a_profile_of_all_ranks)};
    return ranks_test_main(&ranks, cases, sizeof cases / sizeof cases[0]);
}
