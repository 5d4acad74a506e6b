// Running pcluster and aws, and understanding them. See aws.h. pcluster prints {"message": …} on stdout and exits with
// 1 when it refuses; if the configuration is at fault, the reasons are in configurationValidationErrors. aws prints "An
// error occurred (Code) when calling …" on stderr.
#include "cluster/aws.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"

#include <stdlib.h>
#include <string.h>

// The first row whose text occurs in the error gives the remedy.
static const struct {
    const char *text, *remedy;
} remedies[] = {
    {"Unable to locate credentials", "give credentials: `aws configure`, `aws sso login`, or AWS_PROFILE"},
    {"Credentials not found", "give credentials: `aws configure`, `aws sso login`, or AWS_PROFILE"},
    {"The config profile", "AWS_PROFILE names a profile that ~/.aws/config does not have"},
    {"token included in the request is expired", "log in again: `aws sso login`, or get fresh keys"},
    {"ExpiredToken", "log in again: `aws sso login`, or get fresh keys"},
    {"token included in the request is invalid", "AWS does not know these keys; set others with `aws configure`"},
    {"AuthFailure", "AWS does not know these keys; set others with `aws configure`"},
    {"not authorized to perform", "ask for the right named there, or use a role that has it (AWS_PROFILE)"},
    {"AccessDenied", "ask for the right named there, or use a role that has it (AWS_PROFILE)"},
    {"vCPU limit", "ask for a higher quota of that family of instances (Service Quotas, EC2, \"Running On-Demand P "
                   "instances\"), or for fewer nodes"},
    {"VcpuLimitExceeded",
     "ask for a higher quota of that family of instances (Service Quotas, EC2, \"Running On-Demand "
     "P instances\"), or for fewer nodes"},
    {"LimitExceeded", "request a higher limit (Service Quotas), or delete unused resources"},
    {"InsufficientInstanceCapacity",
     "AWS has no such machines free there: reserve them (reservation=cr-…, or a capacity "
     "block), or take another zone's subnet"},
    {"does not have enough capacity", "AWS has no such machines free there: reserve them (reservation=cr-…, or a "
                                      "capacity block), or take another zone's subnet"},
    {"is not supported in the", "that zone does not offer this instance type: use a subnet of another zone (`aws ec2 "
                                "describe-instance-type-offerings --location-type availability-zone` lists them)"},
    {"is not supported", "check the type's spelling, and that the region has it: `aws ec2 "
                         "describe-instance-type-offerings`"},
    {"instance types do not exist", "check the type's spelling, and that the region has it: `aws ec2 "
                                    "describe-instance-type-offerings`"},
    {"does not support EFA", "leave efa out of the queue, or use a type that has it"},
    {"invalid or unsupported region", "check --region"},
    {"region needs to be set", "give --region"},
    {"must specify a region", "give --region"},
    {"incompatible ParallelCluster major version",
     "`pcluster list-clusters --region …` lists the clusters; a cluster belongs to one region"},
    {"keypair", "`aws ec2 describe-key-pairs` lists yours; they belong to a region"},
    {"key pair", "`aws ec2 describe-key-pairs` lists yours; they belong to a region"},
    {"subnet ID", "`aws ec2 describe-subnets` lists yours; they belong to a region"},
    {"Cannot find official ParallelCluster AMI",
     "that region has no image for --os: take another --os or region (`pcluster list-official-images` lists them), or "
     "name an image with --custom-ami"},
    {"Unknown field", "this version of pcluster does not know that field: `pip install -U aws-parallelcluster`"},
    {"associated with ParallelCluster image id",
     "`pcluster list-images --image-status AVAILABLE --region …` lists yours"},
    {"does not match '^[a-zA-Z]", "a name is a letter, then letters, digits and hyphens, two characters at least"},
    {"image id", "images belong to a region; `pcluster list-official-images` names those of ParallelCluster"},
    {"compute nodes must be stopped",
     "run `bevatron cluster stop`, wait until `cluster status` shows STOPPED, then update "
     "and `bevatron cluster start`"},
    {"Update actions are not currently supported", "that cannot change while the cluster exists: restore the value, or "
                                                   "delete the cluster and create it again"},
    {"already exists", "choose another --name, or look at it with `bevatron cluster status`"},
    {"Could not connect to the endpoint", "check the network and --region"},
    {"requires Node.js", "pcluster needs Node.js: install it (nvm install --lts)"},
    {"Node.js", "pcluster needs Node.js: install it (nvm install --lts)"},
};

