// bevatron cluster build-image, push-image: images of machines and of containers that contain bevatron.
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/process.h"
#include "cli/cluster_commands.h"
#include "cli/commands.h"
#include "cluster/aws.h"
#include "cluster/machine.h"
#include "cluster/parallelcluster.h"
#include "cluster/shell.h"
#include "config/flag_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- machine images ----

// bevatron cluster build-image: a machine image with bevatron in it.

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
    OWNED char *path =
        options->output ? memory_string(options->output) : memory_printf("%s.image.yaml", options->image_id);
    const char *const words[] = {"pcluster",        "build-image",           "--image-id",
                                 options->image_id, "--image-configuration", path,
                                 "--region",        options->region,         NULL};
    OWNED struct json *answer = NULL;
    TRY(cluster_write_file(path, yaml));
    TRY(aws_run(words, &answer));
    fprintf(stderr,
            "%s: %s; it takes an hour or so (`pcluster describe-image --image-id %s --region %s` gives the AMI for "
            "--custom-ami)\n",
            options->image_id, cluster_text(json_member(answer, "image"), "imageBuildStatus"), options->image_id,
            options->region);
    return 0;
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
    OWNED_BY(buffer_free) struct buffer yaml = {0};
    TRY(parallelcluster_image_yaml(&image, &yaml));
    if (options->dry_run) {
        fputs(buffer_string(&yaml), stdout);
        return 0;
    }
    double price = machine_price(options->instance_type);
    if (price > 0)
        fprintf(stderr, "A %s works for about an hour: %.2f dollars. %s\n", options->instance_type, price,
                machine_price_note());
    TRY(cluster_confirm("Build it?", options->yes));
    return submit_image(options, &yaml);
}

const struct command cmd_cluster_build_image = {
    .flags = {.name = "cluster build-image",
              .summary = "Builds a machine image (AMI) for clusters with pcluster and EC2 Image Builder.",
              .epilogue =
                  "Example:\n  examples/images/image-script.sh bevatron.tar | aws s3 cp - s3://my-bucket/image.sh\n"
                  "  bevatron cluster build-image --image-id bevatron-1 --region us-west-2 --parent "
                  "ami-0123456789abcdef0 \\\n"
                  "    --script s3://my-bucket/image.sh\n"},
    .tables = {{FLAG_TABLE(image_flags)}},
    .options_bytes = sizeof(struct image_options),
    .run = build_image,
};

// ---- container images ----

struct push_options {
    struct flag_given given;
    char *image, *repository, *tag, *registry, *region, *account, *tool;
    bool print;
};

#undef FLAG_STRUCT
#define FLAG_STRUCT struct push_options

static const struct flag push_flags[] = {
    GROUP("The image"),
    TEXT("--image", image, "bevatron:latest", "IMAGE", "image on this machine"),
    TEXT("--repository", repository, "bevatron", "NAME",
         "its repository in the registry; created in ECR if it is missing"),
    TEXT("--tag", tag, NULL, "TAG", "its tag there; default: that of --image, or latest"),
    TEXT("--registry", registry, NULL, "HOST[/PATH]", "another registry than ECR, to which the tool is logged in"),
    TEXT("--region", region, NULL, "REGION", "AWS region of ECR, e.g. us-west-2"),
    TEXT("--account", account, NULL, "NUMBER", "AWS account of ECR; default: that of your credentials"),
    TEXT("--tool", tool, "docker", "PROGRAM", "container tool: docker, podman, nerdctl or finch"),
    SWITCH("--print", print, "print the commands and do not run them"),
};

struct push {
    const struct push_options *options;
    char *registry, *target;  // "…amazonaws.com", "REGISTRY/REPOSITORY:TAG"
};

static int find_account(const struct push_options *options, char **account) {
    if (options->account || options->print) {
        *account = memory_string(options->account ? options->account : "ACCOUNT");
        return 0;
    }
    const char *const words[] = {"aws", "sts", "get-caller-identity", "--output", "json", NULL};
    OWNED struct json *answer = NULL;
    TRY(aws_run(words, &answer));
    *account = memory_string(cluster_text(answer, "Account"));
    return **account ? 0 : error_set("aws sts get-caller-identity names no account");
}

static int name_target(struct push *push) {
    const struct push_options *options = push->options;
    const char *slash = strrchr(options->image, '/'), *colon = strchr(slash ? slash : options->image, ':');
    const char *tag = options->tag ? options->tag : colon ? colon + 1 : "latest";
    if (options->registry) {
        push->registry = memory_string(options->registry);
    } else {
        OWNED char *account = NULL;
        if (!options->region)
            return error_set_code(EXIT_CODE_USAGE, "ECR needs --region; for another registry give --registry");
        TRY(find_account(options, &account));
        push->registry = memory_printf("%s.dkr.ecr.%s.amazonaws.com%s", account, options->region,
                                       strncmp(options->region, "cn-", 3) == 0 ? ".cn" : "");
    }
    push->target = memory_printf("%s/%s:%s", push->registry, options->repository, tag);
    return 0;
}

