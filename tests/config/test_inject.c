// Faults as text: what they mean, errors that name the character, and faults that are drawn from a seed.
#include "config/inject.h"
#include "base/memory.h"
#include "parse_line.h"
#include "test.h"

#include <stdlib.h>

static struct config config;

#define RUN                                                                                                            \
    "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 100 --mock-data "            \
    "--micro-batch-size 2 --train-iters 100 --lr 1e-3 "

static int validate(const char *line, int world_size) {
    TRY(parse_line(&config, line));
    return config_validate(&config, world_size);
}

TEST(faults) {
    struct fault fault;
    EXPECT_OK(inject_parse("kill:rank=1:step=7:phase=allreduce", &fault));
    EXPECT(fault.kind == FAULT_KILL && fault.phase == FAULT_AT_ALL_REDUCE && !fault.is_anywhere && !fault.every_start);
    EXPECT(fault.rank == 1 && fault.first == 7 && fault.last == 7 && fault.call == 1 && fault.times == 1);
    EXPECT_STRING(fault.text, "kill:rank=1:step=7:phase=allreduce");
    EXPECT_OK(inject_parse("slow:rank=all:step=3-9:phase=all-reduce:seconds=0.25:call=2:times=all", &fault));
    EXPECT(fault.phase == FAULT_AT_ALL_REDUCE && fault.rank == -1 && fault.first == 3 && fault.last == 9);
    EXPECT(fault.call == 2 && fault.times == FAULT_ENDLESS);
    EXPECT_NEAR(fault.seconds, 0.25, 0);
    EXPECT_OK(inject_parse("stuck_fsync:every-start", &fault));
    EXPECT(fault.kind == FAULT_STUCK_FSYNC && fault.phase == FAULT_AT_FSYNC && fault.every_start && fault.is_anywhere);
    EXPECT(fault.rank == 0 && fault.first == 1 && fault.seconds >= FAULT_FOREVER);
    EXPECT_OK(inject_parse("clock:seconds=-60", &fault));
    EXPECT_NEAR(fault.seconds, -60, 0);
    EXPECT_OK(inject_parse("hang:phase=load", &fault));
    EXPECT_INT(fault.first, 0);
    // Every kind has a phase that fits it, and every name leads back to itself.
    for (int kind = 0; kind < FAULT_KINDS; kind++) {
        EXPECT_OK(inject_parse(fault_kind_name((enum fault_kind)kind), &fault));
        EXPECT(fault.kind == (enum fault_kind)kind && fault_fits(fault.kind, fault.phase));
    }
    for (int phase = 0; phase < FAULT_PHASES; phase++) {
        char text[64];
        snprintf(text, sizeof text, "kill:phase=%s", fault_phase_name((enum fault_phase)phase));
        EXPECT_OK(inject_parse(text, &fault));
        EXPECT(fault.phase == (enum fault_phase)phase);
    }
}

TEST(errors) {
    struct fault fault;
    EXPECT_ERROR(inject_parse("", &fault), "character 1: \"\" is not a kind of fault; `bevatron train --inject list`");
    EXPECT_ERROR(inject_parse("kil:rank=1", &fault),
                 "character 1: \"kil\" is not a kind of fault; did you mean \"kill\"");
    EXPECT_ERROR(inject_parse("kill:rnak=1", &fault), "character 6: \"rnak\" is not a key; did you mean \"rank\"");
    EXPECT_ERROR(inject_parse("kill:rank=one", &fault), "character 11: this is not a rank; give its number");
    EXPECT_ERROR(inject_parse("kill:rank=-1", &fault), "character 11: this is not a rank");
    EXPECT_ERROR(inject_parse("kill:rank", &fault), "character 10: the value is missing");
    EXPECT_ERROR(inject_parse("kill:step=9-3", &fault), "character 11: this is not an iteration");
    EXPECT_ERROR(inject_parse("kill:step=99999999999999999999", &fault), "character 11: this is not an iteration");
    EXPECT_ERROR(inject_parse("kill:phase=allreduse", &fault), "character 12: \"allreduse\" is not a phase; did you");
    EXPECT_ERROR(inject_parse("nan:phase=write", &fault), "character 11: this kind of fault cannot happen");
    EXPECT_ERROR(inject_parse("kill:seconds=3", &fault), "character 14: this kind of fault takes no time");
    EXPECT_ERROR(inject_parse("slow:seconds=-3", &fault), "character 14: this is not a number of seconds");
    EXPECT_ERROR(inject_parse("slow:seconds=inf", &fault), "character 14: this is not a number of seconds");
    EXPECT_ERROR(inject_parse("slow:times=0", &fault), "character 12: this is not how many times");
    EXPECT_ERROR(inject_parse("kill:every-start=1", &fault), "character 17: every-start has no value");
    EXPECT_ERROR(inject_parse("kill:phase=load:step=3", &fault), "this phase comes before the first iteration");
    EXPECT_ERROR(inject_parse("kill rank", &fault), "character 5: a fault has no spaces");
    EXPECT_ERROR(inject_parse("kill::", &fault), "character 6: \"\" is not a key");
    char *long_text = memory_printf("kill:rank=%0200d", 1);
    EXPECT_ERROR(inject_parse(long_text, &fault), "is longer than 159 characters");
    free(long_text);
}

