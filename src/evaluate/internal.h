// The parts of tasks. Only for the files of this folder and their tests; tasks.h is the interface for others.
#ifndef EVALUATE_INTERNAL_H
#define EVALUATE_INTERNAL_H

#include "base/json.h"
#include "base/rng.h"
#include "evaluate/tasks.h"

// ---- templates (template.c) ----

int template_check(const char *text);
int template_filter(const char *name, struct buffer *text);
// Number of texts that it stands for: the size of the array if a field ends in [], else 1.
int template_count(const char *text, const struct json *document, int64_t *count);
// Appends one of them; `element` counts for fields that end in [].
int template_render(const char *text, const struct json *document, int64_t element, struct buffer *out);

// ---- Python's random numbers (python_random.c) ----

void python_random_seed(struct mt19937 *mt, uint32_t seed);  // random.Random(seed)
void python_random_shuffle(struct mt19937 *mt, int64_t *items, int64_t count);
// sample(range(count), chosen)
void python_random_sample(struct mt19937 *mt, int64_t count, int64_t chosen, int64_t *out);

// ---- records (task.c, task_rows.c) ----

// choices: the model chooses among continuations of a context; contexts: among contexts of a continuation; ending: it
// writes the continuation; rolling: the whole text counts.
enum task_kind { TASK_CHOICES, TASK_CONTEXTS, TASK_ENDING, TASK_ROLLING, TASK_KINDS };

enum task_metric {
    METRIC_ACC,
    METRIC_ACC_NORM,   // by the characters of a choice
    METRIC_ACC_BYTES,  // by its bytes
    METRIC_PERPLEXITY,
    METRIC_WORD_PERPLEXITY,
    METRIC_BYTE_PERPLEXITY,
    METRIC_BITS_PER_BYTE,
    METRIC_CENTERED,  // (acc - baseline) / (1 - baseline)
    METRIC_COUNT
};
#define METRIC_BIT(name) (1u << METRIC_##name)

enum { TASK_MOST_TEXTS = 8, TASK_MOST_CHOICES = 256, TASK_MOST_SHOTS = 1024, TASK_MOST_GROUPS = 4096 };
// Of a prompt and of all choices of a document: templates may repeat long fields.
enum { TASK_MOST_BYTES = 1 << 24 };

// The texts are templates unless noted. NULL where a task has none.
struct task_record {
    const char *name;
    const char *address;       // where the public data is
    const char *kind_name;     // of a user's record
    enum task_kind kind;       // set from it
    const char *data;          // FOLDER/data/split.jsonl; NULL: the name
    const char *split;         // of the documents; NULL: the data is one file, FOLDER/data.jsonl
    const char *shots_split;   // of the examples; NULL: those of `split`
    const char *filter;        // of templates, for the whole context and each choice
    const char *description;   // before everything
    const char *context;       // of a rolling task: the text
    const char *continuation;  // for contexts and ending
    const char *counted;       // rolling: the text whose words and bytes count
    const char *choices[TASK_MOST_TEXTS];
    const char *answer;  // renders to one of the labels, or to the number of the choice, from 0 on
    const char *labels[TASK_MOST_TEXTS];
    const char *group;      // examples come from documents with the same group, which limits count alone
    const char *delimiter;  // between context and continuation, plain text; NULL: a space
    int64_t shots;
    bool draws_one_more;     // an example more than needed, to leave out the document itself
    bool takes_first_shots;  // the first of the split, not a sample
    bool has_fixed_shots;    // --num-shots does not apply
    bool is_core;            // scored by nanochat's rules
    unsigned metrics;        // METRIC_BIT of each
    double baseline;         // percent right by chance
};

extern const struct task_record task_rows[];  // the last has no name
const char *task_metric_name(enum task_metric metric);

// ---- documents (documents.c) ----

// A file of JSON lines, each an object.
struct documents {
    char *path;
    struct buffer file;
    struct json **roots;
    struct document_line {
        const char *at;
        size_t length;
        int64_t number;  // in the file, from 1 on
    } * lines;
    int64_t count, capacity;
};
int documents_read(struct documents *documents, const char *path);
int documents_parse(struct documents *documents);  // path and file are set
void documents_free(struct documents *documents);
// Puts file and line before the current message; returns -1.
int documents_context(const struct documents *documents, int64_t number);

