// The recomputed parts of a layer.
#include "parse_line.h"
#include "test.h"
#include "base/memory.h"
#include "config/config.h"

#include <stdlib.h>

static struct config config;

#define MODEL                                                                                                          \
    "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --vocab-size 100 --mock-data "            \
    "--micro-batch-size 2 --train-iters 100 --lr 1e-3 --num-experts 2 --disable-bias-linear --moe-layer-recompute "

static int validate(const char *line, int world_size) {
    TRY(parse_line(&config, line));
    return config_validate(&config, world_size);
}

// Experts join the other parts, and are named once.
TEST(recompute_of_experts) {
    static const char *const rows[][2] = {{"", "core_attn"},
                                          {"--recompute-modules mlp_act", "mlp_act"},
                                          {"--recompute-activations --recompute-modules layernorm moe", "layernorm"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *line = memory_printf(MODEL "%s", rows[i][0]);
        EXPECT_OK(validate(line, 1));
        EXPECT_STRING(config.machine.recompute_granularity, "selective");
        EXPECT_INT(config.machine.recompute_modules.count, 2);
        EXPECT_STRING(config.machine.recompute_modules.items[0], rows[i][1]);
        EXPECT_STRING(config.machine.recompute_modules.items[1], "moe");
        free(line);
    }
    EXPECT_ERROR(validate(MODEL "--recompute-granularity full", 1), "does not work with --recompute-granularity full");
    config_free(&config);
}

TEST_MAIN(TEST_CASE(recompute_of_experts))
