// Finds checkpoints whose ranks had just compared their copies of the parameters. A run that finds a difference goes
// back to one of these: anything saved later, or without a comparison, may contain the fault.
#include "store/checkpoint.h"

#include "base/error.h"
#include "base/file_patience.h"
#include "store/folder.h"
#include <stdlib.h>

int64_t checkpoint_newest_verified(const struct checkpoint_wish *wish) {
    struct folder_list list;
    struct file_patience patience = {0};
    int64_t found = -1;
    struct error_note *note = error_take();
    file_patience_begin(&patience);
    if (folder_list_read(&list, wish->folder) < 0)
        list = (struct folder_list){0};
    // Stops at a read error: the unreadable checkpoint may be the newest that counts.
    for (size_t i = list.count; i-- > 0 && found < 0 && file_doubt() == 0;) {
        if (list.iterations[i] > wish->most)
            continue;
        struct checkpoint_state state;
        char *path = checkpoint_path(wish->folder, list.iterations[i]);
        if (checkpoint_load_state(path, &state) == 0) {
            bool is_verified = state.replicas_verified > 0 && state.iteration == list.iterations[i];
            if (is_verified && (!wish->accepts || wish->accepts(wish->context, &state)))
                found = list.iterations[i];
            checkpoint_state_free(&state);
        }
        free(path);
    }
    folder_list_free(&list);
    error_clear();
    if (file_doubt() < 0)
        found = CHECKPOINT_UNREAD;
    file_patience_end(&patience);
    if (found == CHECKPOINT_UNREAD)
        error_drop(note);
    else if (note)
        error_give(note);
    return found;
}
