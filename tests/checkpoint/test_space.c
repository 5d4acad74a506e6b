// What a save says when the disk has too little room: sizes that tell something for small models and large ones.
#include "checkpoint/space.h"
#include "base/error.h"
#include "test.h"

TEST(shortage) {
    const uint64_t besides = 1 << 20;
    EXPECT_OK(space_check("save", 1000, 1000 + besides));
    EXPECT_OK(space_check("save", 0, besides));
    EXPECT_ERROR(space_check("save", 524288, 524288 + besides - 1),
                 "save: its files need 524 kB and 1.05 MB besides, and 1.57 MB are free, 1 bytes too few");
    EXPECT_ERROR(space_check("save", 1000, 0),
                 "need 1.00 kB and 1.05 MB besides, and 0 bytes are free, 1.05 MB too few");
    EXPECT_ERROR(space_check("save", 999499, besides), "need 999 kB");
    EXPECT_ERROR(space_check("save", 999500, besides), "need 1.00 MB");
    EXPECT_ERROR(space_check("save", 85300000000, 64000000000),
                 "need 85.3 GB and 1.05 MB besides, and 64.0 GB are free, "
                 "21.3 GB too few; remove old checkpoints");
    EXPECT_ERROR(space_check("save", UINT64_MAX, UINT64_MAX), "PB");
}

TEST_MAIN(TEST_CASE(shortage))
