// Clusters for ParallelCluster: queues in one line, what is refused, what is warned about, and that no text becomes
// structure.
#include "cluster/aws.h"
#include "cluster/machine.h"
#include "cluster/parallelcluster.h"
#include "test.h"

static void expect_queue_error(const char *text, const char *message) {
    struct cluster_queue queue;
    EXPECT_ERROR(cluster_queue_parse(&queue, text), message);
    cluster_queue_free(&queue);
}

TEST(queue_of_one_line) {
    struct cluster_queue queue;
    EXPECT_OK(cluster_queue_parse(
        &queue, "gpu  p4d.24xlarge,p4de.24xlarge 2-16\tefa placement-group=near no-smt "
                "subnet=subnet-0123456789abcdef0 exclusive gpu-health-check ami=ami-0123456789abcdef0"));
    EXPECT_STRING(queue.name, "gpu");
    EXPECT_INT(queue.type_count, 2);
    EXPECT_STRING(queue.types[1], "p4de.24xlarge");
    EXPECT_INT(queue.least, 2);
    EXPECT_INT(queue.most, 16);
    EXPECT(queue.has_efa && queue.has_placement_group && queue.no_smt && queue.is_exclusive && queue.checks_gpus);
    EXPECT(!queue.is_spot && !queue.is_capacity_block);
    EXPECT_STRING(queue.placement_group, "near");
    EXPECT_STRING(queue.subnet, "subnet-0123456789abcdef0");
    EXPECT_STRING(queue.ami, "ami-0123456789abcdef0");
    cluster_queue_free(&queue);
    EXPECT_OK(cluster_queue_parse(&queue, "cpu c5.4xlarge 3 spot"));
    EXPECT_INT(queue.least, 0);
    EXPECT_INT(queue.most, 3);
    EXPECT(queue.is_spot);
    cluster_queue_free(&queue);
}

TEST(queues_that_are_refused) {
    expect_queue_error("", "not NAME TYPE COUNT");
    expect_queue_error("gpu p4d.24xlarge", "not NAME TYPE COUNT");
    expect_queue_error("my_gpu p4d.24xlarge 4", "its name must be");
    expect_queue_error("default p4d.24xlarge 4", "its name must be");
    expect_queue_error("$(id) p4d.24xlarge 4", "its name must be");
    expect_queue_error("gpu p4d 4", "not an EC2 instance type");
    expect_queue_error("gpu p4d.24xlarge;id 4", "not an EC2 instance type");
    expect_queue_error("gpu p4d.24xlarge many", "its count must be");
    expect_queue_error("gpu p4d.24xlarge 5-4", "its count must be");
    expect_queue_error("gpu p4d.24xlarge 0", "its count must be");
    expect_queue_error("gpu p4d.24xlarge -4", "its count must be");
    expect_queue_error("gpu p4d.24xlarge 4 fast", "is not one of efa");
    expect_queue_error("gpu p4d.24xlarge 4 reservation=odcr-1", "is cr- followed by");
    expect_queue_error("gpu p4d.24xlarge 4 subnet=subnet-0\"x", "is subnet- followed by");
    expect_queue_error("gpu p5.48xlarge 4 capacity-block", "add reservation=cr-");
    expect_queue_error("gpu p5.48xlarge 4 capacity-block reservation=cr-0123456789abcdef0 placement-group",
                       "leave out placement-group");
    expect_queue_error("gpu p5.48xlarge 4 spot reservation=cr-0123456789abcdef0", "choose one");
    expect_queue_error("gpu p4d.24xlarge 4\nqueue: x", "one line");
}

// A valid cluster that tests modify.
struct example {
    struct cluster_queue queue;
    struct string_list empty, hostile;
    struct parallelcluster cluster;
};

