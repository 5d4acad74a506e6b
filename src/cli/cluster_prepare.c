// bevatron cluster prepare: finds the parts of a cluster in an AWS account (subnets in a zone that offers its machines,
// a key pair, a bucket, quotas) and adds them to the short file. Values already in the file stay, and are checked.
// Nothing is created without --create-key and --create-bucket.
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/cluster_commands.h"
#include "cli/commands.h"
#include "cluster/aws.h"
#include "cluster/machine.h"
#include "config/flag_rows.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LARGEST_FILE = 1 << 20, MOST_NAMES = 12 };

struct prepare_options {
    struct cluster_options cluster;
    struct flag_given given;
    char *vpc, *create_key, *create_bucket;
};

#define FLAG_STRUCT struct prepare_options

static const struct flag prepare_flags[] = {
    GROUP("What to find"),
    TEXT("--vpc", vpc, NULL, "VPC", "VPC whose subnets are used; default: any"),
    TEXT("--create-key", create_key, NULL, "NAME", "create this EC2 key pair; its private key goes to ~/.ssh/NAME.pem"),
    TEXT("--create-bucket", create_bucket, NULL, "NAME", "create this S3 bucket"),
};

// Findings, as lines of the file, and missing parts.
struct cluster_preparation {
    const struct prepare_options *options;
    struct buffer lines, missing;
};

static int ask(const struct cluster_preparation *p, const char *const *words, struct json **answer) {
    const char *all[24];
    int n = 0;
    while (*words)
        all[n++] = *words++;
    if (p->options->cluster.region) {
        all[n++] = "--region";
        all[n++] = p->options->cluster.region;
    }
    all[n++] = "--output";
    all[n++] = "json";
    all[n] = NULL;
    return aws_run(all, answer);
}

// A line of the file, its value between quotes.
static void add_line(struct buffer *out, const char *key, const char *value, const char *comment) {
    buffer_printf(out, "%s: \"", key);
    for (const char *c = value; *c; c++) {
        if (*c == '"' || *c == '\\')
            buffer_append_byte(out, '\\');
        buffer_append_byte(out, *c);
    }
    buffer_printf(out, "\"%s%s\n", comment ? "   # " : "", comment ? comment : "");
}

static void lacks(struct cluster_preparation *p, const char *what) {
    buffer_printf(&p->missing, "%s%s", p->missing.length ? "; " : "", what);
}

static bool has_name(const struct string_list *names, const char *name) {
    for (int64_t i = 0; i < names->count; i++)
        if (strcmp(names->items[i], name) == 0)
            return true;
    return false;
}

// All types of the queues, each once, and whether one of them has several network cards.
static int collect_types(const struct string_list *queues, struct string_list *types, bool *needs_private) {
    for (int64_t i = 0; i < queues->count; i++) {
        OWNED_BY(cluster_queue_free) struct cluster_queue queue = {0};
        TRY(cluster_queue_parse(&queue, queues->items[i]));
        for (int k = 0; k < queue.type_count; k++) {
            const struct machine *machine = machine_look_up(queue.types[k]);
            *needs_private = *needs_private || (machine && machine->efa > 1);
            if (!has_name(types, queue.types[k]))
                string_list_add(types, queue.types[k]);
        }
    }
    return 0;
}

static int find_zones(const struct cluster_preparation *p, const struct string_list *types, struct string_list *zones) {
    if (types->count == 0)
        return 0;
    OWNED_BY(buffer_free) struct buffer filter = {0};
    buffer_append_string(&filter, "Name=instance-type,Values=");
    for (int64_t i = 0; i < types->count; i++)
        buffer_printf(&filter, "%s%s", i ? "," : "", types->items[i]);
    const char *const words[] = {"aws",
                                 "ec2",
                                 "describe-instance-type-offerings",
                                 "--location-type",
                                 "availability-zone",
                                 "--filters",
                                 buffer_string(&filter),
                                 NULL};
    OWNED struct json *answer = NULL;
    TRY(ask(p, words, &answer));
    account_zones(answer, types, zones);
    if (zones->count > 0)
        return 0;
    return error_set("no zone of %s offers all of the queues' machines (%s); choose another region or other types",
                     p->options->cluster.region, buffer_string(&filter) + strlen("Name=instance-type,Values="));
}

