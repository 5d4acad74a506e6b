// Parses INI files. See parallelcluster.h.

#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "cluster/parallelcluster.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// ---- conversion ----

// From an INI file of ParallelCluster 2 to the short file: every key either has a counterpart, is obsolete, or is named
// in a note.

struct ini_conversion {
    struct ini_document *document;
    const char *path;
    struct buffer *out, *notes;
};

// The value of a key in a section; NULL if there is none, or only a placeholder ("<Your subnet>"). A NULL name matches
// any section of that kind.
static const char *get(struct ini_conversion *c, const char *kind, const char *name, const char *key) {
    for (size_t i = 0; i < c->document->count; i++) {
        struct ini_entry *entry = &c->document->entries[i];
        if (strcmp(entry->kind, kind) != 0 || (name && strcmp(entry->name, name) != 0) || strcmp(entry->key, key) != 0)
            continue;
        if (!entry->is_used && (*entry->value == '<' || !*entry->value))
            buffer_printf(c->notes,
                          "note: %s:%lld: %s has no value yet; `bevatron cluster prepare` finds what an account "
                          "has.\n",
                          c->path, (long long)entry->line, key);
        entry->is_used = true;
        return *entry->value == '<' || !*entry->value ? NULL : entry->value;
    }
    return NULL;
}

// Begins a note about the line of a key found by get().
static void note_line(struct ini_conversion *c, const char *kind, const char *name, const char *key) {
    for (size_t i = 0; i < c->document->count; i++) {
        const struct ini_entry *entry = &c->document->entries[i];
        if (strcmp(entry->kind, kind) != 0 || strcmp(entry->name, name) != 0 || strcmp(entry->key, key) != 0)
            continue;
        buffer_printf(c->notes, "note: %s:%lld: %s %s", c->path, (long long)entry->line, key, entry->value);
        return;
    }
}

// An initial number of machines that the cluster did not keep.
static void note_first(struct ini_conversion *c, const char *kind, const char *name, const char *key) {
    const char *first = get(c, kind, name, key);
    if (!first || strcmp(first, "0") == 0)
        return;
    note_line(c, kind, name, key);
    buffer_printf(c->notes, " was left out: machines start when jobs need them; give the queue %s-MOST to keep %s.\n",
                  first, first);
}

// The names of a comma-separated list. NULL is an empty list.
static void split_list(const char *list, struct string_list *names) {
    while (list && *list) {
        list += strspn(list, " ,\t");
        size_t length = strcspn(list, ","), end = length;
        while (end > 0 && strchr(" \t", list[end - 1]))
            end--;
        OWNED char *name = memory_printf("%.*s", (int)end, list);
        if (end > 0)
            string_list_add(names, name);
        list += length;
    }
}

static void quoted(struct buffer *out, const char *value) {
    buffer_append_byte(out, '"');
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            buffer_append_byte(out, '\\');
        buffer_append_byte(out, (unsigned char)*value < 0x20 ? ' ' : *value);
    }
    buffer_append_string(out, "\"\n");
}

static void line(struct ini_conversion *c, const char *key, const char *value) {
    if (!value)
        return;
    buffer_printf(c->out, "%s: ", key);
    quoted(c->out, value);
}

// A key of a section as a line.
static void copy(struct ini_conversion *c, const char *kind, const char *name, const char *from, const char *to) {
    line(c, to, get(c, kind, name, from));
}

static bool is_yes(const char *value) {
    return value && (strcmp(value, "true") == 0 || strcmp(value, "True") == 0 || strcmp(value, "compute") == 0);
}

// The words of a queue from a section and its parent.
static void queue_words(struct ini_conversion *c, const char *kind, const char *name, struct buffer *words) {
    const char *group = get(c, kind, name, "placement_group");
    const char *type = get(c, kind, name, strcmp(kind, "queue") == 0 ? "compute_type" : "cluster_type");
    if (is_yes(get(c, kind, name, "enable_efa")))
        buffer_append_string(words, " efa");
    if (group && strcmp(group, "NONE") != 0)
        buffer_printf(words, " placement-group%s%s", strcmp(group, "DYNAMIC") == 0 ? "" : "=",
                      strcmp(group, "DYNAMIC") == 0 ? "" : group);
    if (is_yes(get(c, kind, name, "disable_hyperthreading")))
        buffer_append_string(words, " no-smt");
    if (type && strcmp(type, "spot") == 0)
        buffer_append_string(words, " spot");
}

static void item(struct ini_conversion *c, const char *text) {
    buffer_append_string(c->out, "  - ");
    quoted(c->out, text);
}

