// Lines of boot logs and their remedies. See boot_hints.h.
#include "cluster/boot_hints.h"
#include "cluster/aws.h"

#include <stddef.h>
#include <string.h>

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