TEST(flags) {
    EXPECT_ERROR(validate(RUN "--inject kill:step=3", 2),
                 "needs --allow-injected-faults: it makes the run fail on purpose");
    EXPECT_ERROR(validate(RUN "--inject-count 3", 2),
                 "needs --allow-injected-faults: it makes the run fail on purpose");
    EXPECT_ERROR(validate(RUN "--inject kill:rank=2 --allow-injected-faults", 2), "the ranks of this run are 0 to 1");
    EXPECT_ERROR(validate(RUN "--inject stap --allow-injected-faults", 2), "did you mean \"stop\"");
    EXPECT_ERROR(validate(RUN "--inject-kinds kill", 2), "--inject-kinds needs --inject-count");
    EXPECT_ERROR(validate(RUN "--inject-count 3 --inject-kinds bang --allow-injected-faults", 2), "\"bang\" is not a");
    EXPECT_OK(validate(RUN "--allow-injected-faults", 2));
    EXPECT_OK(validate(RUN "--inject kill:step=3 stop:step=4 --inject eio --allow-injected-faults", 2));
    struct fault *faults;
    int64_t count;
    EXPECT_OK(inject_list(&config, &faults, &count));
    EXPECT_INT(count, 3);
    EXPECT_STRING(faults[2].text, "eio");
    free(faults);
}

// Equal flags draw equal faults; all of them lie within the run.
TEST(seeds) {
    struct fault *first, *second;
    int64_t count, again, differ = 0, ranks[4] = {0}, kinds[FAULT_KINDS] = {0};
    const char *line = RUN "--allow-injected-faults --inject-count 500 --save run --save-interval 10 --inject-seed 7";
    EXPECT_OK(validate(line, 4));
    EXPECT_OK(inject_list(&config, &first, &count));
    EXPECT_OK(inject_list(&config, &second, &again));
    EXPECT(count == 500 && again == 500);
    for (int64_t i = 0; i < count; i++) {
        EXPECT_STRING(second[i].text, first[i].text);
        EXPECT(first[i].first >= 1 && first[i].last == first[i].first && first[i].first <= 100);
        EXPECT(first[i].phase < FAULT_AT_SAVE || first[i].first % 10 == 0);
        ranks[first[i].rank]++;
        kinds[first[i].kind]++;
    }
    for (int i = 0; i < 4; i++)
        EXPECT(ranks[i] > 30);
    EXPECT(kinds[FAULT_KILL] > 20 && kinds[FAULT_STUCK_FSYNC] > 20 && kinds[FAULT_FLIP] == 0);
    free(second);
    config.machine.inject_seed = 8;
    EXPECT_OK(inject_list(&config, &second, &again));
    for (int64_t i = 0; i < count; i++)
        differ += strcmp(first[i].text, second[i].text) != 0;
    EXPECT(differ > 400);
    free(first);
    free(second);
    EXPECT_OK(validate(RUN "--allow-injected-faults --inject-count 50 --inject-kinds slow:seconds=2", 1));
    EXPECT_OK(inject_list(&config, &first, &count));
    for (int64_t i = 0; i < count; i++)
        EXPECT(first[i].kind == FAULT_SLOW && first[i].rank == 0 && first[i].phase < FAULT_AT_SAVE &&
               first[i].phase != FAULT_AT_AGREE);
    free(first);
    config_free(&config);
}

TEST(description) {
    struct buffer text = {0};
    inject_describe(&text);
    for (int kind = 0; kind < FAULT_KINDS; kind++)
        EXPECT(strstr(buffer_string(&text), fault_kind_name((enum fault_kind)kind)));
    for (int phase = 0; phase < FAULT_PHASES; phase++)
        EXPECT(strstr(buffer_string(&text), fault_phase_name((enum fault_phase)phase)));
    buffer_free(&text);
}

TEST_MAIN(TEST_CASE(faults), TEST_CASE(errors), TEST_CASE(flags), TEST_CASE(seeds), TEST_CASE(description))
