// More tensor-parallel ranks than heads of keys and values: equally many share each head and split its channels. What
// does not divide is refused with a size that does.
#include "parse_line.h"
#include "test.h"
#include "base/memory.h"
#include "config/config.h"

#include <stdlib.h>

static struct config config;

#define MODEL                                                                                                          \
    "--num-layers 2 --hidden-size 48 --num-attention-heads 24 --ffn-hidden-size 96 --seq-length 32 --vocab-size 100 "  \
    "--mock-data --micro-batch-size 2 --train-iters 100 --lr 1e-3 --group-query-attention "

static int validate(const char *line, int world_size) {
    TRY(parse_line(&config, line));
    return config_validate(&config, world_size);
}

TEST(shared_keys) {
    static const struct {
        const char *flags, *message;
        int ranks;
    } bad[] = {
        {"--num-query-groups 4 --tensor-model-parallel-size 6",
         "--num-query-groups 4 cannot be shared by --tensor-model-parallel-size 6 ranks; sizes that work are 1, 2, 4, "
         "and multiples of the last; nearest: --tensor-model-parallel-size 4 or --num-query-groups 6",
         6},
        {"--num-query-groups 3 --tensor-model-parallel-size 12",
         "--kv-channels 2 cannot be shared by the 4 ranks (--tensor-model-parallel-size 12 / --num-query-groups 3) "
         "that "
         "share a key/value head; nearest: --tensor-model-parallel-size 6",
         12},
        {"--num-query-groups 3 --tensor-model-parallel-size 9 --kv-channels 6 --ffn-hidden-size 72",
         "--num-attention-heads 24 cannot be shared by --tensor-model-parallel-size 9 ranks", 9},
        {"--num-query-groups 4 --tensor-model-parallel-size 8 --context-parallel-size 2 --cp-comm-type a2a",
         "cannot share --num-attention-heads 24 among 16 ranks", 16},
        {"--num-query-groups 4 --tensor-model-parallel-size 8 --context-parallel-size 3 --cp-comm-type a2a "
         "--seq-length 12",
         "cannot share --num-query-groups 4 among 24 ranks", 24},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char *line = memory_printf(MODEL "%s", bad[i].flags);
        EXPECT_ERROR(validate(line, bad[i].ranks), bad[i].message);
        free(line);
    }
    EXPECT_OK(validate(MODEL "--num-query-groups 4 --tensor-model-parallel-size 8", 8));
    EXPECT_INT(config_kv_ranks(&config), 2);
    EXPECT_OK(validate(MODEL "--num-query-groups 1 --tensor-model-parallel-size 2", 2));
    EXPECT_INT(config_kv_ranks(&config), 2);
    EXPECT_OK(validate(MODEL "--num-query-groups 4 --tensor-model-parallel-size 2", 2));
    EXPECT_INT(config_kv_ranks(&config), 1);
    config_free(&config);
}

TEST_MAIN(TEST_CASE(shared_keys))
