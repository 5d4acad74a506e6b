// Whether a run has begun, while the folder of its checkpoints cannot be looked at.
#include "base/file_patience.h"
#include "base/log.h"
#include "failing_calls.h"
#include "moved_clock.h"
#include "store/small_run.h"
#include "store/temporary.h"
#include "train/state.h"

enum { FOR_EVER = 1 << 30 };

TEST(an_error_is_no_answer) {
    struct temporary folder = temporary_create_fast();
    const struct config config = {.run.load = folder.path, .run.ckpt_step = -1};
    log_set_level(LOG_ERROR);
    EXPECT_OK(small_save(folder.path, 10, 0));
    for (int times = 1; times > 0; times = times == 1 ? FOR_EVER : 0)
        for (int first = 1, failed = 1, unread = 0; failed > 0; first++) {
            struct moved_clock moved;
            moved_clock_open(&moved, true);
            struct file_patience patience = {.clock = &moved.clock};
            struct found_checkpoint found;
            error_clear();
            file_patience_begin(&patience);
            failing = (struct failing_calls){.error = EIO, .first = first, .times = times};
            int result = find_checkpoint_here(&found, &config, true);
            failing.error = 0;
            failed = failing.failed;
            file_patience_end(&patience);
            unread += result < 0;
            EXPECT(result < 0 ? strstr(error_message(), "Input/output error") != NULL : found.path != NULL);
            found_checkpoint_free(&found);
            EXPECT(failed > 0 || (unread > 0) == (times > 1));
        }
    temporary_remove(&folder);
}

TEST_MAIN(TEST_CASE(an_error_is_no_answer))
