// The tasks that were asked for, and what they score. See tasks.h.
#include "evaluate/tasks.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/phase.h"
#include "base/words.h"
#include "evaluate/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- names ----

static const struct task_record *find_row(const struct tasks *tasks, const char *name, struct nearest *nearest) {
    const struct task_record *const lists[] = {tasks->own, task_rows};
    for (int i = 0; i < 2; i++)
        for (const struct task_record *row = lists[i]; row && row->name; row++) {
            nearest_consider(nearest, row->name);
            if (strcmp(row->name, name) == 0)
                return row;
        }
    return NULL;
}

static void add_task(struct tasks *tasks, const struct task_record *row) {
    for (int64_t i = 0; i < tasks->count; i++)
        if (tasks->items[i].task == row)
            return;
    MEMORY_GROW(tasks->items, tasks->count, tasks->capacity);
    tasks->items[tasks->count++] = (struct task_prepared){.task = row};
}

static int add_name(struct tasks *tasks, const char *name) {
    static const char *const written[] = {"gsm8k", "triviaqa", "nq_open"};
    struct nearest nearest = nearest_begin(name, strlen(name));
    const struct task_record *row = find_row(tasks, name, &nearest);
    if (row) {
        add_task(tasks, row);
        return 0;
    }
    if (strcmp(name, "core") == 0) {
        tasks->has_core = true;
        for (row = task_rows; row->name; row++)
            if (row->is_core)
                add_task(tasks, row);
        return 0;
    }
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++)
        if (strcmp(written[i], name) == 0)
            return error_set_code(
                EXIT_CODE_USAGE,
                "%s scores texts that the model writes, which is not supported; export the model with "
                "`bevatron checkpoint convert --to huggingface` and run lm_eval",
                name);
    return error_set_code(EXIT_CODE_USAGE, "the task %s is not known%s%s%s; see --tasks list", name,
                          nearest.best ? "; did you mean " : "", nearest.best ? nearest.best : "",
                          nearest.best ? "?" : "");
}

static int add_names(struct tasks *tasks, const char *names) {
    OWNED char *copy = memory_string(names);
    char *rest = copy;
    for (char *name; (name = strsep(&rest, ","));)
        if (*name)
            TRY(add_name(tasks, name));
    return tasks->count > 0 ? 0 : error_set_code(EXIT_CODE_USAGE, "--tasks names no task; see --tasks list");
}

// ---- opening ----

static void note_missing(const struct task_record *task, const char *folder, const char *split,
                         struct buffer *missing) {
    OWNED char *path = prepared_path(task, folder, split);
    if (!file_exists(path))
        buffer_printf(missing, "\n  %s%s%s", path, task->address ? "  from " : "", task->address ? task->address : "");
}

static int choose_shots(struct tasks *tasks, const struct tasks_options *options) {
    OWNED_BY(buffer_free) struct buffer missing = {0};
    for (int64_t i = 0; i < tasks->count; i++) {
        struct task_prepared *prepared = &tasks->items[i];
        const struct task_record *task = prepared->task;
        prepared_choose_shots(prepared, options);
        note_missing(task, options->folder, task->split, &missing);
        if (prepared_has_apart(prepared))
            note_missing(task, options->folder, task->shots_split, &missing);
    }
    if (missing.length == 0)
        return 0;
    return bad_data("data of tasks is missing; store it as one JSON object per line, with the columns of the public "
                    "files:%s",
                    buffer_string(&missing));
}

static int take_own(struct tasks *tasks, const char *path) {
    if (!path)
        return 0;
    TRY(documents_read(&tasks->file, path));
    return task_records_take(&tasks->own, &tasks->file);
}

int tasks_open(struct tasks **result, const struct tasks_options *options) {
    struct tasks *tasks = *result = memory_alloc(sizeof *tasks);
    int status = take_own(tasks, options->file);
    if (status == 0)
        status = add_names(tasks, options->names);
    if (status == 0)
        status = choose_shots(tasks, options);
    struct phase *phase = phase_begin_amount("tokenizing the tasks", "tasks", (double)tasks->count);
    for (int64_t i = 0; i < tasks->count && status == 0; i++) {
        status = prepared_make(&tasks->items[i], options);
        phase_advance(phase, 1);
    }
    phase_end(phase);
    if (status < 0) {
        tasks_close(tasks);
        *result = NULL;
    }
    return status;
}

void tasks_close(struct tasks *tasks) {
    if (!tasks)
        return;
    for (int64_t i = 0; i < tasks->count; i++)
        prepared_free(&tasks->items[i]);
    free(tasks->items);
    free(tasks->own);
    documents_free(&tasks->file);
    free(tasks);
}