static void make(struct example *e, const char *queue) {
    *e = (struct example){0};
    EXPECT_OK(cluster_queue_parse(&e->queue, queue));
    e->cluster = (struct parallelcluster){.name = "llm",
                                          .region = "us-west-2",
                                          .os = "ubuntu2204",
                                          .key = "my-key",
                                          .head_type = "c5.4xlarge",
                                          .subnet = "subnet-0123456789abcdef0",
                                          .queues = &e->queue,
                                          .queue_count = 1,
                                          .fsx_type = "SCRATCH_2",
                                          .fsx_gib = 1200,
                                          .buckets = &e->empty,
                                          .policies = &e->empty,
                                          .scripts = &e->empty,
                                          .slurm_settings = &e->empty,
                                          .tags = &e->empty,
                                          .has_ssm = true};
}

static void release(struct example *e) {
    cluster_queue_free(&e->queue);
    string_list_free(&e->hostile);
}

static void expect_error(const struct parallelcluster *cluster, const char *message) {
    struct buffer out = {0}, notes = {0};
    EXPECT_ERROR(parallelcluster_yaml(cluster, &out, &notes), message);
    EXPECT_INT(out.length, 0);
    buffer_free(&out);
    buffer_free(&notes);
}

#define EXPECT_REFUSED(change, message)                                                                                \
    do {                                                                                                               \
        make(&e, "gpu p4d.24xlarge 0-4 efa placement-group");                                                          \
        e.cluster.change;                                                                                              \
        expect_error(&e.cluster, message);                                                                             \
        release(&e);                                                                                                   \
    } while (0)

static void expect_setting_error(const char *setting, const char *message) {
    struct example e;
    make(&e, "gpu p4d.24xlarge 0-4 efa placement-group");
    string_list_add(&e.hostile, setting);
    e.cluster.slurm_settings = &e.hostile;
    expect_error(&e.cluster, message);
    release(&e);
}

TEST(clusters_that_are_refused) {
    struct example e;
    EXPECT_REFUSED(name = NULL, "the cluster's name with --name");
    EXPECT_REFUSED(name = "a b", "letters, digits and dashes");
    EXPECT_REFUSED(region = NULL, "give --region");
    EXPECT_REFUSED(region = "the moon", "not an AWS region");
    EXPECT_REFUSED(head_type = "big", "not an EC2 instance type");
    EXPECT_REFUSED(subnet = "vpc-0", "is subnet- followed by");
    EXPECT_REFUSED(subnet = NULL, "no subnet");
    EXPECT_REFUSED(custom_ami = "ubuntu", "is ami- followed by");
    EXPECT_REFUSED(queue_count = 0, "needs a --queue");
    EXPECT_REFUSED(fsx_mount = "fsx", "not an absolute path");
    EXPECT_REFUSED(fsx_id = "fs-0123456789abcdef0", "the mount point of the file system");
    EXPECT_REFUSED(apps_mount = "/a b", "not an absolute path");
    make(&e, "gpu p4d.24xlarge 4 efa");
    e.cluster.fsx_mount = "/fsx";
    e.cluster.fsx_gib = 2000;
    expect_error(&e.cluster, "a multiple of 2400");
    e.cluster.fsx_gib = 4800;
    e.cluster.fsx_throughput = 250;
    expect_error(&e.cluster, "a fixed speed");
    e.cluster.fsx_type = "PERSISTENT_1";
    expect_error(&e.cluster, "50, 100 or 200");
    e.cluster.fsx_type = "PERSISTENT_2";
    e.cluster.fsx_s3 = "bucket";
    expect_error(&e.cluster, "not an S3 location");
    e.cluster.fsx_s3 = NULL;
    expect_setting_error("Foo=1\nProlog=/tmp/x", "control character");
    expect_setting_error("Foo", "not KEY=VALUE");
    expect_setting_error("Foo Bar=1", "letters and digits");
    expect_setting_error("Epilog=/x", "--slurm-setting Epilog: ParallelCluster sets it and rejects");
    expect_setting_error("treewidth=16", "--slurm-setting TreeWidth: ParallelCluster sets it and rejects");
    e.cluster.key = NULL;
    e.cluster.has_ssm = false;
    expect_error(&e.cluster, "no way to log in");
    release(&e);
}

