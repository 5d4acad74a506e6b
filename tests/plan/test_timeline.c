// The picture and the trace of a planned step: whole, well-formed, and as long as the plan says.
#include "plan/timeline.h"
#include "base/json.h"
#include "base/trace.h"
#include "step/ranks_step.h"

#include <math.h>

#define MODEL "--num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 512 --vocab-size 50304 "
#define STAGES MODEL "--max-position-embeddings 512 --bf16 --micro-batch-size 1 --pipeline-model-parallel-size 4 "
#define EXPERTS                                                                                                        \
    MODEL "--max-position-embeddings 512 --bf16 --micro-batch-size 1 --num-experts 8 --expert-model-parallel-size 2 "

static struct timeline timeline;

static struct plan plan_of(const char *flags, int ranks) {
    struct config config;
    struct plan plan = {0};
    const struct schedule_watcher watcher = timeline_watcher(&timeline);
    rank_step_parse(&config, flags, ranks);
    EXPECT_OK(plan_make(
        &plan, &(struct plan_options){
                   .config = &config, .ranks = ranks, .machine = machine_find("p5.48xlarge"), .watcher = &watcher}));
    config_free(&config);
    return plan;
}

// Whether every element ends where it should, attributes are quoted, and no character stands for itself that must not.
static bool is_well_formed(const char *at) {
    enum { MOST_OPEN = 16 };
    char open[MOST_OPEN][16];
    int depth = 0;
    for (; *at; at++) {
        if (*at == '&' && strncmp(at, "&lt;", 4) != 0 && strncmp(at, "&gt;", 4) != 0 && strncmp(at, "&amp;", 5) != 0)
            return false;
        if (*at == '>' || (unsigned char)*at == 0x1b)
            return false;
        if (*at != '<')
            continue;
        bool is_end = *++at == '/';
        size_t length = strspn(at += is_end, "abcdefghijklmnopqrstuvwxyz");
        const char *name = at;
        if (length == 0 || length >= sizeof open[0])
            return false;
        for (at += length; *at && *at != '>'; at++)
            if (*at == '"' && !(at = strchr(at + 1, '"')))
                return false;
        bool is_empty = at[-1] == '/';
        if (*at != '>' || (is_end && (depth == 0 || strlen(open[depth - 1]) != length ||
                                      strncmp(open[depth - 1], name, length) != 0)))
            return false;
        depth -= is_end;
        if (is_end || is_empty)
            continue;
        if (depth == MOST_OPEN)
            return false;
        snprintf(open[depth++], sizeof open[0], "%.*s", (int)length, name);
    }
    return depth == 0;
}

static double attribute_after(const char *text, const char *key) {
    const char *found = strstr(text, key);
    return found ? strtod(found + strlen(key), NULL) : NAN;
}

TEST(picture) {
    struct plan plan = plan_of(STAGES "--global-batch-size 8 --num-virtual-stages-per-pipeline-rank 2", 4);
    struct buffer svg = {0};
    timeline_draw(&timeline, &plan, "1 × \"a < b\" & \033c", &svg);
    const char *text = buffer_string(&svg);
    EXPECT(is_well_formed(text));
    EXPECT(strstr(text, "1 × \"a &lt; b\" &amp;  c") != NULL);
    EXPECT_NEAR(attribute_after(text, "data-step-ms=\""), plan.seconds * 1e3, 1e-5);
    for (int stage = 0; stage < 4; stage++) {
        char id[32];
        snprintf(id, sizeof id, "id=\"stage-%d\"", stage);
        const char *row = strstr(text, id);
        EXPECT(row != NULL);
        double busy = attribute_after(row, "data-busy-ms=\""), idle = attribute_after(row, "data-idle-ms=\"");
        EXPECT_NEAR(busy + idle, plan.seconds * 1e3, 1e-4);
        EXPECT(busy > 0 && idle >= -1e-9);
    }
    EXPECT(!strstr(text, "id=\"stage-4\"") && strstr(text, ">forward<") && strstr(text, ">waiting for other stages<"));
    buffer_free(&svg);
    timeline_free(&timeline);
}