static int choose_subnets(struct cluster_preparation *p, const struct json *subnets, const struct json *tables,
                          const struct account_wish *wish) {
    struct account_subnets all;
    const struct account_subnet *chosen[2];
    OWNED_BY(buffer_free) struct buffer notes = {0};
    int status = account_read_subnets(subnets, tables, &all);
    if (status == 0)
        status = account_choose(&all, wish, chosen, &notes);
    for (int i = 0; status == 0 && i < 2; i++) {
        OWNED char *comment =
            memory_printf("%s, %s, %s", chosen[i]->is_public ? "public" : "private", chosen[i]->zone, chosen[i]->vpc);
        if (i == 0 ? !wish->head : !wish->compute)
            add_line(&p->lines, i == 0 ? "head-subnet" : "subnet", chosen[i]->id, comment);
    }
    fputs(buffer_string(&notes), stderr);
    free(all.items);
    return status;
}

static int find_subnets(struct cluster_preparation *p) {
    const struct cluster_options *cluster = &p->options->cluster;
    OWNED_BY(string_list_free) struct string_list types = {0}, zones = {0};
    struct account_wish wish = {.zones = &zones, .head = cluster->head_subnet, .compute = cluster->subnet};
    OWNED char *filter = p->options->vpc ? memory_printf("Name=vpc-id,Values=%s", p->options->vpc) : NULL;
    const char *const subnet_words[] = {"aws", "ec2", "describe-subnets", filter ? "--filters" : NULL, filter, NULL};
    const char *const table_words[] = {"aws", "ec2", "describe-route-tables", NULL};
    OWNED struct json *subnets = NULL, *tables = NULL;
    TRY(collect_types(&cluster->queues, &types, &wish.needs_private));
    TRY(find_zones(p, &types, &zones));
    TRY(ask(p, subnet_words, &subnets));
    TRY(ask(p, table_words, &tables));
    return choose_subnets(p, subnets, tables, &wish);
}

static void names_of(const struct json *answer, const char *list, const char *key, struct string_list *names) {
    const struct json *items = json_member(answer, list);
    for (size_t i = 0; items && items->type == JSON_ARRAY && i < items->count; i++)
        if (*cluster_text(&items->items[i], key))
            string_list_add(names, cluster_text(&items->items[i], key));
}

// "a key pair: give --key, one of x, y"
static void lacks_choice(struct cluster_preparation *p, const char *what, const struct string_list *names) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    buffer_append_string(&text, what);
    for (int64_t i = 0; i < names->count && i < MOST_NAMES; i++)
        buffer_printf(&text, "%s%s", i ? ", " : " ", names->items[i]);
    if (names->count > MOST_NAMES)
        buffer_printf(&text, " and %" PRId64 " more", names->count - MOST_NAMES);
    lacks(p, buffer_string(&text));
}

static char *key_path(const char *name, const char *suffix) {
    const char *home = getenv("HOME");
    return memory_printf("%s/.ssh/%s%s", home ? home : ".", name, suffix);
}

