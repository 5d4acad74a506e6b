// The split of layers into the chunks of a pipeline, and the splits that are refused.
#include "test.h"
#include "config/config.h"

#include <stdlib.h>
#include <string.h>

static struct config config;

// Parses a line of flags after those that every run needs.
static int validate(const char *more, int world_size) {
    char line[2048];
    snprintf(line, sizeof line,
             "train --mock-data --vocab-size 100 --tokenizer-type NullTokenizer --hidden-size 32 "
             "--num-attention-heads 4 --seq-length 16 --micro-batch-size 1 --train-iters 4 --lr 1e-3 %s",
             more);
    char *words[128];
    int count = 0;
    for (char *word = line; word;) {
        char *end = strchr(word, ' ');
        if (end)
            *end++ = 0;
        if (*word)
            words[count++] = word;
        word = end;
    }
    config_free(&config);
    if (config_parse(&config, count, words) < 0)
        return -1;
    return config_validate(&config, world_size);
}

// Every layer of each stack is in one chunk, in order.
static void expect_all_layers(void) {
    int64_t chunks = config.machine.pipeline_model_parallel_size * config_chunks(&config), encoder = 0, decoder = 0;
    for (int64_t i = 0; i < chunks; i++) {
        struct config_chunk chunk = config_chunk(&config, i);
        EXPECT(chunk.encoder_count + chunk.decoder_count > 0);
        if (chunk.encoder_count > 0)
            EXPECT_INT(chunk.encoder_first, encoder);
        if (chunk.decoder_count > 0)
            EXPECT_INT(chunk.decoder_first, decoder);
        // No chunk of the encoder comes after one of the decoder.
        EXPECT(chunk.encoder_count == 0 || decoder == 0);
        encoder += chunk.encoder_count;
        decoder += chunk.decoder_count;
    }
    EXPECT_INT(encoder, config_encoder_layers(&config.model));
    EXPECT_INT(decoder, config_decoder_layers(&config.model));
}

TEST(chunks) {
    static const char *const lines[] = {
        "--num-layers 24 --pipeline-model-parallel-size 4",
        "--num-layers 24 --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 3",
        "--num-layers 24 --pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 6",
        "--num-layers 10 --pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 1 "
        "--decoder-last-pipeline-num-layers 3",
        "--num-layers 10 --pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 1",
        "--num-layers 12 --pipeline-model-parallel-size 4 --decoder-last-pipeline-num-layers 6 "
        "--num-virtual-stages-per-pipeline-rank 2",
        "--num-layers 6 --pipeline-model-parallel-size 2 --model bert",
        "--num-layers 6 --pipeline-model-parallel-size 4 --account-for-embedding-in-pipeline-split "
        "--account-for-loss-in-pipeline-split",
        "--num-layers 6 --pipeline-model-parallel-size 4 --model t5",
        "--num-layers 6 --pipeline-model-parallel-size 4 --model t5 --num-virtual-stages-per-pipeline-rank 3",
        "--num-layers 6 --pipeline-model-parallel-size 4 --model t5 --pipeline-model-parallel-split-rank 1",
        "--num-layers 2 --decoder-num-layers 6 --pipeline-model-parallel-size 4 --model t5",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char line[512];
        // As many micro-batches as the interleaved schedule needs.
        snprintf(line, sizeof line, "%s --global-batch-size 4", lines[i]);
        EXPECT_OK(validate(line, 4));
        expect_all_layers();
    }
}

TEST(places) {
    EXPECT_OK(validate("--num-layers 24 --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 3 "
                       "--global-batch-size 8",
                       8));
    // Megatron: chunk v of stage p starts at v (L / VP) + p (L / (PP VP)).
    for (int64_t v = 0; v < 2; v++)
        for (int64_t p = 0; p < 4; p++)
            EXPECT_INT(config_chunk(&config, v * 4 + p).decoder_first, v * 12 + p * 3);
    // The embedding and the head count as one layer each.
    EXPECT_OK(validate("--num-layers 6 --pipeline-model-parallel-size 4 --account-for-embedding-in-pipeline-split "
                       "--account-for-loss-in-pipeline-split",
                       4));
    const int64_t weighed[4] = {1, 2, 2, 1};
    for (int64_t p = 0; p < 4; p++)
        EXPECT_INT(config_chunk(&config, p).decoder_count, weighed[p]);
    EXPECT_OK(validate("--num-layers 2 --decoder-num-layers 6 --pipeline-model-parallel-size 4 --model t5", 4));
    EXPECT_INT(config_split_stage(&config), 1);
    EXPECT_OK(validate("--num-layers 6 --pipeline-model-parallel-size 1 --model t5", 1));
    EXPECT_INT(config_split_stage(&config), 0);
    EXPECT_INT(config_chunk(&config, 0).encoder_count, 6);
    EXPECT_INT(config_chunk(&config, 0).decoder_count, 6);
}