// A file of thousands of passes is not one of thousands of elements.
TEST(many_passes) {
    struct plan plan = plan_of(STAGES "--global-batch-size 4096", 4);
    struct buffer svg = {0};
    timeline_draw(&timeline, &plan, "one", &svg);
    EXPECT(timeline.count >= 4 * 2 * 4096);
    EXPECT(is_well_formed(buffer_string(&svg)));
    EXPECT(svg.length < 200000 && strstr(buffer_string(&svg), ">many passes and short waits<") != NULL);
    buffer_free(&svg);
    timeline_free(&timeline);
}

// Of a pair, the forward is drawn above the backward: boxes of half the height. Both count as half of its time.
TEST(pairs) {
    struct plan plan = plan_of(EXPERTS "--global-batch-size 16 --overlap-moe-expert-parallel-comm", 2);
    struct buffer svg = {0};
    size_t paired = 0;
    for (size_t i = 0; i < timeline.count; i++)
        paired += timeline.spans[i].item.is_paired;
    EXPECT_INT((int)paired, 2 * 7);
    timeline_draw(&timeline, &plan, "one", &svg);
    const char *text = buffer_string(&svg);
    EXPECT(is_well_formed(text));
    double busy = attribute_after(text, "data-busy-ms=\""), idle = attribute_after(text, "data-idle-ms=\"");
    EXPECT_NEAR(busy + idle, plan.seconds * 1e3, 1e-4);
    EXPECT(idle >= -1e-6);
    EXPECT(strstr(text, " 11.5h") && strstr(text, "v11.5"));
    buffer_free(&svg);
    timeline_free(&timeline);
    plan = plan_of(EXPERTS "--global-batch-size 8192 --overlap-moe-expert-parallel-comm", 2);
    timeline_draw(&timeline, &plan, "one", &svg);
    EXPECT(is_well_formed(buffer_string(&svg)) && svg.length < 200000);
    buffer_free(&svg);
    timeline_free(&timeline);
}

TEST(trace) {
    struct plan plan = plan_of(STAGES "--global-batch-size 16", 8);
    struct buffer text = {0};
    struct json *root = NULL;
    timeline_trace(&timeline, &plan, "p5.48xlarge", &text);
    EXPECT_OK(json_parse(&root, buffer_string(&text), text.length, "trace"));
    double sums[8] = {0}, forwards = 0;
    for (size_t i = 0; i < root->count; i++) {
        const struct json *event = &root->items[i];
        const char *phase = "", *name = "";
        double process = 0, thread = 0, duration = 0;
        EXPECT_OK(json_get_string(event, "ph", &phase));
        if (strcmp(phase, "X") != 0)
            continue;
        EXPECT_OK(json_get_double(event, "pid", &process));
        EXPECT_OK(json_get_double(event, "tid", &thread));
        EXPECT_OK(json_get_double(event, "dur", &duration));
        EXPECT_OK(json_get_string(event, "name", &name));
        if ((int)thread != TRACK_DEVICE)
            continue;
        sums[(int)process] += duration;
        forwards += strcmp(name, "forward") == 0;
    }
    // A process of two ranks stands for a stage; work and waits fill the step.
    for (int rank = 0; rank < 8; rank += 2)
        EXPECT_NEAR(sums[rank], plan.seconds * 1e6, 20);
    EXPECT_NEAR(sums[1] + sums[3] + sums[5] + sums[7], 0, 0);
    EXPECT_INT((int)forwards, 4 * 8);
    json_free(root);
    buffer_free(&text);
    timeline_free(&timeline);
}

TEST_MAIN(TEST_CASE(picture), TEST_CASE(many_passes), TEST_CASE(pairs), TEST_CASE(trace))