// Runs a command, its words ended by NULL; `output` (may be NULL) gets its stdout.
static int step(const char *const *words, const char *input, struct buffer *output) {
    OWNED_BY(process_result_free) struct process_result result = {0};
    if (process_run(words, input, &result) < 0)
        return error_set("%s; name the container tool with --tool, or print the commands with --print",
                         error_message());
    int status = 0;
    if (result.exit_code != 0) {
        const char *text = buffer_string(&result.errors);
        const char *remedy = aws_remedy(text);
        status = error_set("%s %s: %.*s%s%s", words[0], words[1], (int)strcspn(text, "\n"), text, remedy ? "; " : "",
                           remedy ? remedy : "");
    } else if (output) {
        buffer_append(output, result.output.data, result.output.length);
    } else {
        fputs(buffer_string(&result.output), stderr);
    }
    return status;
}

// Creates the repository if it does not exist.
static int make_repository(const struct push_options *options) {
    const char *const words[] = {"aws",
                                 "ecr",
                                 "create-repository",
                                 "--repository-name",
                                 options->repository,
                                 "--region",
                                 options->region,
                                 "--output",
                                 "json",
                                 NULL};
    OWNED struct json *answer = NULL;
    int status = aws_run(words, &answer);
    if (status < 0 && strstr(error_message(), "RepositoryAlreadyExists")) {
        error_clear();
        status = 0;
    }
    return status;
}

static int log_in(const struct push *push) {
    const struct push_options *options = push->options;
    const char *const ask[] = {"aws", "ecr", "get-login-password", "--region", options->region, NULL};
    const char *const give[] = {options->tool, "login", "--username", "AWS", "--password-stdin", push->registry, NULL};
    OWNED_BY(buffer_free) struct buffer password = {0};
    int status = step(ask, NULL, &password);
    if (status == 0)
        status = step(give, buffer_string(&password), NULL);
    // Erases the password from memory.
    if (password.data)
        memset(password.data, 0, password.length);
    return status;
}

static void print_line(const char *const *words, const char *ending) {
    OWNED_BY(buffer_free) struct buffer line = {0};
    for (int i = 0; words[i]; i++) {
        if (i > 0)
            buffer_append_byte(&line, ' ');
        shell_word(&line, words[i]);
    }
    printf("%s%s", buffer_string(&line), ending);
}

static void print_steps(const struct push *push, const char *const *tag, const char *const *send) {
    const struct push_options *options = push->options;
    if (!options->registry) {
        const char *const create[] = {
            "aws",           "ecr", "create-repository", "--repository-name", options->repository, "--region",
            options->region, NULL};
        const char *const ask[] = {"aws", "ecr", "get-login-password", "--region", options->region, NULL};
        const char *const give[] = {options->tool,      "login",        "--username", "AWS",
                                    "--password-stdin", push->registry, NULL};
        print_line(create, "\n");
        print_line(ask, " | ");
        print_line(give, "\n");
    }
    print_line(tag, "\n");
    print_line(send, "\n");
}

static void push_free(struct push *push) {
    free(push->registry);
    free(push->target);
}

static int push_image(void *given) {
    OWNED_BY(push_free) struct push push = {.options = given};
    const struct push_options *options = given;
    TRY(name_target(&push));
    const char *const tag[] = {options->tool, "tag", options->image, push.target, NULL};
    const char *const send[] = {options->tool, "push", push.target, NULL};
    if (options->print) {
        print_steps(&push, tag, send);
        return 0;
    }
    if (!options->registry) {
        TRY(make_repository(options));
        TRY(log_in(&push));
    }
    TRY(step(tag, NULL, NULL));
    TRY(step(send, NULL, NULL));
    puts(push.target);
    return 0;
}

const struct command cmd_cluster_push_image = {
    .flags =
        {.name = "cluster push-image",
         .summary =
             "Tags a container image, logs in to Amazon's registry (ECR) and pushes the image there; prints its name "
             "for launch kubernetes --image.",
         .epilogue =
             "Examples:\n"
             "  docker build -f examples/images/Dockerfile -t bevatron .\n"
             "  bevatron cluster push-image --region us-west-2 --tag v1\n"
             "  bevatron cluster push-image --registry ghcr.io/my-team\n"
             "EKS nodes can pull from their account's ECR. For another registry, create a secret once and name it:\n"
             "  kubectl create secret docker-registry my-registry --docker-server=ghcr.io --docker-username=me "
             "--docker-password=…\n"
             "  bevatron launch kubernetes --pull-secret my-registry --image ghcr.io/my-team/bevatron:latest …\n"},
    .tables = {{FLAG_TABLE(push_flags)}},
    .options_bytes = sizeof(struct push_options),
    .run = push_image,
};
