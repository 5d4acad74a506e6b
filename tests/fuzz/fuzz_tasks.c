// layer: evaluate
// Files of tasks and of documents: the first part is tasks, one per line, the second part documents, to which the tasks
// that were accepted are applied.
#include "base/memory.h"
#include "evaluate/internal.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

static void render_all(const struct task_record *task, const struct json *root) {
    const char *const texts[] = {task->description, task->context, task->continuation, task->counted,
                                 task->choices[0],  task->answer,  task->labels[0],    task->group};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct buffer out = {0};
        int64_t count = 0;
        if (texts[i] && template_count(texts[i], root, &count) == 0 && template_render(texts[i], root, 0, &out) == 0 &&
            task->filter)
            (void)template_filter(task->filter, &out);
        buffer_free(&out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *cut = size > 0 ? memchr(data, 0, size) : NULL;
    size_t first = cut ? (size_t)(cut - data) : size;
    struct documents files[2] = {{.path = memory_string("tasks")}, {.path = memory_string("documents")}};
    struct task_record *tasks = NULL;
    buffer_append(&files[0].file, data, first);
    buffer_append(&files[1].file, data + first + (cut != NULL), size - first - (cut != NULL));
    if (documents_parse(&files[0]) == 0 && task_records_take(&tasks, &files[0]) == 0 && documents_parse(&files[1]) == 0)
        for (int64_t i = 0; i < files[0].count; i++)
            for (int64_t k = 0; k < files[1].count; k++)
                render_all(&tasks[i], files[1].roots[k]);
    free(tasks);
    documents_free(&files[0]);
    documents_free(&files[1]);
    return 0;
}
