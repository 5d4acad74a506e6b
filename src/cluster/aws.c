// Running pcluster and aws, and understanding them. See aws.h. pcluster prints {"message": …} on stdout and exits with
// 1 when it refuses; if the configuration is at fault, the reasons are in configurationValidationErrors. aws prints "An
// error occurred (Code) when calling …" on stderr.
#include "cluster/aws.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// ---- hints in boot logs ----

// Lines of boot logs and their remedies.

// The first row whose text occurs in the line applies.
static const struct {
    const char *text, *hint;
} hints[] = {
    {"Failed to execute OnNode",
     "a script of on-node-configured failed; its own output is in cfn-init on the head node "
     "and in cloud-init-output on the machines of queues"},
    {"Failed to download OnNode", "the machines cannot read that script: check its URL, and give them the bucket "
                                  "(bucket: NAME in the file)"},
    {"node-setup:", "node-setup.sh says what it lacks; examples/images/README.md explains its arguments"},
    {"mount.lustre", "the file system was not mounted: its security group must let the cluster's machines reach ports "
                     "988 and 1018-1023, and it must be in the same VPC"},
    {"Mounting command failed", "a file system was not mounted: its security group must let the cluster's machines in"},
    {"No space left on device", "a disk is full: give head-disk or compute-disk more GiB"},
    {"Network is unreachable",
     "a machine cannot reach the internet: a private subnet needs a NAT gateway or VPC endpoints for S3, "
     "DynamoDB, CloudFormation, EC2 and CloudWatch logs"},
    {"Connect timeout on endpoint",
     "a machine cannot reach the internet: a private subnet needs a NAT gateway or VPC endpoints for "
     "S3, DynamoDB, CloudFormation, EC2 and CloudWatch logs"},
    {"Temporary failure resolving", "a machine cannot reach the internet: a private subnet needs a NAT gateway"},
    {"Could not resolve host",
     "a machine cannot reach the internet, or the VPC has DNS switched off: enable DNS hostnames and DNS "
     "resolution of the VPC"},
    {"wait condition", "the head node did not finish its set-up: cfn-init and chef-client of the head node say why"},
    {"WaitCondition", "the head node did not finish its set-up: cfn-init and chef-client of the head node say why"},
    {"rotected mode", "machines of a queue failed to start ten times in a row, and the queue is switched off: fix the "
                      "cause, then run `bevatron cluster start`"},
    {"PROTECTED", "machines of a queue failed to start ten times in a row, and the queue is switched off: fix the "
                  "cause, then run `bevatron cluster start`"},
    {"bootstrap failure", "a machine of a queue did not finish its set-up: read its cloud-init-output and chef-client"},
    {"did not come up within",
     "a machine was not ready in time: read its cloud-init-output, or use an image that needs "
     "no set-up (`bevatron cluster build-image`)"},
    {"ResumeTimeout",
     "a machine was not ready in time: read its cloud-init-output, or use an image that needs no set-up "
     "(`bevatron cluster build-image`)"},
    {"failed EC2 health check", "EC2 reports a fault of that machine; Slurm gets another one by itself"},
    {"Health check", "EC2 or a GPU check reports a fault of that machine; Slurm gets another one by itself"},
    {"MaxSpotInstanceCountExceeded", "ask for a higher quota of spot machines, or leave out spot"},
    {"SpotMaxPriceTooLow", "leave out spot, or take machines on demand"},
    {"Unsupported", "that zone does not offer this machine with these settings: use a subnet of another zone"},
    {"spank", "a plug-in of Slurm was not loaded; `pyxis: true` sets Pyxis up on every machine"},
    {"plugstack", "a plug-in of Slurm was not loaded; `pyxis: true` sets Pyxis up on every machine"},
    {"slurmdbd", "accounting does not work: check the address of accounting, its secret, and that the database's "
                 "security group lets the head node in"},
    {"AWS::EC2::SecurityGroup", "CloudFormation could not create a security group: the VPC may be at its limit"},
};

const char *boot_hint(const char *line) {
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++)
        if (strstr(line, hints[i].text))
            return hints[i].hint;
    return aws_remedy(line);
}

bool boot_is_failure(const char *line) {
    static const char *const signs[] = {
        "ERROR",  "CRITICAL", "FATAL",     "[error]",   "rror:",         "Failed",       "failed",
        "FAILED", "fatal:",   "Traceback", "Exception", "rotected mode", "No such file", "not found"};
    static const char *const quiet[] = {"failed=0", "0 failed", "error_count=0"};
    for (size_t i = 0; i < sizeof quiet / sizeof quiet[0]; i++)
        if (strstr(line, quiet[i]))
            return false;
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (strstr(line, signs[i]))
            return true;
    return false;
}

const struct boot_log *boot_logs(void) {
    static const struct boot_log logs[] = {
        {"cfn-init", "/var/log/cfn-init.log", "set-up of the head node, and its on-node-configured scripts", true},
        {"chef-client", "/var/log/chef-client.log", "set-up by ParallelCluster", false},
        {"cloud-init-output", "/var/log/cloud-init-output.log", "start of a machine, and its scripts", false},
        {"bootstrap_error_msg", "/var/log/parallelcluster/bootstrap_error_msg", "why a machine gave up", false},
        {"slurm_resume", "/var/log/parallelcluster/slurm_resume.log", "machines that Slurm asked EC2 for", true},
        {"clustermgtd", "/var/log/parallelcluster/clustermgtd", "machines that failed, and protected queues", true},
        {"slurmctld", "/var/log/slurmctld.log", "Slurm itself", true},
        {"slurmd", "/var/log/slurmd.log", "Slurm on a machine", false},
        {NULL, NULL, NULL, false},
    };
    return logs;
}

// ---- the aws program ----

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
        OWNED_BY(buffer_free) struct buffer one = {0};
        append_complaint(&one, text->string);
        if (!strstr(buffer_string(out), buffer_string(&one))) {
            buffer_printf(out, "%s%s", !out->length ? "" : *is_first ? ": " : "; ", buffer_string(&one));
            *is_first = false;
        }
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
    OWNED_BY(buffer_free) struct buffer line = {0};
    buffer_append(&line, text + begin, end - begin);
    append_complaint(out, buffer_string(&line));
}

static int refused(const char *program, const char *verb, const struct json *answer,
                   const struct process_result *result) {
    OWNED_BY(buffer_free) struct buffer complaint = {0};
    if (answer)
        collect(answer, &complaint);
    if (complaint.length == 0)
        last_line(buffer_string(result->errors.length ? &result->errors : &result->output), &complaint);
    const char *text = buffer_string(&complaint), *remedy = aws_remedy(text);
    int status = remedy  ? error_set("%s %s: %s; %s", program, verb, text, remedy)
                 : *text ? error_set("%s %s: %s", program, verb, text)
                         : error_set("%s %s failed with exit code %d and no message", program, verb, result->exit_code);
    return status;
}

int aws_run(const char *const *words, struct json **answer) {
    return aws_send(words, NULL, answer);
}

int aws_send(const char *const *words, const char *input, struct json **answer) {
    OWNED_BY(process_result_free) struct process_result result = {0};
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
    if (status < 0) {
        json_free(*answer);
        *answer = NULL;
    }
    return status;
}