// The file is created first: a key whose private half cannot be stored would be lost.
static int create_key(struct cluster_preparation *p) {
    const char *name = p->options->create_key;
    if (strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != strlen(name))
        return error_set_code(EXIT_CODE_USAGE, "--create-key \"%s\": use letters, digits, '.', '_' and '-'", name);
    const char *const words[] = {"aws", "ec2", "create-key-pair", "--key-name", name, NULL};
    OWNED char *folder = key_path("", ""), *path = key_path(name, ".pem");
    mkdir(folder, 0700);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), status = 0;
    OWNED struct json *answer = NULL;
    if (file < 0)
        status =
            error_set("cannot create %s: %s; choose another name, or use that key with --key", path, strerror(errno));
    if (status == 0)
        status = ask(p, words, &answer);
    const char *text = cluster_text(answer, "KeyMaterial");
    size_t length = strlen(text);
    if (status == 0 && (length == 0 || write(file, text, length) != (ssize_t)length || fsync(file) != 0))
        status = error_set("cannot write the private key to %s; delete the key pair (`aws ec2 delete-key-pair "
                           "--key-name %s`) and try again",
                           path, name);
    if (file >= 0) {
        close(file);
        if (status < 0)
            unlink(path);
    }
    if (status == 0) {
        add_line(&p->lines, "key", name, path);
        fprintf(stderr, "created the key pair %s; its private key is in %s\n", name, path);
    }
    return status;
}

// The key whose private half is on this machine, or the only one.
static const char *choose_key(const struct string_list *names) {
    const char *found = names->count == 1 ? names->items[0] : NULL;
    for (int64_t i = 0; !found && i < names->count; i++) {
        OWNED char *plain = key_path(names->items[i], ""), *pem = key_path(names->items[i], ".pem");
        if (file_exists(plain) || file_exists(pem))
            found = names->items[i];
    }
    return found;
}

static int find_key(struct cluster_preparation *p) {
    const char *given = p->options->cluster.key;
    if (p->options->create_key && !p->options->cluster.dry_run)
        return create_key(p);
    const char *const words[] = {"aws", "ec2", "describe-key-pairs", NULL};
    OWNED_BY(string_list_free) struct string_list names = {0};
    OWNED struct json *answer = NULL;
    TRY(ask(p, words, &answer));
    names_of(answer, "KeyPairs", "KeyName", &names);
    const char *found = given ? NULL : choose_key(&names);
    if (given && !has_name(&names, given)) {
        OWNED char *text = memory_printf("the key pair %s does not exist; there are:", given);
        lacks_choice(p, text, &names);
    } else if (found) {
        add_line(&p->lines, "key", found, NULL);
    } else if (!given && names.count > 0) {
        lacks_choice(p, "a key pair: give --key, one of", &names);
    } else if (!given) {
        lacks(p, "a key pair: there is none in this region; --create-key NAME makes one");
    }
    return 0;
}

static int create_bucket(struct cluster_preparation *p) {
    const char *region = p->options->cluster.region, *name = p->options->create_bucket;
    // S3 has no name for its first region.
    bool is_first = strcmp(region, "us-east-1") == 0;
    OWNED char *place = memory_printf("LocationConstraint=%s", region);
    const char *const words[] = {"aws",      "s3api", "create-bucket",
                                 "--bucket", name,    is_first ? NULL : "--create-bucket-configuration",
                                 place,      NULL};
    OWNED struct json *answer = NULL;
    TRY(ask(p, words, &answer));
    fprintf(stderr, "created the bucket %s\n", name);
    return 0;
}

static bool is_in_region(const struct cluster_preparation *p, const char *bucket) {
    const char *const words[] = {"aws", "s3api", "get-bucket-location", "--bucket", bucket, NULL};
    OWNED struct json *answer = NULL;
    if (ask(p, words, &answer) < 0) {
        error_clear();
        return false;
    }
    const char *place = cluster_text(answer, "LocationConstraint");
    return strcmp(*place ? place : "us-east-1", p->options->cluster.region) == 0;
}

// FSx is linked to a bucket if the file has a new FSx file system without one.
static void add_bucket(struct cluster_preparation *p, const char *name) {
    const struct cluster_options *cluster = &p->options->cluster;
    if (cluster->fsx && !cluster->fsx_id && !cluster->fsx_s3) {
        OWNED char *url = memory_printf("s3://%s", name);
        add_line(&p->lines, "fsx-s3", url, NULL);
    } else {
        add_line(&p->lines, "bucket", name, NULL);
    }
}