static void convert_resource(struct ini_conversion *c, const char *queue, const char *resource, const char *words) {
    const char *type = get(c, "compute_resource", resource, "instance_type");
    const char *least = get(c, "compute_resource", resource, "min_count");
    const char *most = get(c, "compute_resource", resource, "max_count");
    OWNED char *text = memory_printf("%s %s %s-%s%s", queue, type ? type : "c5.xlarge", least ? least : "0",
                                     most ? most : "10", words);
    item(c, text);
    note_first(c, "compute_resource", resource, "initial_count");
}

// One queue of the short file for each type of machine: here a queue has only one number of machines.
static void convert_queue(struct ini_conversion *c, const char *queue) {
    OWNED_BY(string_list_free) struct string_list resources = {0};
    OWNED_BY(buffer_free) struct buffer words = {0};
    split_list(get(c, "queue", queue, "compute_resource_settings"), &resources);
    queue_words(c, "queue", queue, &words);
    for (int64_t i = 0; i < resources.count; i++) {
        OWNED char *name =
            resources.count == 1 ? memory_string(queue) : memory_printf("%s-%s", queue, resources.items[i]);
        for (char *at = name; *at; at++)
            *at = (char)(*at == '_' ? '-' : tolower((unsigned char)*at));
        convert_resource(c, name, resources.items[i], buffer_string(&words));
    }
    if (resources.count > 1)
        buffer_printf(c->notes, "note: queue %s had several kinds of machines; each is a queue of its own now.\n",
                      queue);
}

// Files before 2.9 had one queue, described in the cluster's own section.
static void convert_plain_queue(struct ini_conversion *c, const char *cluster) {
    OWNED_BY(buffer_free) struct buffer words = {0};
    queue_words(c, "cluster", cluster, &words);
    const char *type = get(c, "cluster", cluster, "compute_instance_type");
    const char *first = get(c, "cluster", cluster, "initial_queue_size");
    const char *most = get(c, "cluster", cluster, "max_queue_size");
    bool is_kept = is_yes(get(c, "cluster", cluster, "maintain_initial_size"));
    OWNED char *text = memory_printf("compute %s %s-%s%s", type ? type : "c5.xlarge", is_kept && first ? first : "0",
                                     most ? most : "10", buffer_string(&words));
    item(c, text);
    if (!is_kept)
        note_first(c, "cluster", cluster, "initial_queue_size");
}

static void convert_queues(struct ini_conversion *c, const char *cluster) {
    OWNED_BY(string_list_free) struct string_list names = {0};
    split_list(get(c, "cluster", cluster, "queue_settings"), &names);
    buffer_append_string(c->out, "queue:\n");
    if (names.count == 0)
        convert_plain_queue(c, cluster);
    for (int64_t i = 0; i < names.count; i++)
        convert_queue(c, names.items[i]);
}

// The bucket of "s3://bucket/…" or of an ARN, to be freed.
static char *bucket_of(const char *text) {
    const char *arn = strstr(text, ":::");
    text = arn ? arn + 3 : strncmp(text, "s3://", 5) == 0 ? text + 5 : text;
    return memory_printf("%.*s", (int)strcspn(text, "/*"), text);
}

static void convert_lustre(struct ini_conversion *c, const char *fsx) {
    copy(c, "fsx", fsx, "shared_dir", "fsx");
    copy(c, "fsx", fsx, "fsx_fs_id", "fsx-id");
    copy(c, "fsx", fsx, "storage_capacity", "fsx-size");
    copy(c, "fsx", fsx, "deployment_type", "fsx-type");
    copy(c, "fsx", fsx, "per_unit_storage_throughput", "fsx-throughput");
    const char *from = get(c, "fsx", fsx, "import_path"), *to = get(c, "fsx", fsx, "export_path");
    line(c, "fsx-s3", from ? from : to);
    if (from && to && strcmp(from, to) != 0)
        buffer_printf(c->notes, "note: fsx-s3 is both import_path and export_path now; export_path %s was left out.\n",
                      to);
}

// The mount point of a volume; without a slash it was below the root.
static void convert_mount(struct ini_conversion *c, const char *kind, const char *name) {
    const char *path = get(c, kind, name, "shared_dir");
    OWNED char *whole = path ? memory_printf("%s%s", *path == '/' ? "" : "/", path) : NULL;
    line(c, "apps", whole);
}

