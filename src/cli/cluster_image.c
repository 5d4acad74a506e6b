// bevatron cluster build-image: a machine image with bevatron in it.
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/cluster_commands.h"
#include "cli/commands.h"
#include "cluster/aws.h"
#include "cluster/machine.h"
#include "cluster/parallelcluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct image_options {
    struct flag_given given;
    char *image_id, *region, *parent, *instance_type, *subnet, *output;
    struct string_list scripts, policies;
    int64_t disk;
    bool yes, dry_run;
};

#define OFFSET(member) offsetof(struct image_options, member)
#define TEXT(flag, member, start, value, text)                                                                         \
    { .name = flag, .type = FLAG_STRING, .offset = OFFSET(member), .initial = start, .value_name = value, .help = text }
#define SWITCH(flag, member, text)                                                                                     \
    { .name = flag, .type = FLAG_BOOL, .offset = OFFSET(member), .help = text }

static const struct flag image_flags[] = {
    {.name = "The image", .type = FLAG_GROUP},
    {.name = "--image-id",
     .type = FLAG_STRING,
     .offset = OFFSET(image_id),
     .value_name = "NAME",
     .required = true,
     .help = "what pcluster calls it"},
    TEXT("--region", region, NULL, "REGION", "as us-west-2"),
    TEXT("--parent", parent, NULL, "AMI", "the image it is made from"),
    TEXT("--instance-type", instance_type, "g5.xlarge", "TYPE",
         "the machine it is made on; one with a GPU where drivers are to be tried"),
    TEXT("--subnet", subnet, NULL, "SUBNET", "subnet of that machine"),
    {.name = "--script",
     .type = FLAG_STRING_LIST,
     .offset = OFFSET(scripts),
     .value_name = "URL",
     .repeats_add = true,
     .help =
         "what is run on it, s3://… or https://…, without arguments; examples/images/image-script.sh makes one that "
         "installs bevatron"},
    {.name = "--policy",
     .type = FLAG_STRING_LIST,
     .offset = OFFSET(policies),
     .value_name = "ARN",
     .repeats_add = true,
     .help = "policies of IAM for that machine; without one, scripts read nothing else from S3"},
    {.name = "--disk",
     .type = FLAG_INT,
     .offset = OFFSET(disk),
     .initial = "60",
     .minimum = 35,
     .maximum = 16384,
     .help = "its size, GiB"},
    {.name = "Doing it", .type = FLAG_GROUP},
    TEXT("--output", output, NULL, "FILE", "where the configuration is written; NAME.image.yaml by default"),
    SWITCH("--dry-run", dry_run, "prints the configuration and builds nothing"),
    SWITCH("--yes", yes, "does not ask"),
};

static int submit_image(const struct image_options *options, const struct buffer *yaml) {
    char *path = options->output ? memory_string(options->output) : memory_printf("%s.image.yaml", options->image_id);
    const char *const words[] = {"pcluster",        "build-image",           "--image-id",
                                 options->image_id, "--image-configuration", path,
                                 "--region",        options->region,         NULL};
    struct json *answer = NULL;
    int status = cluster_write_file(path, yaml);
    if (status == 0)
        status = aws_run(words, &answer);
    if (status == 0)
        fprintf(stderr,
                "%s: %s; it takes an hour or so (`pcluster describe-image --image-id %s --region %s` gives the AMI for "
                "--custom-ami)\n",
                options->image_id, cluster_text(json_member(answer, "image"), "imageBuildStatus"), options->image_id,
                options->region);
    json_free(answer);
    free(path);
    return status;
}

static int build_image(void *given) {
    const struct image_options *options = given;
    struct parallelcluster_image image = {.id = options->image_id,
                                          .region = options->region,
                                          .parent = options->parent,
                                          .instance_type = options->instance_type,
                                          .subnet = options->subnet,
                                          .scripts = &options->scripts,
                                          .policies = &options->policies,
                                          .disk_gib = options->disk};
    struct buffer yaml = {0};
    int status = parallelcluster_image_yaml(&image, &yaml);
    double price = machine_price(options->instance_type);
    if (status == 0 && options->dry_run) {
        fputs(buffer_string(&yaml), stdout);
    } else if (status == 0) {
        if (price > 0)
            fprintf(stderr, "A %s works for about an hour: %.2f dollars. %s\n", options->instance_type, price,
                    machine_price_note());
        status = cluster_confirm("Build it?", options->yes);
        if (status == 0)
            status = submit_image(options, &yaml);
    }
    buffer_free(&yaml);
    return status;
}

int cluster_build_image(int argc, char **argv) {
    static const struct flag_table table = {.flags = image_flags,
                                            .count = sizeof image_flags / sizeof image_flags[0],
                                            .given = offsetof(struct image_options, given)};
    static const struct flag_command command = {
        .name = "cluster build-image",
        .summary = "Makes a machine image (AMI) for clusters, through pcluster and EC2 Image Builder.",
        .tables = &table,
        .table_count = 1,
        .epilogue = "Example:\n  examples/images/image-script.sh bevatron.tar | aws s3 cp - s3://my-bucket/image.sh\n"
                    "  bevatron cluster build-image --image-id bevatron-1 --region us-west-2 --parent "
                    "ami-0123456789abcdef0 \\\n"
                    "    --script s3://my-bucket/image.sh\n"};
    struct image_options options;
    return command_run(&(struct command_call){.flags = &command, .options = &options, .run = build_image}, argc, argv);
}