static int find_bucket(struct cluster_preparation *p) {
    const struct cluster_options *cluster = &p->options->cluster;
    if (p->options->create_bucket && !cluster->dry_run) {
        TRY(create_bucket(p));
        add_bucket(p, p->options->create_bucket);
        return 0;
    }
    if (cluster->buckets.count > 0 || cluster->fsx_s3)
        return 0;
    const char *const words[] = {"aws", "s3api", "list-buckets", NULL};
    OWNED_BY(string_list_free) struct string_list names = {0}, here = {0};
    OWNED struct json *answer = NULL;
    TRY(ask(p, words, &answer));
    names_of(answer, "Buckets", "Name", &names);
    for (int64_t i = 0; i < names.count && here.count < 2 * MOST_NAMES; i++)
        if (is_in_region(p, names.items[i]))
            string_list_add(&here, names.items[i]);
    if (here.count == 1)
        add_bucket(p, here.items[0]);
    else if (here.count > 1)
        lacks_choice(p, "a bucket: give --bucket, one of", &here);
    else
        lacks(p, "a bucket: there is none in this region; --create-bucket NAME makes one");
    return 0;
}

// Compares the processors of a full queue with the quota. A quota that cannot be read is ignored.
static void check_quota(struct cluster_preparation *p, const struct cluster_queue *queue) {
    const struct machine *machine = machine_look_up(queue->types[0]);
    const struct account_quota *quota = account_quota_of(queue->types[0]);
    if (!machine || !quota || queue->is_capacity_block)
        return;
    const char *code = queue->is_spot ? quota->spot_code : quota->code;
    const char *const words[] = {
        "aws", "service-quotas", "get-service-quota", "--service-code", "ec2", "--quota-code", code, NULL};
    OWNED struct json *answer = NULL;
    if (ask(p, words, &answer) < 0) {
        fprintf(stderr, "note: queue %s: its quota (%s) cannot be read: %s\n", queue->name, code, error_message());
        error_clear();
        return;
    }
    const struct json *value = json_member(json_member(answer, "Quota"), "Value");
    int64_t needed = queue->most * machine->cpus;
    if (value && value->type == JSON_NUMBER && value->number < (double)needed)
        fprintf(stderr,
                "note: queue %s: %" PRId64 " × %s have %" PRId64
                " vCPUs, but the quota of %s is %.0f. Ask for more: aws "
                "service-quotas request-service-quota-increase --service-code ec2 --quota-code %s --desired-value "
                "%" PRId64 " --region %s\n",
                queue->name, queue->most, queue->types[0], needed, quota->name, value->number, code, needed,
                p->options->cluster.region);
    else if (value && value->type == JSON_NUMBER)
        fprintf(stderr, "queue %s: %" PRId64 " vCPUs, within the quota of %s (%.0f)\n", queue->name, needed,
                quota->name, value->number);
}

static void check_quotas(struct cluster_preparation *p) {
    const struct string_list *queues = &p->options->cluster.queues;
    for (int64_t i = 0; i < queues->count; i++) {
        OWNED_BY(cluster_queue_free) struct cluster_queue queue = {0};
        if (cluster_queue_parse(&queue, queues->items[i]) == 0)
            check_quota(p, &queue);
    }
}