// All volumes become gp3; its limits are in parallelcluster_check.c.
static void convert_speed(struct ini_conversion *c, const char *ebs) {
    const char *type = get(c, "ebs", ebs, "volume_type"), *iops = get(c, "ebs", ebs, "volume_iops");
    const char *size = get(c, "ebs", ebs, "volume_size");
    long wanted = iops ? strtol(iops, NULL, 10) : 0, most = 16000;
    if (size && strtol(size, NULL, 10) * 500 < most)
        most = strtol(size, NULL, 10) * 500;
    bool is_kept = wanted >= 3000 && wanted <= most;
    line(c, "apps-iops", is_kept ? iops : NULL);
    copy(c, "ebs", ebs, "volume_throughput", "apps-throughput");
    if (type && strcmp(type, "gp3") != 0) {
        note_line(c, "ebs", ebs, "volume_type");
        buffer_printf(c->notes, " is gp3 now%s%s%s.\n", is_kept ? ", with its " : "", is_kept ? iops : "",
                      is_kept ? " IOPS" : "");
    }
    if (iops && !is_kept) {
        note_line(c, "ebs", ebs, "volume_iops");
        buffer_printf(c->notes, " was left out: a gp3 volume %s.\n",
                      wanted < 3000 ? "has at least 3000" : "of this size has fewer; give a larger apps-size");
    }
}

static void convert_storage(struct ini_conversion *c, const char *cluster) {
    const char *fsx = get(c, "cluster", cluster, "fsx_settings");
    OWNED_BY(string_list_free) struct string_list volumes = {0};
    split_list(get(c, "cluster", cluster, "ebs_settings"), &volumes);
    if (fsx)
        convert_lustre(c, fsx);
    if (volumes.count == 0) {
        convert_mount(c, "cluster", cluster);
        return;
    }
    convert_mount(c, "ebs", volumes.items[0]);
    copy(c, "ebs", volumes.items[0], "volume_size", "apps-size");
    convert_speed(c, volumes.items[0]);
    if (volumes.count > 1)
        buffer_printf(c->notes, "note: only one EBS volume is shared (apps); %s and those after it were left out.\n",
                      volumes.items[1]);
}

static void convert_buckets(struct ini_conversion *c, const char *cluster) {
    const char *both = get(c, "cluster", cluster, "s3_read_write_resource");
    const char *one = get(c, "cluster", cluster, "s3_read_resource");
    OWNED char *first = both ? bucket_of(both) : NULL, *second = one ? bucket_of(one) : NULL;
    if (first && second && strcmp(first, second) != 0) {
        buffer_append_string(c->out, "bucket:\n");
        item(c, first);
        item(c, second);
    } else {
        line(c, "bucket", first ? first : second);
    }
    if (second)
        buffer_printf(c->notes,
                      "note: machines may write to the bucket %s too; give a policy instead if they may not.\n",
                      second);
}

static void convert_scripts(struct ini_conversion *c, const char *cluster) {
    static const char *const keys[][2] = {{"pre_install", "pre_install_args"}, {"post_install", "post_install_args"}};
    const char *scripts[2] = {get(c, "cluster", cluster, keys[0][0]), get(c, "cluster", cluster, keys[1][0])};
    if (!scripts[0] && !scripts[1])
        return;
    buffer_append_string(c->out, "on-node-configured:\n");
    for (int i = 0; i < 2; i++) {
        if (!scripts[i])
            continue;
        const char *words = get(c, "cluster", cluster, keys[i][1]);
        OWNED char *text = memory_printf("%s%s%s", scripts[i], words ? " " : "", words ? words : "");
        item(c, text);
    }
    if (scripts[0])
        buffer_printf(c->notes,
                      "note: pre_install ran before a machine's set-up; it is the first script after it now.\n");
}

static void convert_tags(struct ini_conversion *c, const char *tags) {
    OWNED struct json *root = NULL;
    if (json_parse(&root, tags, strlen(tags), "tags") < 0 || root->type != JSON_OBJECT) {
        error_clear();
        buffer_printf(c->notes, "note: tags are not a JSON object and were left out.\n");
    } else if (root->count > 0) {
        buffer_append_string(c->out, "tag:\n");
        for (size_t i = 0; i < root->count; i++) {
            OWNED char *text = memory_printf("%s=%s", root->keys[i].string,
                                             root->items[i].type == JSON_STRING ? root->items[i].string : "");
            item(c, text);
        }
    }
}

static void convert_lists(struct ini_conversion *c, const char *cluster) {
    const char *tags = get(c, "cluster", cluster, "tags");
    OWNED_BY(string_list_free) struct string_list policies = {0};
    split_list(get(c, "cluster", cluster, "additional_iam_policies"), &policies);
    if (policies.count > 0 && strcmp(policies.items[0], "NONE") != 0) {
        buffer_append_string(c->out, "policy:\n");
        for (int64_t i = 0; i < policies.count; i++)
            item(c, policies.items[i]);
    }
    if (tags)
        convert_tags(c, tags);
}