// The cases of Megatron's own tests: test_layer_builder of tests/unit_tests/transformer/test_transformer_block.py, with
// its refusals, and the first and last layers, counted from 1, of test_cuda_graphs.py beside it
// (test_cuda_graph_determine_first_last_layer_logic), both of core_v0.19.0. (6, 4, 2) is from a functional test whose
// ends have no layers.
TEST(chunks_are_megatrons) {
    static const struct {
        int layers, stages, chunks;  // chunks 0: not given
        bool embedding, loss;
        int first, last;  // layers of the first and last stage; 0: not given
        bool is_refused;
        int begins[9], ends[9];  // of each chunk, if known
    } theirs[] = {
        {60, 5, 0, false, false, 0, 4, false, {0}, {0}},
        {60, 8, 0, false, false, 6, 6, false, {0}, {0}},
        {64, 4, 0, false, false, 0, 0, false, {0}, {0}},
        {64, 4, 8, false, false, 0, 0, false, {0}, {0}},
        {60, 6, 0, false, false, 5, 0, false, {0}, {0}},
        {101, 8, 0, false, false, 13, 13, true, {0}, {0}},
        {63, 4, 0, true, false, 0, 0, false, {0}, {0}},
        {63, 4, 0, false, true, 0, 0, false, {0}, {0}},
        {62, 4, 0, true, true, 0, 0, false, {0}, {0}},
        {62, 4, 2, true, true, 0, 0, false, {0}, {0}},
        {65, 4, 0, false, false, 0, 0, true, {0}, {0}},
        {65, 4, 0, true, true, 0, 0, true, {0}, {0}},
        {61, 4, 0, false, false, 12, 0, true, {0}, {0}},
        {2, 4, 0, false, false, 0, 0, true, {0}, {0}},
        {60, 6, 0, true, false, 5, 5, true, {0}, {0}},
        {50, 2, 7, false, false, 0, 0, true, {0}, {0}},
        {4, 4, 4, false, false, 0, 0, true, {0}, {0}},
        {8, 2, 0, false, false, 0, 0, false, {1, 5}, {4, 8}},
        {8, 2, 2, false, false, 0, 0, false, {1, 3, 5, 7}, {2, 4, 6, 8}},
        {14, 4, 0, true, true, 0, 0, false, {1, 4, 8, 12}, {3, 7, 11, 14}},
        {14, 4, 2, true, true, 0, 0, false, {1, 2, 4, 6, 8, 10, 12, 14}, {1, 3, 5, 7, 9, 11, 13, 14}},
        {12, 4, 0, false, false, 2, 2, false, {1, 3, 7, 11}, {2, 6, 10, 12}},
        {12, 4, 2, false, false, 2, 2, false, {1, 2, 4, 6, 7, 8, 10, 12}, {1, 3, 5, 6, 7, 9, 11, 12}},
        {6, 4, 2, true, true, 0, 0, false, {1, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3, 4, 5, 6, 6}},
        {2, 4, 0, true, true, 0, 0, false, {1, 1, 2, 3}, {0, 1, 2, 2}},
    };
    for (size_t i = 0; i < sizeof theirs / sizeof theirs[0]; i++) {
        char line[512];
        int length =
            snprintf(line, sizeof line, "--num-layers %d --pipeline-model-parallel-size %d --global-batch-size %d",
                     theirs[i].layers, theirs[i].stages, theirs[i].stages);
        const struct {
            const char *flag;
            int value;
        } more[] = {{"--num-virtual-stages-per-pipeline-rank", theirs[i].chunks},
                    {"--decoder-first-pipeline-num-layers", theirs[i].first},
                    {"--decoder-last-pipeline-num-layers", theirs[i].last}};
        for (size_t k = 0; k < 3; k++)
            if (more[k].value > 0)
                length += snprintf(line + length, sizeof line - (size_t)length, " %s %d", more[k].flag, more[k].value);
        snprintf(line + length, sizeof line - (size_t)length, "%s%s",
                 theirs[i].embedding ? " --account-for-embedding-in-pipeline-split" : "",
                 theirs[i].loss ? " --account-for-loss-in-pipeline-split" : "");
        if (theirs[i].is_refused) {
            EXPECT_ERROR(validate(line, theirs[i].stages), "");
            continue;
        }
        EXPECT_OK(validate(line, theirs[i].stages));
        int64_t chunks = theirs[i].stages * config_chunks(&config), total = 0;
        for (int64_t p = 0; p < chunks; p++) {
            struct config_chunk chunk = config_chunk(&config, p);
            EXPECT(chunk.begins == (p == 0) && chunk.ends == (p == chunks - 1));
            EXPECT_INT(chunk.decoder_first, total);
            total += chunk.decoder_count;
            if (theirs[i].begins[0] == 0)
                continue;
            EXPECT_INT(chunk.decoder_first + 1, theirs[i].begins[p]);
            EXPECT_INT(chunk.decoder_first + chunk.decoder_count, theirs[i].ends[p]);
        }
        EXPECT_INT(total, theirs[i].layers);
    }
    // Megatron's other notation for the same: the places of a chunk, including the ends.
    EXPECT_OK(validate("--num-layers 6 --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 1 "
                       "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split "
                       "--global-batch-size 4",
                       4));
    EXPECT_INT(config_chunks(&config), 2);
}