// Flags of the command line that are not in the file are written into it, too.
static void add_given(struct cluster_preparation *p, const struct flag_given *before) {
    const struct cluster_options *cluster = &p->options->cluster;
    const struct flag *flag;
    for (size_t i = 0; (flag = flag_at(&cluster->given.rows, i)); i++) {
        if (cluster->given.source[i] != FLAG_FROM_COMMAND || (flag->uses & CLUSTER_ACTION) ||
            (before && before->source[i] != FLAG_FROM_DEFAULT))
            continue;
        if (flag->type == FLAG_STRING_LIST) {
            const struct string_list *list =
                (const struct string_list *)(const void *)((const char *)cluster + flag->offset);
            buffer_printf(&p->lines, "%s:\n", flag->name + 2);
            for (int64_t k = 0; k < list->count; k++) {
                OWNED_BY(buffer_free) struct buffer item = {0};
                add_line(&item, "", list->items[k], NULL);
                buffer_printf(&p->lines, "  - %s", buffer_string(&item) + 2);
            }
            continue;
        }
        OWNED_BY(buffer_free) struct buffer value = {0};
        flag_format(flag, cluster, &value);
        add_line(&p->lines, flag->name + 2, buffer_string(&value), NULL);
    }
}

static int find_all(struct cluster_preparation *p) {
    if (!p->options->cluster.region)
        return error_set_code(EXIT_CODE_USAGE, "no region given; give --region, e.g. us-west-2");
    TRY(find_subnets(p));
    TRY(find_key(p));
    TRY(find_bucket(p));
    if (cluster_has_made_up_bucket(&p->options->cluster))
        lacks(p, "a bucket of yours: write its name in place of the example's my-ml-bucket, everywhere in the file");
    check_quotas(p);
    return 0;
}

// The last file of --config; NULL if there is none.
static const char *config_path(int argc, char **argv) {
    const char *path = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--config") == 0 && i + 1 < argc)
            path = argv[i + 1];
        else if (strncmp(argv[i], "--config=", 9) == 0)
            path = argv[i] + 9;
    }
    return path;
}