// Keys that are obsolete, or were read only for their sections.
static bool is_idle(const struct ini_entry *entry) {
    static const char *const keys[] = {"vpc_id",           "update_check",   "sanity_check",   "cluster_template",
                                       "config_version",   "use_public_ips", "ssh_from",       "vpc_settings",
                                       "scaling_settings", "scheduler",      "enable_efa_gdr", "aws_access_key_id"};
    if (strcmp(entry->kind, "aliases") == 0 || strcmp(entry->kind, "global") == 0)
        return true;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(keys[i], entry->key) == 0)
            return true;
    return false;
}

static void note_rest(struct ini_conversion *c) {
    for (size_t i = 0; i < c->document->count; i++) {
        const struct ini_entry *entry = &c->document->entries[i];
        if (!entry->is_used && !is_idle(entry))
            buffer_printf(c->notes, "note: %s:%lld: %s of [%s%s%s] has no counterpart and was left out.\n", c->path,
                          (long long)entry->line, entry->key, entry->kind, *entry->name ? " " : "", entry->name);
    }
}

// The remote desktop. Its port is always 8443 now, and its addresses equal those of ssh.
static void convert_desktop(struct ini_conversion *c, const char *dcv) {
    const char *enabled = dcv ? get(c, "dcv", dcv, "enable") : NULL;
    if (enabled && strcmp(enabled, "master") == 0)
        buffer_append_string(c->out, "dcv: true\n");
    if (dcv && get(c, "dcv", dcv, "access_from"))
        buffer_printf(c->notes, "note: access_from of [dcv %s] was left out: the desktop is for allowed-ips.\n", dcv);
}

static void convert_head(struct ini_conversion *c, const char *cluster) {
    const char *vpc = get(c, "cluster", cluster, "vpc_settings");
    const char *scaling = get(c, "cluster", cluster, "scaling_settings");
    const char *os = get(c, "cluster", cluster, "base_os"), *head = NULL;
    copy(c, "aws", NULL, "aws_region_name", "region");
    if (os) {
        line(c, "os", parallelcluster_system(os));
        if (strcmp(os, parallelcluster_system(os)) != 0)
            buffer_printf(c->notes, "note: ParallelCluster no longer offers %s; os is %s.\n", os,
                          parallelcluster_system(os));
    }
    copy(c, "cluster", cluster, "custom_ami", "custom-ami");
    copy(c, "cluster", cluster, "key_name", "key");
    copy(c, "cluster", cluster, "master_instance_type", "head-node");
    convert_desktop(c, get(c, "cluster", cluster, "dcv_settings"));
    copy(c, "cluster", cluster, "master_root_volume_size", "head-disk");
    copy(c, "cluster", cluster, "compute_root_volume_size", "compute-disk");
    copy(c, "cluster", cluster, "ephemeral_dir", "scratch");
    if (vpc) {
        head = get(c, "vpc", vpc, "master_subnet_id");
        const char *compute = get(c, "vpc", vpc, "compute_subnet_id");
        line(c, "head-subnet", compute ? head : NULL);
        line(c, "subnet", compute ? compute : head);
        copy(c, "vpc", vpc, "additional_sg", "security-group");
        copy(c, "vpc", vpc, "ssh_from", "allowed-ips");
    }
    if (scaling)
        copy(c, "scaling", scaling, "scaledown_idletime", "idle-minutes");
}

// The cluster that [global] names, or the first one.
static const char *find_cluster(struct ini_conversion *c) {
    const char *wanted = get(c, "global", "", "cluster_template"), *first = NULL;
    for (size_t i = 0; i < c->document->count; i++) {
        const struct ini_entry *entry = &c->document->entries[i];
        if (strcmp(entry->kind, "cluster") != 0)
            continue;
        if (wanted && strcmp(entry->name, wanted) == 0)
            return entry->name;
        first = first ? first : entry->name;
    }
    return first;
}