// Settings that work, but badly, are noted.
TEST(notes) {
    struct example e;
    struct buffer out = {0}, notes = {0};
    make(&e, "gpu p4d.24xlarge 2-4");
    EXPECT_OK(parallelcluster_yaml(&e.cluster, &out, &notes));
    EXPECT(strstr(buffer_string(&notes), "Add efa"));
    EXPECT(strstr(buffer_string(&notes), "keeps 2 GPU nodes"));
    buffer_clear(&notes);
    release(&e);
    make(&e, "gpu p4d.24xlarge 0-4 efa");
    EXPECT_OK(parallelcluster_yaml(&e.cluster, &out, &notes));
    EXPECT(strstr(buffer_string(&notes), "far apart"));
    buffer_clear(&notes);
    release(&e);
    make(&e, "gpu p4d.24xlarge 0-4 efa placement-group");
    EXPECT_OK(parallelcluster_yaml(&e.cluster, &out, &notes));
    EXPECT_INT(notes.length, 0);
    release(&e);
    buffer_free(&out);
    buffer_free(&notes);
}

// Free texts of the user stay texts: one quoted line each.
TEST(hostile_texts) {
    struct example e;
    struct buffer out = {0}, notes = {0};
    make(&e, "gpu p4d.24xlarge 0-4 efa placement-group");
    string_list_add(&e.hostile, "k\"\nHeadNode: {}=a: \"b\"\n- $(id) # \\");
    e.cluster.tags = &e.hostile;
    e.cluster.key = "'; rm -rf /; \"\n";
    EXPECT_OK(parallelcluster_yaml(&e.cluster, &out, &notes));
    const char *text = buffer_string(&out);
    EXPECT(strstr(text, "Key: \"k\\\"\\nHeadNode: {}\"\n"));
    EXPECT(strstr(text, "Value: \"a: \\\"b\\\"\\n- $(id) # \\\\\"\n"));
    EXPECT(strstr(text, "KeyName: \"'; rm -rf /; \\\"\\n\"\n"));
    EXPECT(strstr(text, "\nHeadNode:\n") && !strstr(text, "\nHeadNode: {}"));
    release(&e);
    buffer_free(&out);
    buffer_free(&notes);
}

// The remote desktop of the head node is for those who may use ssh.
TEST(remote_desktop) {
    struct example e;
    struct buffer out = {0}, notes = {0};
    make(&e, "gpu p4d.24xlarge 0-4 efa placement-group");
    e.cluster.has_dcv = true;
    e.cluster.key = "my-key";
    e.cluster.allowed_ips = "203.0.113.0/24";
    EXPECT_OK(parallelcluster_yaml(&e.cluster, &out, &notes));
    EXPECT(strstr(buffer_string(&out), "\n  Dcv:\n    Enabled: true\n    AllowedIps: \"203.0.113.0/24\"\n"));
    release(&e);
    buffer_free(&out);
    buffer_free(&notes);
}

