// bevatron cluster build-image: a machine image with bevatron in it.
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/cluster_commands.h"
#include "cli/commands.h"
#include "cluster/aws.h"
#include "cluster/machine.h"
#include "cluster/parallelcluster.h"
#include "config/flag_rows.h"

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

#define FLAG_STRUCT struct image_options

static const struct flag image_flags[] = {
    GROUP("The image"),
    TEXT("--image-id", image_id, NULL, "NAME", "name of the image in pcluster", .required = true),
    TEXT("--region", region, NULL, "REGION", "AWS region, e.g. us-west-2"),
    TEXT("--parent", parent, NULL, "AMI", "parent image"),
    TEXT("--instance-type", instance_type, "g5.xlarge", "TYPE",
         "instance type to build on; choose one with a GPU to test drivers"),
    TEXT("--subnet", subnet, NULL, "SUBNET", "subnet of the build machine"),
    LIST("--script", scripts, "URL",
         "script to run on it, s3://… or https://…, without arguments; examples/images/image-script.sh writes one that "
         "installs bevatron",
         .repeats_add = true),
    LIST("--policy", policies, "ARN",
         "IAM policies of the build machine; needed if the script reads other files from S3", .repeats_add = true),
    INT("--disk", disk, "60", 35, 16384, "disk of the image in GiB"),
    GROUP("Actions"),
    TEXT("--output", output, NULL, "FILE", "configuration file to write; default: NAME.image.yaml"),
    SWITCH("--dry-run", dry_run, "print the configuration and build nothing"),
    SWITCH("--yes", yes, "do not ask for confirmation"),
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
    static const struct flag_table table = {FLAG_TABLE(image_flags)};
    static const struct flag_command command = {
        .name = "cluster build-image",
        .summary = "Builds a machine image (AMI) for clusters with pcluster and EC2 Image Builder.",
        .tables = &table,
        .table_count = 1,
        .epilogue = "Example:\n  examples/images/image-script.sh bevatron.tar | aws s3 cp - s3://my-bucket/image.sh\n"
                    "  bevatron cluster build-image --image-id bevatron-1 --region us-west-2 --parent "
                    "ami-0123456789abcdef0 \\\n"
                    "    --script s3://my-bucket/image.sh\n"};
    struct image_options options;
    return command_run(&(struct command_call){.flags = &command, .options = &options, .run = build_image}, argc, argv);
}