int ini_convert(struct ini_document *document, const char *path, struct buffer *out, struct buffer *notes) {
    struct ini_conversion conversion = {document, path, out, notes}, *c = &conversion;
    const char *cluster = find_cluster(c);
    if (!cluster)
        return error_set_code(EXIT_CODE_USAGE,
                              "%s has no section [cluster …]; only configurations of ParallelCluster 2 are converted",
                              path);
    const char *scheduler = get(c, "cluster", cluster, "scheduler");
    if (scheduler && strcmp(scheduler, "slurm") != 0)
        buffer_printf(notes, "note: the scheduler was %s; it is Slurm now, and scripts of jobs must be for Slurm.\n",
                      scheduler);
    OWNED char *name = memory_string(*cluster ? cluster : "cluster");
    for (char *at = name; *at; at++)
        *at = (char)(isalnum((unsigned char)*at) ? *at : '-');
    line(c, "name", name);
    convert_head(c, cluster);
    convert_queues(c, cluster);
    convert_storage(c, cluster);
    convert_buckets(c, cluster);
    convert_scripts(c, cluster);
    convert_lists(c, cluster);
    note_rest(c);
    return 0;
}

// ---- reading ----

struct ini_reader {
    struct ini_document *document;
    const char *path;
    int64_t line;
    const char *kind, *name;  // of the section
    size_t capacity;
    bool has_value;  // the previous line belongs to a value of this section
};

static int refuse(const struct ini_reader *reader, const char *what) {
    return error_set_code(EXIT_CODE_USAGE, "%s:%lld: %s", reader->path, (long long)reader->line, what);
}

// Removes spaces at both ends, in place.
static char *trim(char *text) {
    text += strspn(text, " \t\r");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r", text[length - 1]))
        length--;
    text[length] = 0;
    return text;
}

static void cut_comment(char *line) {
    for (char *c = line; *c; c++)
        if ((*c == '#' || *c == ';') && (c == line || c[-1] == ' ' || c[-1] == '\t')) {
            *c = 0;
            return;
        }
}

static int read_section(struct ini_reader *reader, char *line) {
    char *end = strchr(line, ']');
    if (!end || *trim(end + 1))
        return refuse(reader, "a section is [NAME]");
    *end = 0;
    char *words = trim(line + 1), *space = words + strcspn(words, " \t");
    if (!*words)
        return refuse(reader, "a section without a name");
    reader->name = *space ? trim(space + 1) : "";
    *space = 0;
    reader->kind = words;
    reader->has_value = false;
    return 0;
}

// An indented line continues the value before it. Its words move to the end of that value, which is further to the
// front of the same text.
static int read_continuation(struct ini_reader *reader, const char *words) {
    struct ini_document *document = reader->document;
    if (!reader->has_value)
        return refuse(reader, "an indented line without a value before it");
    struct ini_entry *entry = &document->entries[document->count - 1];
    char *end = document->text + (entry->value - document->text) + strlen(entry->value);
    if (*entry->value)
        *end++ = ' ';
    memmove(end, words, strlen(words) + 1);
    return 0;
}

static int read_entry(struct ini_reader *reader, char *line) {
    char *equals = line + strcspn(line, "=:");
    if (!*equals)
        return refuse(reader, "neither a section nor `key = value`");
    if (!reader->kind)
        return refuse(reader, "a value before the first section");
    *equals = 0;
    struct ini_document *document = reader->document;
    MEMORY_GROW(document->entries, document->count, reader->capacity);
    struct ini_entry entry = {
        .kind = reader->kind, .name = reader->name, .key = trim(line), .value = trim(equals + 1), .line = reader->line};
    if (!*entry.key)
        return refuse(reader, "a value without a key");
    document->entries[document->count++] = entry;
    reader->has_value = true;
    return 0;
}

static int read_line(struct ini_reader *reader, char *line) {
    bool is_indented = *line == ' ' || *line == '\t';
    for (const char *c = line; *c; c++)
        if (iscntrl((unsigned char)*c) && *c != '\t' && *c != '\r')
            return refuse(reader, "a control character; this is not an INI file");
    cut_comment(line);
    line = trim(line);
    if (!*line)
        return 0;
    if (*line == '[')
        return read_section(reader, line);
    return is_indented && !strchr(line, '=') ? read_continuation(reader, line) : read_entry(reader, line);
}

int ini_parse(struct ini_document *document, const char *text, size_t length, const char *path) {
    *document = (struct ini_document){.text = memory_alloc(length + 1)};
    struct ini_reader reader = {.document = document, .path = path};
    if (memchr(text, 0, length))
        return error_set_code(EXIT_CODE_USAGE, "%s has NUL bytes; it is not an INI file", path);
    memcpy(document->text, text, length);
    for (char *line = document->text; line;) {
        char *end = strchr(line, '\n');
        if (end)
            *end = 0;
        reader.line++;
        TRY(read_line(&reader, line));
        line = end ? end + 1 : NULL;
    }
    return 0;
}

void ini_free(struct ini_document *document) {
    free(document->text);
    free(document->entries);
    *document = (struct ini_document){0};
}