// The tasks of the user's own, one per document, to which the texts belong. *tasks is to be freed, also after an error.
int task_records_take(struct task_record **tasks, const struct documents *documents);

// The sum over tokens that count, how many they are, and how many of them are not the most likely ones.
struct request_score {
    double log_likelihood;
    int64_t tokens, misses;
};

// A choice of a document, or its only continuation.
struct task_answer {
    int64_t characters, bytes;   // of the choice, for acc_norm
    struct request_score score;  // sum over its requests
};

// Tokens, of which those from `first` on count.
struct task_request {
    int64_t begin;  // in the task's ids
    int32_t count, first;
    int64_t answer;
};

struct task_document {
    int64_t first_answer, line;
    double words, bytes;  // rolling
    int32_t answers, gold, group;
};

// A task that was asked for, with all that is made of its documents.
struct task_prepared {
    const struct task_record *task;
    int64_t shots;
    struct token_list ids;
    struct task_request *requests;
    struct task_answer *answers;
    struct task_document *documents;
    char **groups;
    int64_t request_count, request_capacity, answer_count, answer_capacity, document_count, document_capacity;
    int64_t group_count, group_capacity;
    int64_t cut;  // prompts whose beginning was left out
};

// ---- prompts (prompts.c) ----

// What a task's prompts are made with.
struct task_maker {
    struct task_prepared *prepared;
    const struct task_record *task;
    const struct tasks_options *options;
    struct tokenizer_encoder *encoder;
    struct documents documents, apart;  // examples of another split
    struct documents *pool;
    struct buffer *examples;        // of the pool, made when they are needed
    int32_t *pool_groups;           // NULL until they are needed
    int64_t *order;                 // of the documents
    int64_t count;                  // of them
    int64_t *chosen, chosen_count;  // numbers of examples in the pool, and how many
    struct mt19937 random;
    int64_t specials;  // ids that the tokenizer puts before every text
    int32_t prefix;    // the id that stands before a text without context
    struct token_list ids[2];
};
const char *prompt_delimiter(const struct task_record *task);
void prompt_append(struct buffer *out, const struct buffer *text);
int prompt_render(const struct task_maker *maker, const char *text, const struct json *document, int64_t element,
                  struct buffer *out);

struct prompt_texts {
    struct buffer items[TASK_MOST_CHOICES];
    int32_t count;
};
void prompt_texts_free(struct prompt_texts *texts);

// What a document says, but for a rolling task: `answers` pairs of a text and its continuation.
struct prompt {
    struct prompt_texts texts;            // choices or contexts
    struct buffer context, continuation;  // that all have in common
    const struct buffer *left[TASK_MOST_CHOICES], *right[TASK_MOST_CHOICES];
    int32_t answers, gold;
};
int prompt_make(const struct task_maker *maker, const struct json *document, struct prompt *prompt);
void prompt_free(struct prompt *prompt);
int prompt_find_group(struct task_maker *maker, const struct json *document, int32_t *group);
// Chooses the examples of the document at this place of the order, and appends them.
int prompt_choose_examples(struct task_maker *maker, int64_t place, int32_t group);
int prompt_append_examples(struct task_maker *maker, struct buffer *out);

// ---- requests (requests.c) ----

int prepared_make(struct task_prepared *prepared, const struct tasks_options *options);
void prepared_free(struct task_prepared *prepared);
void prepared_choose_shots(struct task_prepared *prepared, const struct tasks_options *options);
// Whether examples come from another file than the documents.
bool prepared_has_apart(const struct task_prepared *prepared);
// FOLDER/NAME/SPLIT.jsonl, to be freed.
char *prepared_path(const struct task_record *task, const char *folder, const char *split);

// The name of a part of a model's tasks, and the tasks that were asked for.
struct tasks {
    struct documents file;  // of the user's own tasks
    struct task_record *own;
    struct task_prepared *items;
    int64_t count, capacity;
    bool has_core;  // all of CORE's tasks, and their mean
};

#endif
