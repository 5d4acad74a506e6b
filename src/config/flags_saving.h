// The rows of flags for checkpoints that a run makes unasked, and for resuming. A part of the table in flags.c.
#ifndef CONFIG_FLAGS_SAVING_H
#define CONFIG_FLAGS_SAVING_H

#define SAVING_ROWS                                                                                                    \
    REAL("--save-minutes", save_minutes, "10", 0, 1e9,                                                                 \
         "without --save-interval: minutes between checkpoints, each of which replaces the one before; at least 20 "   \
         "times as long as a save takes, unless given. 0 for none"),                                                   \
        SWITCH("--keep-best", keep_best,                                                                               \
               "also save whenever the validation loss is the lowest so far, and never remove that checkpoint"),       \
        SWITCH("--resume", resume, "resume from the latest checkpoint in --save, or start if it has none")

#endif
