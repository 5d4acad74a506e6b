// Agreeing on success. If ranks have failed, all of them get the message of the first one, in words of eight letters.
#include "base/memory.h"
#include "comm/backend.h"

#include <stdlib.h>
#include <string.h>

void comm_broadcast_text(struct group *group, char **text, int root, const char *name) {
    int64_t length = group->rank == root ? (int64_t)strlen(*text) : 0;
    comm_broadcast_i64(group, &length, 1, root, name);
    size_t count = (size_t)length / sizeof(int64_t) + 1;
    int64_t *words = memory_alloc(count * sizeof words[0]);
    if (group->rank == root)
        memcpy(words, *text, (size_t)length);
    comm_broadcast_i64(group, words, (int)count, root, name);
    if (group->rank != root)
        *text = memory_printf("%.*s", (int)length, (const char *)words);
    free(words);
}

int comm_agree(struct group *group, int status, const char *name) {
    if (group->size == 1)
        return status;
    int64_t failed[1] = {status < 0 ? group->size - group->rank : 0};
    comm_max_i64(group, failed, 1, name);
    if (failed[0] == 0)
        return 0;
    int from = group->size - (int)failed[0];
    int64_t code = (int64_t)error_exit_code();
    char *message = memory_string(error_message());
    comm_broadcast_i64(group, &code, 1, from, name);
    if (group->rank != from)
        free(message);
    comm_broadcast_text(group, &message, from, name);
    error_set_code((enum exit_code)code, "rank %d: %s", group->ranks ? group->ranks[from] : from, message);
    error_mark_shared();
    free(message);
    return -1;
}