const char *aws_remedy(const char *complaint) {
    for (size_t i = 0; i < sizeof remedies / sizeof remedies[0]; i++)
        if (strstr(complaint, remedies[i].text))
            return remedies[i].remedy;
    return NULL;
}

// Adds a complaint as a part of a sentence: on one line, without its full stop.
static void append_complaint(struct buffer *out, const char *text) {
    size_t length = strlen(text);
    while (length > 0 && strchr(". \r\n", text[length - 1]))
        length--;
    for (size_t i = 0; i < length; i++)
        buffer_append(out, text[i] == '\n' || text[i] == '\r' ? " " : &text[i], 1);
}

// Adds the errors in the configuration, or in its change, each only once however many queues have it.
static void collect_errors(const struct json *errors, struct buffer *out, bool *is_first) {
    for (size_t i = 0; errors && errors->type == JSON_ARRAY && i < errors->count; i++) {
        const struct json *level = json_member(&errors->items[i], "level");
        const struct json *text = json_member(&errors->items[i], "message");
        if (!text || text->type != JSON_STRING ||
            (level && level->type == JSON_STRING && strcmp(level->string, "ERROR")))
            continue;
        struct buffer one = {0};
        append_complaint(&one, text->string);
        if (!strstr(buffer_string(out), buffer_string(&one))) {
            buffer_printf(out, "%s%s", !out->length ? "" : *is_first ? ": " : "; ", buffer_string(&one));
            *is_first = false;
        }
        buffer_free(&one);
    }
}

// The sentence of a refusal: the message, and each error.
static void collect(const struct json *answer, struct buffer *out) {
    const struct json *message = json_member(answer, "message");
    if (message && message->type == JSON_STRING)
        append_complaint(out, message->string);
    bool is_first = true;
    collect_errors(json_member(answer, "configurationValidationErrors"), out, &is_first);
    collect_errors(json_member(answer, "updateValidationErrors"), out, &is_first);
}

// The last non-empty line: errors of Python and aws end with the reason.
static void last_line(const char *text, struct buffer *out) {
    size_t end = strlen(text);
    while (end > 0 && strchr("\r\n ", text[end - 1]))
        end--;
    size_t begin = end;
    while (begin > 0 && text[begin - 1] != '\n')
        begin--;
    struct buffer line = {0};
    buffer_append(&line, text + begin, end - begin);
    append_complaint(out, buffer_string(&line));
    buffer_free(&line);
}

static int refused(const char *program, const char *verb, const struct json *answer,
                   const struct process_result *result) {
    struct buffer complaint = {0};
    if (answer)
        collect(answer, &complaint);
    if (complaint.length == 0)
        last_line(buffer_string(result->errors.length ? &result->errors : &result->output), &complaint);
    const char *text = buffer_string(&complaint), *remedy = aws_remedy(text);
    int status = remedy  ? error_set("%s %s: %s; %s", program, verb, text, remedy)
                 : *text ? error_set("%s %s: %s", program, verb, text)
                         : error_set("%s %s failed with exit code %d and no message", program, verb, result->exit_code);
    buffer_free(&complaint);
    return status;
}

int aws_run(const char *const *words, struct json **answer) {
    return aws_send(words, NULL, answer);
}

int aws_send(const char *const *words, const char *input, struct json **answer) {
    struct process_result result;
    bool is_pcluster = strcmp(words[0], "pcluster") == 0;
    *answer = NULL;
    if (process_run(words, input, &result) < 0)
        return error_set("%s; install it: %s", error_message(),
                         is_pcluster ? "python3 -m venv ~/pcluster && ~/pcluster/bin/pip install aws-parallelcluster, "
                                       "and put ~/pcluster/bin on PATH"
                                     : "apt install awscli, or AWS's own installer");
    const char *output = buffer_string(&result.output);
    bool has_output = output[strspn(output, " \r\n\t")] != 0;
    int status = 0;
    if (has_output && json_parse(answer, output, result.output.length, words[0]) < 0) {
        *answer = NULL;
        if (result.exit_code == 0)
            status = error_set("%s %s did not answer with JSON: %.*s", words[0], words[1], (int)strcspn(output, "\n"),
                               output);
        else
            error_clear();
    }
    if (result.exit_code != 0)
        status = refused(words[0], words[1], *answer, &result);
    process_result_free(&result);
    if (status < 0) {
        json_free(*answer);
        *answer = NULL;
    }
    return status;
}