int tasks_list(const char *file, struct buffer *out) {
    struct tasks tasks = {0};
    int status = take_own(&tasks, file);
    for (const struct task_record *row = tasks.own; status == 0 && row && row->name; row++)
        buffer_printf(out, "%-38s %s\n", row->name, file);
    buffer_printf(out, "%-38s all tasks core_…, and the mean of their centered accuracies\n", "core");
    for (const struct task_record *row = task_rows; row->name; row++)
        buffer_printf(out, "%-38s %s\n", row->name, row->address);
    free(tasks.own);
    documents_free(&tasks.file);
    return status;
}

// ---- metrics ----

enum length { LENGTH_NONE, LENGTH_CHARACTERS, LENGTH_BYTES, LENGTH_TOKENS };

static double score_of(const struct task_answer *answer, enum length length) {
    const int64_t lengths[] = {1, answer->characters, answer->bytes, answer->score.tokens};
    return lengths[length] > 0 ? answer->score.log_likelihood / (double)lengths[length] : -INFINITY;
}

// The number of the best choice; of equal ones the first.
static int32_t best_choice(const struct task_prepared *prepared, const struct task_document *document,
                           enum length length) {
    const struct task_answer *answers = prepared->answers + document->first_answer;
    int32_t best = 0;
    for (int32_t i = 1; i < document->answers; i++)
        if (score_of(&answers[i], length) > score_of(&answers[best], length))
            best = i;
    return best;
}

static bool is_right(const struct task_prepared *prepared, const struct task_document *document,
                     enum task_metric metric) {
    enum length length = prepared->task->is_core      ? LENGTH_TOKENS
                         : metric == METRIC_ACC_NORM  ? LENGTH_CHARACTERS
                         : metric == METRIC_ACC_BYTES ? LENGTH_BYTES
                                                      : LENGTH_NONE;
    if (prepared->task->kind == TASK_ENDING)
        return prepared->answers[document->first_answer].score.misses == 0;
    return best_choice(prepared, document, length) == document->gold;
}

// The share of right documents, and its standard error: of the mean, or pooled over groups.
static void score_share(const struct task_prepared *prepared, enum task_metric metric, struct task_score *score) {
    double count = (double)prepared->document_count, all = 0, squares = 0, groups = 0;
    double *right = memory_alloc(sizeof *right * 2 * (size_t)(prepared->group_count + 1)),
           *size = right + prepared->group_count + 1;
    for (int64_t i = 0; i < prepared->document_count; i++) {
        right[prepared->documents[i].group] += is_right(prepared, &prepared->documents[i], metric);
        size[prepared->documents[i].group]++;
    }
    for (int64_t group = 0; group <= prepared->group_count; group++) {
        all += right[group];
        groups += size[group] > 0;
        squares += size[group] > 0 ? right[group] * (size[group] - right[group]) / size[group] : 0;
    }
    score->value = all / count;
    score->error = count > groups ? sqrt(squares / (count - groups) / count) : NAN;
    free(right);
}

