// A queue in one line of text. See parallelcluster.h.
#include "base/error.h"
#include "base/memory.h"
#include "cluster/machine.h"
#include "cluster/parallelcluster.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 10000, LONGEST_NAME = 25 };

// The next word of *cursor, ended in place; NULL if there is none.
static char *next_word(char **cursor) {
    char *word = *cursor + strspn(*cursor, " \t");
    if (!*word)
        return NULL;
    char *end = word + strcspn(word, " \t");
    *cursor = *end ? end + 1 : end;
    *end = 0;
    return word;
}

static int refuse(const struct cluster_queue *queue, const char *what) {
    return error_set_code(EXIT_CODE_USAGE, "queue \"%s\": %s", queue->name ? queue->name : "", what);
}

// Slurm uses it in node names.
static int check_name(const struct cluster_queue *queue) {
    const char *name = queue->name;
    size_t length = strlen(name);
    bool is_good = islower((unsigned char)name[0]) && length <= LONGEST_NAME && strcmp(name, "default") != 0;
    for (size_t i = 0; i < length; i++)
        is_good = is_good && (islower((unsigned char)name[i]) || isdigit((unsigned char)name[i]) || name[i] == '-');
    return is_good ? 0
                   : refuse(queue, "its name must be up to 25 lowercase letters, digits and dashes, starting with a "
                                   "letter, and not \"default\"");
}

static int read_types(struct cluster_queue *queue, char *text) {
    while (*text) {
        if (queue->type_count == QUEUE_MOST_TYPES)
            return refuse(queue, "more than 8 instance types");
        size_t length = strcspn(text, ",");
        bool is_last = !text[length];
        text[length] = 0;
        if (!aws_is_instance_type(text))
            return error_set_code(EXIT_CODE_USAGE,
                                  "queue \"%s\": \"%s\" is not an EC2 instance type, e.g. p4d.24xlarge", queue->name,
                                  text);
        queue->types[queue->type_count++] = text;
        text += is_last ? length : length + 1;
    }
    return queue->type_count > 0 ? 0 : refuse(queue, "no instance type");
}

// "4" means 0-4: nodes are started when jobs need them.
static int read_count(struct cluster_queue *queue, const char *text) {
    char *end;
    long first = strtol(text, &end, 10), second = first;
    bool is_good = isdigit((unsigned char)text[0]);
    if (*end == '-' && isdigit((unsigned char)end[1]))
        second = strtol(end + 1, &end, 10);
    else
        first = 0;
    is_good = is_good && !*end && first >= 0 && second >= 1 && first <= second && second <= MOST_NODES;
    queue->least = first;
    queue->most = second;
    return is_good ? 0 : refuse(queue, "its count must be a number of nodes, e.g. 4, or a range, e.g. 0-4");
}

// The value of "word=value", NULL if it is another word.
static const char *value_of(const char *word, const char *name) {
    size_t length = strlen(name);
    return strncmp(word, name, length) == 0 && word[length] == '=' ? word + length + 1 : NULL;
}

static int read_named(struct cluster_queue *queue, const char *word) {
    static const struct {
        const char *name, *prefix;
        size_t offset;
    } named[] = {
        {"reservation", "cr-", offsetof(struct cluster_queue, reservation)},
        {"subnet", "subnet-", offsetof(struct cluster_queue, subnet)},
        {"ami", "ami-", offsetof(struct cluster_queue, ami)},
    };
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        const char *value = value_of(word, named[i].name);
        if (!value)
            continue;
        if (!aws_is_id(value, named[i].prefix))
            return error_set_code(EXIT_CODE_USAGE,
                                  "queue \"%s\": %s=%s, but such an id is %s followed by 8 or 17 hexadecimal digits",
                                  queue->name, named[i].name, value, named[i].prefix);
        memcpy((char *)queue + named[i].offset, &value, sizeof value);
        return 0;
    }
    return error_set_code(EXIT_CODE_USAGE,
                          "queue \"%s\": \"%s\" is not one of efa, placement-group[=NAME], no-smt, exclusive, "
                          "gpu-health-check, spot, capacity-block, reservation=cr-…, subnet=subnet-…, ami=ami-…",
                          queue->name, word);
}

static int read_word(struct cluster_queue *queue, const char *word) {
    const struct {
        const char *name;
        bool *is_set;
    } switches[] = {
        {"efa", &queue->has_efa},
        {"placement-group", &queue->has_placement_group},
        {"no-smt", &queue->no_smt},
        {"exclusive", &queue->is_exclusive},
        {"gpu-health-check", &queue->checks_gpus},
        {"spot", &queue->is_spot},
        {"capacity-block", &queue->is_capacity_block},
    };
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++)
        if (strcmp(switches[i].name, word) == 0) {
            *switches[i].is_set = true;
            return 0;
        }
    const char *group = value_of(word, "placement-group");
    if (!group)
        return read_named(queue, word);
    if (!*group || strspn(group, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != strlen(group))
        return refuse(queue, "the name of a placement group has letters, digits, dots and dashes only");
    queue->has_placement_group = true;
    queue->placement_group = group;
    return 0;
}

// Combinations that EC2 does not support, and reports only when nodes do not start.
static int check_together(const struct cluster_queue *queue) {
    if (queue->is_capacity_block && !queue->reservation)
        return refuse(queue, "a capacity block is a reservation; add reservation=cr-…");
    if (queue->is_capacity_block && queue->has_placement_group)
        return refuse(queue, "the nodes of a capacity block are already close together; leave out placement-group");
    if (queue->is_spot && (queue->reservation || queue->is_capacity_block))
        return refuse(queue, "spot nodes cannot come from a reservation; choose one of the two");
    for (int i = 0; i < queue->type_count && queue->has_efa; i++) {
        const struct machine *machine = machine_look_up(queue->types[i]);
        if (machine && machine->efa == 0)
            return error_set_code(EXIT_CODE_USAGE, "queue \"%s\": %s has no EFA; leave out efa", queue->name,
                                  queue->types[i]);
    }
    return 0;
}

int cluster_queue_parse(struct cluster_queue *queue, const char *text) {
    *queue = (struct cluster_queue){.text = memory_string(text)};
    for (const char *c = text; *c; c++)
        if (iscntrl((unsigned char)*c) && *c != '\t')
            return error_set_code(EXIT_CODE_USAGE, "a --queue must be one line without control characters");
    char *cursor = queue->text;
    queue->name = next_word(&cursor);
    char *types = next_word(&cursor), *count = next_word(&cursor), *word;
    if (!queue->name || !types || !count)
        return error_set_code(
            EXIT_CODE_USAGE,
            "--queue \"%s\" is not NAME TYPE COUNT, e.g. \"gpu p4d.24xlarge 0-16 efa placement-group\"", text);
    TRY(check_name(queue));
    TRY(read_types(queue, types));
    TRY(read_count(queue, count));
    while ((word = next_word(&cursor)))
        TRY(read_word(queue, word));
    return check_together(queue);
}

void cluster_queue_free(struct cluster_queue *queue) {
    free(queue->text);
    queue->text = NULL;
}