// Only YAML files can be appended to.
static bool is_json(const struct buffer *text) {
    const char *start = text->length > 0 ? text->data : "";
    size_t mark = text->length >= 3 && strncmp(start, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    return start[mark + strspn(start + mark, " \t\r\n")] == '{';
}

// The text of the file, if it exists, and the new lines. -1 if it could not be read.
static int join_lines(const struct flag_command *command, const char *path, struct buffer *text,
                      const struct buffer *lines) {
    struct prepare_options options;
    if (text->length > 0 && text->data[text->length - 1] != '\n')
        buffer_append_byte(text, '\n');
    buffer_append(text, lines->data, lines->length);
    flags_set_defaults(command, &options);
    int status = flags_read_text(command, &options, path, buffer_string(text), text->length);
    if (status < 0)
        status = error_set_code(EXIT_CODE_USAGE, "nothing was written, because %s could not be read with new lines: %s",
                                path, error_message());
    flags_free(command, &options);
    return status;
}

// Parts to be created must have a place in the file.
static int check_place(const struct flag_command *command, const struct cluster_preparation *p, const char *path,
                       const struct buffer *text) {
    const struct prepare_options *options = p->options;
    struct cluster_preparation probe = {.options = options};
    OWNED_BY(buffer_free) struct buffer joined = {0};
    buffer_append(&joined, text->data, text->length);
    buffer_append(&probe.lines, p->lines.data, p->lines.length);
    if (options->create_key)
        add_line(&probe.lines, "key", options->create_key, NULL);
    if (options->create_bucket)
        add_bucket(&probe, options->create_bucket);
    int status = join_lines(command, path, &joined, &probe.lines);
    buffer_free(&probe.lines);
    return status;
}

// Refuses files that could not be written, before AWS is called.
static int check_request(const struct flag_command *command, const struct cluster_preparation *p, const char *path,
                         const struct buffer *text) {
    const struct prepare_options *options = p->options;
    const struct cluster_options *cluster = &options->cluster;
    if (is_json(text) && !cluster->dry_run)
        return error_set_code(EXIT_CODE_USAGE,
                              "%s is JSON, to which lines cannot be added; convert it to YAML (`flag: value` lines), "
                              "or print the lines with --dry-run",
                              path);
    if (options->create_key && cluster->key)
        return error_set_code(EXIT_CODE_USAGE, "--create-key %s: the key pair is given already (key: %s); remove one",
                              options->create_key, cluster->key);
    if (options->create_bucket && (cluster->fsx_s3 || cluster->buckets.count > 0))
        return error_set_code(EXIT_CODE_USAGE, "--create-bucket %s: a bucket is given already (%s: %s); remove one",
                              options->create_bucket, cluster->fsx_s3 ? "fsx-s3" : "bucket",
                              cluster->fsx_s3 ? cluster->fsx_s3 : cluster->buckets.items[0]);
    return cluster->dry_run ? 0 : check_place(command, p, path, text);
}

static int write_lines(const struct flag_command *command, const struct cluster_preparation *p, const char *path,
                       struct buffer *text) {
    if (p->options->cluster.dry_run) {
        fputs(buffer_string(&p->lines), stdout);
        return 0;
    }
    if (p->lines.length == 0) {
        fprintf(stderr, "%s already has everything that was found\n", path);
        return 0;
    }
    fprintf(stderr, "%s", buffer_string(&p->lines));
    TRY(join_lines(command, path, text, &p->lines));
    TRY(file_write_all(path, text->data, text->length));
    fprintf(stderr, "written to %s; next: bevatron cluster render --config %s\n", path, path);
    return 0;
}

static int prepare(const struct flag_command *command, struct prepare_options *options, const char *config) {
    const char *path = config ? config : options->cluster.output;
    struct cluster_preparation p = {.options = options};
    struct prepare_options before;
    OWNED_BY(buffer_free) struct buffer text = {0};
    if (!path)
        return error_set_code(EXIT_CODE_USAGE,
                              "give --config FILE, the short file to complete, or --output FILE for a new one");
    if (!config && file_exists(path))
        return error_set_code(EXIT_CODE_USAGE, "%s already exists; complete it with --config %s", path, path);
    flags_set_defaults(command, &before);
    int status = config ? file_read_all(config, LARGEST_FILE, &text) : 0;
    if (status == 0 && !is_json(&text))
        cluster_drop_made_up(&options->cluster, &text);
    if (status == 0 && config)
        status = flags_read_text(command, &before, config, buffer_string(&text), text.length);
    if (status == 0) {
        add_given(&p, config ? &before.cluster.given : NULL);
        status = check_request(command, &p, path, &text);
    }
    if (status == 0)
        status = find_all(&p);
    if (status == 0)
        status = write_lines(command, &p, path, &text);
    if (status == 0 && p.missing.length > 0)
        status = error_set("still missing: %s", buffer_string(&p.missing));
    flags_free(command, &before);
    buffer_free(&p.lines);
    buffer_free(&p.missing);
    return status;
}

int cmd_cluster_prepare(int argc, char **argv) {
    const struct flag_table tables[] = {cluster_flag_table(0), {FLAG_TABLE(prepare_flags)}};
    const struct flag_command command = {
        .name = "cluster prepare",
        .summary =
            "Finds subnets, a key pair and a bucket in your AWS account, compares quotas with the queues, and adds "
            "what is missing to the short file of a cluster.",
        .tables = tables,
        .table_count = 2,
        .epilogue =
            "Examples:\n"
            "  bevatron cluster prepare --config llm.yaml\n"
            "  bevatron cluster prepare --name llm --region us-west-2 --queue \"gpu p4d.24xlarge 0-16 efa "
            "placement-group\" \\\n    --fsx /fsx --create-key llm --create-bucket my-llm-data --output llm.yaml\n"};
    struct prepare_options options;
    int status = flags_parse(&command, &options, argc, argv), exit_code = EXIT_CODE_OK;
    if (status == 0)
        status = prepare(&command, &options, config_path(argc, argv));
    if (status < 0)
        exit_code = command_failed();
    flags_free(&command, &options);
    return exit_code;
}