// --pipeline-model-parallel-layout: chunks as Megatron's parse_str_to_list of core_v0.19.0 makes them (the last but one
// is its own example, the last is that of Megatron-Bridge's DeepSeek-V3 on H100).
TEST(layouts_are_megatrons) {
    static const struct {
        const char *layout, *more;
        int layers, stages, chunks;
        const char *counts;  // layers of each chunk; of many equal ones, the first and last
    } theirs[] = {
        {"Et|tL", "", 2, 2, 1, "1 1"},
        {"E|tt|t,t|L", "", 4, 2, 2, "0 2 2 0"},
        {"Et*3|(tt)*2|L", "", 7, 3, 1, "3 4 0"},
        {"Ett||t*2,L", "", 4, 3, 1, "2 0 2"},
        {"E(t|)*3,t*0,L", "", 3, 4, 1, "1 1 1 0"},
        {"E(|tt)*3L", "", 6, 4, 1, "0 2 2 2"},
        {"Et*2|*3,tL", "", 3, 4, 1, "2 0 0 1"},
        {"Et*3|(tt|)*29,tmL", "--mtp-num-layers 1", 62, 31, 1, "3 2 2 2"},
        {"Et|(tt|)*30mL", "--mtp-num-layers 1", 61, 8, 4, "1 2 2 2"},
    };
    for (size_t i = 0; i < sizeof theirs / sizeof theirs[0]; i++) {
        char line[512];
        snprintf(
            line, sizeof line,
            "--position-embedding-type rope --num-layers %d --pipeline-model-parallel-size %d --global-batch-size %d "
            "--pipeline-model-parallel-layout %s %s",
            theirs[i].layers, theirs[i].stages, theirs[i].stages, theirs[i].layout, theirs[i].more);
        EXPECT_OK(validate(line, theirs[i].stages));
        EXPECT_INT(config_chunks(&config), theirs[i].chunks);
        int64_t total = 0, number = 0, all = theirs[i].stages * theirs[i].chunks;
        for (const char *at = theirs[i].counts; *at; at += strcspn(at, " "), at += *at == ' ')
            EXPECT_INT(config_chunk(&config, number++).decoder_count, strtoll(at, NULL, 10));
        for (int64_t p = 0; p < all; p++) {
            struct config_chunk chunk = config_chunk(&config, p);
            EXPECT(chunk.begins == (p == 0) && chunk.ends == (p == all - 1));
            EXPECT_INT(chunk.depths, chunk.ends ? config.model.mtp_num_layers : 0);
            EXPECT_INT(chunk.decoder_first, total);
            total += chunk.decoder_count;
        }
        EXPECT_INT(total, theirs[i].layers);
    }
}