TEST(cost) {
    struct example e;
    struct buffer out = {0};
    EXPECT_NEAR(machine_price("p5.48xlarge"), 55.04, 1e-9);
    EXPECT_NEAR(machine_price("p5e.48xlarge"), 0, 1e-9);
    make(&e, "gpu p4d.24xlarge 1-128 efa");
    parallelcluster_cost(&e.cluster, &out);
    // 0.68 + 21.9576, and 0.68 + 128 times that.
    EXPECT(strstr(buffer_string(&out), "22.64      2811.25\n"));
    EXPECT(strstr(buffer_string(&out), "2026"));
    EXPECT(!strstr(buffer_string(&out), "The sum does not include"));
    buffer_clear(&out);
    e.cluster.head_type = "x9.huge";
    parallelcluster_cost(&e.cluster, &out);
    EXPECT(strstr(buffer_string(&out), "The sum does not include"));
    release(&e);
    // With several types, the most expensive and the cheapest.
    buffer_clear(&out);
    make(&e, "gpu p4d.24xlarge,p5.48xlarge 1-2 efa");
    parallelcluster_cost(&e.cluster, &out);
    EXPECT(strstr(buffer_string(&out), "p5.48xlarge              1-2     55.040      21.96       110.08\n"));
    release(&e);
    buffer_clear(&out);
    make(&e, "gpu p4d.24xlarge,p4d.24xlargee 1-2 efa placement-group");
    parallelcluster_cost(&e.cluster, &out);
    EXPECT(strstr(buffer_string(&out), "p4d.24xlargee            1-2    unknown    unknown      unknown\n"));
    struct buffer yaml = {0}, notes = {0};
    EXPECT_OK(parallelcluster_yaml(&e.cluster, &yaml, &notes));
    EXPECT(strstr(buffer_string(&notes), "the instance type p4d.24xlargee is not known here; check its spelling"));
    release(&e);
    buffer_free(&yaml);
    buffer_free(&notes);
    buffer_free(&out);
}

TEST(images) {
    struct string_list scripts = {0}, policies = {0};
    struct parallelcluster_image image = {.id = "bevatron-1",
                                          .region = "us-east-1",
                                          .parent = "ami-0123456789abcdef0",
                                          .instance_type = "g5.xlarge",
                                          .scripts = &scripts,
                                          .policies = &policies,
                                          .disk_gib = 60};
    struct buffer out = {0};
    string_list_add(&scripts, "s3://b/node-setup.sh");
    EXPECT_OK(parallelcluster_image_yaml(&image, &out));
    EXPECT(strstr(buffer_string(&out), "ParentImage: \"ami-0123456789abcdef0\""));
    EXPECT(!strstr(buffer_string(&out), "Iam"));
    string_list_add(&policies, "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess");
    EXPECT_OK(parallelcluster_image_yaml(&image, &out));
    EXPECT(strstr(buffer_string(&out), "  Iam:\n    AdditionalIamPolicies:\n"
                                       "      - Policy: \"arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess\"\n"));
    image.id = "../x y";
    EXPECT_ERROR(parallelcluster_image_yaml(&image, &out), "--image-id \"../x y\"");
    image.id = "bevatron-1";
    image.parent = NULL;
    EXPECT_ERROR(parallelcluster_image_yaml(&image, &out), "give --parent");
    image.parent = "ami-0123456789abcdef0";
    string_list_add(&scripts, "./setup.sh");
    EXPECT_ERROR(parallelcluster_image_yaml(&image, &out), "that the nodes can fetch");
    buffer_free(&out);
    string_list_free(&scripts);
    string_list_free(&policies);
}

TEST(remedies) {
    EXPECT(strstr(aws_remedy("Unable to locate credentials"), "aws configure"));
    EXPECT(
        strstr(aws_remedy("You have requested more vCPU capacity than your current vCPU limit of 0 allows"), "quota"));
    EXPECT(strstr(aws_remedy("The key pair 'x' does not exist"), "key-pairs"));
    EXPECT_STRING(
        aws_remedy("You must specify a region. You can also configure your region by running \"aws configure\"."),
        "give --region");
    EXPECT(aws_remedy("Nothing known") == NULL);
}

TEST_MAIN(TEST_CASE(queue_of_one_line), TEST_CASE(queues_that_are_refused), TEST_CASE(clusters_that_are_refused),
          TEST_CASE(notes), TEST_CASE(hostile_texts), TEST_CASE(remote_desktop), TEST_CASE(cost), TEST_CASE(images),
          TEST_CASE(remedies))