// Python's bootstrap of the harness: 100,000 samples with replacement, a seed for each thousand.
static double bootstrap_error(const struct task_prepared *prepared) {
    enum { SEEDS = 100, SAMPLES = 1000 };
    int64_t count = prepared->document_count;
    double *values = memory_alloc(sizeof *values * SEEDS * SAMPLES), mean = 0, squares = 0;
    for (int seed = 0; seed < SEEDS; seed++) {
        struct mt19937 random;
        python_random_seed(&random, (uint32_t)seed);
        for (int i = 0; i < SAMPLES; i++) {
            double sum = 0;
            for (int64_t k = 0; k < count; k++) {
                int64_t at = (int64_t)(mt19937_random(&random) * (double)count);
                sum += prepared->answers[prepared->documents[at].first_answer].score.log_likelihood;
            }
            values[seed * SAMPLES + i] = exp(-sum / (double)count);
            mean += values[seed * SAMPLES + i] / (SEEDS * SAMPLES);
        }
    }
    for (int i = 0; i < SEEDS * SAMPLES; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    free(values);
    return sqrt(squares / (SEEDS * SAMPLES - 1));
}

static void score_perplexity(const struct task_prepared *prepared, enum task_metric metric, struct task_score *score) {
    double sum = 0, units = 0;
    for (int64_t i = 0; i < prepared->document_count; i++) {
        const struct task_document *document = &prepared->documents[i];
        sum += prepared->answers[document->first_answer].score.log_likelihood;
        units += metric == METRIC_PERPLEXITY ? 1 : metric == METRIC_WORD_PERPLEXITY ? document->words : document->bytes;
    }
    score->value = metric == METRIC_BITS_PER_BYTE ? -sum / units / log(2) : exp(-sum / units);
}

static void score_metric(const struct task_prepared *prepared, enum task_metric metric, bool has_errors,
                         struct task_score *score) {
    const struct task_record *task = prepared->task;
    *score = (struct task_score){.task = task->name,
                                 .metric = task_metric_name(metric),
                                 .documents = prepared->document_count,
                                 .shots = prepared->shots,
                                 .error = NAN,
                                 .is_share = metric <= METRIC_ACC_BYTES};
    if (metric <= METRIC_ACC_BYTES || metric == METRIC_CENTERED)
        score_share(prepared, metric, score);
    else
        score_perplexity(prepared, metric, score);
    if (metric == METRIC_PERPLEXITY && has_errors)
        score->error = bootstrap_error(prepared);
    if (metric == METRIC_CENTERED) {
        score->value = (score->value - task->baseline / 100) / (1 - task->baseline / 100);
        score->error = NAN;
    }
}

static bool score_core(const struct tasks *tasks, struct task_score *score) {
    *score = (struct task_score){.task = "core", .metric = "centered", .error = NAN};
    for (int64_t i = 0; i < tasks->count; i++) {
        struct task_score one;
        if (!tasks->items[i].task->is_core || tasks->items[i].task->kind_name)
            continue;
        score_metric(&tasks->items[i], METRIC_CENTERED, false, &one);
        score->value += one.value;
        score->documents += one.documents;
        score->shots++;
    }
    score->value /= (double)score->shots;
    score->shots = 0;
    return tasks->has_core;
}

bool tasks_next_score(const struct tasks *tasks, int64_t *at, bool has_errors, struct task_score *score) {
    for (; *at < tasks->count * METRIC_COUNT; ++*at) {
        const struct task_prepared *prepared = &tasks->items[*at / METRIC_COUNT];
        enum task_metric metric = (enum task_metric)(*at % METRIC_COUNT);
        if (!(prepared->task->metrics >> metric & 1) || prepared->document_count == 0)
            continue;
        score_metric(prepared, metric, has_errors, score);
        ++*at;
        return true;
    }
    return *at == tasks->count * METRIC_COUNT && ++*at && score_core(tasks, score);
}

// ---- output ----

static void print_table(const struct tasks *tasks, struct buffer *out) {
    struct task_score score;
    buffer_printf(out, "%-38s %9s %5s  %-15s %12s %10s\n", "task", "documents", "shots", "metric", "value", "error");
    for (int64_t at = 0; tasks_next_score(tasks, &at, true, &score);) {
        buffer_printf(out, "%-38s %9" PRId64 " %5" PRId64 "  %-15s %12.4f ", score.task, score.documents, score.shots,
                      score.metric, score.value);
        if (isnan(score.error))
            buffer_printf(out, "%10s\n", "-");
        else
            buffer_printf(out, "%10.4f\n", score.error);
    }
}

static void print_json(const struct tasks *tasks, struct buffer *out) {
    struct json_writer w = {.out = out};
    struct task_score score;
    json_begin_object(&w);
    json_put_string(&w, "harness", TASKS_HARNESS);
    json_key(&w, "scores");
    json_begin_array(&w);
    for (int64_t at = 0; tasks_next_score(tasks, &at, true, &score);) {
        json_begin_object(&w);
        json_put_string(&w, "task", score.task);
        json_put_string(&w, "metric", score.metric);
        json_put_double(&w, "value", score.value);
        json_put_double(&w, "error", score.error);
        json_put_int(&w, "documents", score.documents);
        json_put_int(&w, "shots", score.shots);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    buffer_append_byte(out, '\n');
}

void tasks_print(const struct tasks *tasks, bool is_json, struct buffer *out) {
    (is_json ? print_json : print_table)(tasks, out);
}

static void print_document(const struct task_prepared *prepared, const struct task_document *document,
                           struct buffer *out) {
    struct json_writer w = {.out = out};
    const struct task_answer *answers = prepared->answers + document->first_answer;
    json_begin_object(&w);
    json_put_string(&w, "task", prepared->task->name);
    json_put_int(&w, "line", document->line);
    if (prepared->task->group)
        json_put_string(&w, "group", prepared->groups[document->group]);
    if (prepared->task->kind <= TASK_CONTEXTS)
        json_put_int(&w, "answer", document->gold);
    static const char *const columns[] = {"log_likelihoods", "tokens", "is_greedy"};
    for (int column = 0; column < 3; column++) {
        json_key(&w, columns[column]);
        json_begin_array(&w);
        for (int32_t i = 0; i < document->answers; i++)
            if (column == 0)
                json_double(&w, answers[i].score.log_likelihood);
            else if (column == 1)
                json_int(&w, answers[i].score.tokens);
            else
                json_bool(&w, answers[i].score.misses == 0);
        json_end_array(&w);
    }
    json_end_object(&w);
    buffer_append_byte(out, '\n');
}

void tasks_print_documents(const struct tasks *tasks, struct buffer *out) {
    for (int64_t i = 0; i < tasks->count; i++)
        for (int64_t k = 0; k < tasks->items[i].document_count; k++)
            print_document(&tasks->items[i], &tasks->items[i].documents[k], out);
}