TEST(layout_refusals) {
    static const struct {
        const char *layout, *more, *message;
    } bad[] = {
        {"Et|xL", "", "E (embedding), t (layer), m (multi-token prediction), L (loss)"},
        {"Et|xL", "", "(at byte 3)"},
        {"E(t(t)*2|)*2L", "", "parentheses do not nest (at byte 3)"},
        {"E(tt|L", "", "a parenthesis is not closed (at byte 6)"},
        {"E(tt|)L", "", "a * and a number must follow a parenthesis (at byte 6)"},
        {"E()*2tL", "", "there is nothing in the parentheses"},
        {"Et*|tL", "", "a number of at most six digits must follow * (at byte 3)"},
        {"Et*9999999|tL", "", "six digits"},
        {"E(t*999999|)*2L", "", "too many layers"},
        {"Et*2*2|L", "", "numbers behind * (at byte 4)"},
        {"t|E,t*3L", "", "must begin with E and end with L"},
        {"Ett|ttLL", "", "must begin with E and end with L"},
        {"EEtt|ttL", "", "must begin with E and end with L"},
        {"Ett|tt", "", "must begin with E and end with L"},
        {"", "", "must begin with E and end with L"},
        {"Emtt|ttL", "--mtp-num-layers 1 --position-embedding-type rope", "all t before m"},
        {"Ett|tL", "", "has 3 layers (t), but --num-layers is 4; make them equal"},
        {"Ett|ttmL", "", "has 1 depths of multi-token prediction (m), but --mtp-num-layers is 0"},
        {"Ett|tt|L", "", "has 3 chunks, which 2 stages cannot share evenly; make them a multiple of"},
        {"Etttt|*257L", "", "has 129 chunks for each stage, more than 128; leave out some of the |"},
        {"E|tt|ttm|L", "--mtp-num-layers 1 --position-embedding-type rope", "end the layout with mL"},
        {"Ett|ttL", "--decoder-first-pipeline-num-layers 2", "which says the layers of every chunk; leave one out"},
        {"Ett|ttL", "--account-for-loss-in-pipeline-split", "--account-for-loss-in-pipeline-split does not work with"},
        {"Ett|ttL", "--num-virtual-stages-per-pipeline-rank 2",
         "--num-virtual-stages-per-pipeline-rank does not work with"},
        {"Ett|ttL", "--model t5", "give --pipeline-model-parallel-split-rank"},
        {"Et|t|t|tL", "--pipeline-schedule 1f1b", "give --pipeline-model-parallel-layout one chunk for each stage"},
        {"Ett|ttL", "--pipeline-schedule interleaved", "layout two or more chunks for each stage"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char line[512];
        snprintf(line, sizeof line,
                 "--num-layers 4 --pipeline-model-parallel-size 2 --global-batch-size 4 "
                 "--pipeline-model-parallel-layout=%s %s",
                 bad[i].layout, bad[i].more);
        EXPECT_ERROR(validate(line, 2), bad[i].message);
        EXPECT_INT(error_exit_code(), EXIT_CODE_USAGE);
    }
    EXPECT_ERROR(validate("--num-layers 4 --pipeline-model-parallel-layout EttttL", 1),
                 "needs --pipeline-model-parallel-size, which makes stages; give 2 or more");
}

TEST(refusals) {
    static const struct {
        const char *line, *message;
        int ranks;
    } bad[] = {
        {"--num-layers 6 --pipeline-model-parallel-size 4",
         "--num-layers, 6, cannot be split into 4 pipeline stages; numbers of stages that work are 1, 2, 3, 6; "
         "nearest: --pipeline-model-parallel-size 3 or --num-layers 8",
         4},
        {"--num-layers 2 --pipeline-model-parallel-size 4", "numbers of stages that work are 1, 2", 4},
        {"--num-layers 8 --pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 4",
         "leaves 4 for 3 stages, which does not work out; numbers that do are, for "
         "--decoder-first-pipeline-num-layers, "
         "2, 5",
         4},
        {"--num-layers 8 --pipeline-model-parallel-size 4 --decoder-last-pipeline-num-layers 6",
         "numbers that do are, for --decoder-last-pipeline-num-layers, 2, 5", 4},
        {"--num-layers 9 --pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 2 "
         "--decoder-last-pipeline-num-layers 2",
         "for --decoder-first-pipeline-num-layers, 1, 3, 5, or for --decoder-last-pipeline-num-layers 1, 3, 5", 4},
        {"--num-layers 8 --pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 2 "
         "--decoder-last-pipeline-num-layers 2",
         "for --decoder-first-pipeline-num-layers, 6, or for --decoder-last-pipeline-num-layers 6", 2},
        {"--num-layers 8 --pipeline-model-parallel-size 2 --pipeline-model-parallel-split-rank 1",
         "--pipeline-model-parallel-split-rank belongs to --model t5: other models have one stack", 2},
        {"--num-layers 8 --pipeline-model-parallel-size 4 --account-for-embedding-in-pipeline-split "
         "--account-for-loss-in-pipeline-split",
         "--num-layers 8 and 2 more for the embedding and the loss cannot be split into 4 pipeline stages", 4},
        {"--num-layers 7 --pipeline-model-parallel-size 2 --account-for-embedding-in-pipeline-split "
         "--decoder-last-pipeline-num-layers 3",
         "does not work with --decoder-last-pipeline-num-layers", 2},
        {"--num-layers 8 --pipeline-model-parallel-size 4 --model t5 --pipeline-model-parallel-split-rank 3 "
         "--decoder-num-layers 9",
         "numbers for --pipeline-model-parallel-split-rank that work are 1", 4},
        {"--num-layers 8 --tensor-model-parallel-size 2 --sequence-parallel --seq-length 15 --micro-batch-size 1",
         "--sequence-parallel cannot split the tokens of a micro-batch, 1 × 15, among 2 ranks; "
         "--seq-length 16 works, or --micro-batch-size 2",
         2},
        {"--num-layers 8 --pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 "
         "--global-batch-size 6",
         "6 micro-batches, which the interleaved schedule cannot send through 4 stages in groups of 4; make it 8", 4},
        {"--num-layers 8 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 3 "
         "--global-batch-size 4",
         "--num-layers-per-virtual-pipeline-stage 3 does not divide the 4 layers of stage 0; numbers that do are 1, 2, "
         "4",
         2},
        {"--num-layers 8 --num-virtual-stages-per-pipeline-rank 2", "give --pipeline-model-parallel-size 2", 1},
        {"--num-layers 8 --pipeline-model-parallel-size 2 --pipeline-schedule interleaved",
         "--num-virtual-stages-per-pipeline-rank 2", 2},
        {"--num-layers 8 --pipeline-model-parallel-size 2 --model t5 --pipeline-model-parallel-split-rank 2",
         "numbers for --pipeline-model-parallel-split-rank that work are 1", 2},
        {"--num-layers 7 --pipeline-model-parallel-size 4 --model t5",
         "the encoder's 7 and the decoder's 7 layers cannot be split into 4 pipeline stages with the decoder "
         "beginning "
         "at stage 2; numbers for --pipeline-model-parallel-size that work are 2, 8, 14",
         4},
        {"--num-layers 8 --pipeline-model-parallel-size 3", "start a multiple of it, 3 or 6", 4},
        {"--num-layers 8 --pipeline-model-parallel-size 8", "= 8; start 8 or a multiple of it", 4},
        {"--num-layers 4 --decoder-num-layers 2 --pipeline-model-parallel-size 2 --model t5 --global-batch-size 4 "
         "--num-layers-per-virtual-pipeline-stage 1",
         "makes 4 chunks of the first stage's layers and 2 of the 2 of stage 1", 2},
        {"--num-layers 8 --tensor-model-parallel-size 3", "ranks; sizes that work are 1, 2", 3},
        {"--num-layers 8 --tensor-model-parallel-size 3",
         "nearest: --tensor-model-parallel-size 2 or --num-attention-heads 3", 3},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        EXPECT_ERROR(validate(bad[i].line, bad[i].ranks), bad[i].message);
        EXPECT_INT(error_exit_code(), EXIT_CODE_USAGE);
    }
    config_free(&config);
}

// Megatron-LM's 2 stages of T5's encoder before 1 of its decoder are 3 stages here, the first 2 of the encoder.
TEST(encoder_stages) {
    EXPECT_OK(validate("--num-layers 4 --model t5 --encoder-pipeline-model-parallel-size 2", 3));
    EXPECT_INT(config.machine.pipeline_model_parallel_size, 3);
    EXPECT_INT(config_split_stage(&config), 2);
    expect_all_layers();
    EXPECT_ERROR(validate("--num-layers 4 --encoder-pipeline-model-parallel-size 2", 3), "is for --model t5");
    EXPECT_ERROR(validate("--num-layers 4 --model t5 --encoder-pipeline-model-parallel-size 2 "
                          "--pipeline-model-parallel-split-rank 1",
                          3),
                 "which gives the same; leave one out");
    config_free(&config);
}

TEST_MAIN(TEST_CASE(chunks), TEST_CASE(encoder_stages), TEST_CASE(places), TEST_CASE(chunks_are_megatrons),
          TEST_CASE(layouts_are_megatrons), TEST_CASE(layout_refusals), TEST_CASE(refusals))
