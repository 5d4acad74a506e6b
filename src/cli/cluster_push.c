// bevatron cluster push-image: pushes a container image to a registry, from which the machines of a cluster fetch it:
// Amazon's (ECR), logged in to with the aws command line, or any other that the container tool is logged in to.
#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"
#include "cli/cluster_commands.h"
#include "cli/commands.h"
#include "cluster/aws.h"
#include "cluster/shell.h"
#include "config/flag_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct push_options {
    struct flag_given given;
    char *image, *repository, *tag, *registry, *region, *account, *tool;
    bool print;
};

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
    struct json *answer;
    TRY(aws_run(words, &answer));
    *account = memory_string(cluster_text(answer, "Account"));
    json_free(answer);
    return **account ? 0 : error_set("aws sts get-caller-identity names no account");
}

static int name_target(struct push *push) {
    const struct push_options *options = push->options;
    const char *slash = strrchr(options->image, '/'), *colon = strchr(slash ? slash : options->image, ':');
    const char *tag = options->tag ? options->tag : colon ? colon + 1 : "latest";
    if (options->registry) {
        push->registry = memory_string(options->registry);
    } else {
        char *account = NULL;
        if (!options->region)
            return error_set_code(EXIT_CODE_USAGE, "ECR needs --region; for another registry give --registry");
        int status = find_account(options, &account);
        if (status == 0)
            push->registry = memory_printf("%s.dkr.ecr.%s.amazonaws.com%s", account, options->region,
                                           strncmp(options->region, "cn-", 3) == 0 ? ".cn" : "");
        free(account);
        TRY(status);
    }
    push->target = memory_printf("%s/%s:%s", push->registry, options->repository, tag);
    return 0;
}

// Runs a command, its words ended by NULL; `output` (may be NULL) gets its stdout.
static int step(const char *const *words, const char *input, struct buffer *output) {
    struct process_result result;
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
    process_result_free(&result);
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
    struct json *answer = NULL;
    int status = aws_run(words, &answer);
    json_free(answer);
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
    struct buffer password = {0};
    int status = step(ask, NULL, &password);
    if (status == 0)
        status = step(give, buffer_string(&password), NULL);
    // Erases the password from memory.
    if (password.data)
        memset(password.data, 0, password.length);
    buffer_free(&password);
    return status;
}

static void print_line(const char *const *words, const char *ending) {
    struct buffer line = {0};
    for (int i = 0; words[i]; i++) {
        if (i > 0)
            buffer_append_byte(&line, ' ');
        shell_word(&line, words[i]);
    }
    printf("%s%s", buffer_string(&line), ending);
    buffer_free(&line);
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

static int push_image(void *given) {
    struct push push = {.options = given};
    const struct push_options *options = given;
    int status = name_target(&push);
    const char *const tag[] = {options->tool, "tag", options->image, push.target, NULL};
    const char *const send[] = {options->tool, "push", push.target, NULL};
    if (status == 0 && options->print) {
        print_steps(&push, tag, send);
    } else if (status == 0) {
        if (!options->registry)
            status = make_repository(options);
        if (status == 0 && !options->registry)
            status = log_in(&push);
        if (status == 0)
            status = step(tag, NULL, NULL);
        if (status == 0)
            status = step(send, NULL, NULL);
        if (status == 0)
            puts(push.target);
    }
    free(push.registry);
    free(push.target);
    return status;
}

int cluster_push_image(int argc, char **argv) {
    static const struct flag_table table = {FLAG_TABLE(push_flags)};
    static const struct flag_command command = {
        .name = "cluster push-image",
        .summary =
            "Tags a container image, logs in to Amazon's registry (ECR) and pushes the image there; prints its name "
            "for launch kubernetes --image.",
        .tables = &table,
        .table_count = 1,
        .epilogue =
            "Examples:\n"
            "  docker build -f examples/images/Dockerfile -t bevatron .\n"
            "  bevatron cluster push-image --region us-west-2 --tag v1\n"
            "  bevatron cluster push-image --registry ghcr.io/my-team\n"
            "EKS nodes can pull from their account's ECR. For another registry, create a secret once and name it:\n"
            "  kubectl create secret docker-registry my-registry --docker-server=ghcr.io --docker-username=me "
            "--docker-password=…\n"
            "  bevatron launch kubernetes --pull-secret my-registry --image ghcr.io/my-team/bevatron:latest …\n"};
    struct push_options options;
    return command_run(&(struct command_call){.flags = &command, .options = &options, .run = push_image}, argc, argv);
}
