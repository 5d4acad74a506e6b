// INI files of ParallelCluster 2: sections, comments and continued values are read like Python's configparser, every
// key is converted or named, and anything that is not an INI file is refused with its line.
#include "cluster/parallelcluster.h"
#include "test.h"

static void convert(const char *text, struct buffer *out, struct buffer *notes) {
    struct ini_document document;
    EXPECT_OK(ini_parse(&document, text, strlen(text), "x.ini"));
    EXPECT_OK(ini_convert(&document, "x.ini", out, notes));
    ini_free(&document);
}

static const char two_queues[] = "[global]\n"
                                 "cluster_template = two\n"
                                 "update_check = true\n"
                                 "[aws]\n"
                                 "aws_region_name = us-west-2\n"
                                 "[cluster other]\n"
                                 "key_name = wrong\n"
                                 "[cluster two]\n"
                                 "key_name = my-key   # a comment\n"
                                 "base_os = alinux2\n"
                                 "scheduler = slurm\n"
                                 "master_instance_type: c5.4xlarge\n"
                                 "vpc_settings = v\n"
                                 "scaling_settings = quick\n"
                                 "queue_settings = gpu,\n"
                                 "    cpu\n"
                                 "custom_ami = <Your AMI>\n"
                                 "s3_read_write_resource = arn:aws:s3:::my-bucket*\n"
                                 "additional_iam_policies = arn:aws:iam::aws:policy/A, arn:aws:iam::aws:policy/B\n"
                                 "post_install = s3://my-bucket/x.sh\n"
                                 "post_install_args = one two\n"
                                 "tags = {\"team\": \"nlp\"}\n"
                                 "fsx_settings = f\n"
                                 "ebs_settings = e\n"
                                 "dcv_settings = d\n"
                                 "[dcv d]\n"
                                 "enable = master\n"
                                 "access_from = 10.0.0.0/8\n"
                                 "; another comment\n"
                                 "[vpc v]\n"
                                 "vpc_id = vpc-1\n"
                                 "master_subnet_id = subnet-a\n"
                                 "compute_subnet_id = subnet-b\n"
                                 "[scaling quick]\n"
                                 "scaledown_idletime = 120\n"
                                 "[queue gpu]\n"
                                 "compute_resource_settings = p4\n"
                                 "enable_efa = true\n"
                                 "placement_group = DYNAMIC\n"
                                 "disable_hyperthreading = true\n"
                                 "[queue cpu]\n"
                                 "compute_resource_settings = big, small\n"
                                 "compute_type = spot\n"
                                 "[compute_resource p4]\n"
                                 "instance_type = p4d.24xlarge\n"
                                 "max_count = 16\n"
                                 "[compute_resource big]\n"
                                 "instance_type = c5n.18xlarge\n"
                                 "min_count = 1\n"
                                 "max_count = 4\n"
                                 "initial_count = 2\n"
                                 "[compute_resource small]\n"
                                 "instance_type = c5.xlarge\n"
                                 "initial_count = 0\n"
                                 "[fsx f]\n"
                                 "shared_dir = /lustre\n"
                                 "storage_capacity = 1200\n"
                                 "deployment_type = SCRATCH_2\n"
                                 "import_path = s3://my-bucket\n"
                                 "export_path = s3://my-bucket\n"
                                 "[ebs e]\n"
                                 "shared_dir = shared\n"
                                 "volume_size = 200\n"
                                 "volume_type = io1\n"
                                 "volume_iops = 4000\n";

TEST(a_cluster_of_two_queues) {
    struct buffer out = {0}, notes = {0};
    convert(two_queues, &out, &notes);
    EXPECT_STRING(buffer_string(&out), "name: \"two\"\n"
                                       "region: \"us-west-2\"\n"
                                       "os: \"alinux2023\"\n"
                                       "key: \"my-key\"\n"
                                       "head-node: \"c5.4xlarge\"\n"
                                       "dcv: true\n"
                                       "head-subnet: \"subnet-a\"\n"
                                       "subnet: \"subnet-b\"\n"
                                       "idle-minutes: \"120\"\n"
                                       "queue:\n"
                                       "  - \"gpu p4d.24xlarge 0-16 efa placement-group no-smt\"\n"
                                       "  - \"cpu-big c5n.18xlarge 1-4 spot\"\n"
                                       "  - \"cpu-small c5.xlarge 0-10 spot\"\n"
                                       "fsx: \"/lustre\"\n"
                                       "fsx-size: \"1200\"\n"
                                       "fsx-type: \"SCRATCH_2\"\n"
                                       "fsx-s3: \"s3://my-bucket\"\n"
                                       "apps: \"/shared\"\n"
                                       "apps-size: \"200\"\n"
                                       "apps-iops: \"4000\"\n"
                                       "bucket: \"my-bucket\"\n"
                                       "on-node-configured:\n"
                                       "  - \"s3://my-bucket/x.sh one two\"\n"
                                       "policy:\n"
                                       "  - \"arn:aws:iam::aws:policy/A\"\n"
                                       "  - \"arn:aws:iam::aws:policy/B\"\n"
                                       "tag:\n"
                                       "  - \"team=nlp\"\n");
    static const char *const said[] = {
        "no longer offers alinux2",
        "x.ini:17: custom_ami has no value yet",
        "queue cpu had several kinds",
        ": initial_count 2 was left out: machines start when jobs need them; give the queue 2-MOST to keep 2.\n",
        ": volume_type io1 is gp3 now, with its 4000 IOPS.\n",
        "note: access_from of [dcv d] was left out: the desktop is for allowed-ips",
        "key_name of [cluster other] has no counterpart"};
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++)
        if (!strstr(buffer_string(&notes), said[i]))
            test_fail("no \"%s\" in the notes: %s", said[i], buffer_string(&notes));
    EXPECT(strstr(buffer_string(&notes), "vpc_id") == NULL && strstr(buffer_string(&notes), "initial_count 0") == NULL);
    buffer_free(&out);
    buffer_free(&notes);
}

TEST(a_cluster_of_before_queues) {
    static const char text[] = "[cluster default]\n"
                               "compute_instance_type = c5n.18xlarge\n"
                               "initial_queue_size = 2\n"
                               "max_queue_size = 8\n"
                               "maintain_initial_size = true\n"
                               "enable_efa = compute\n"
                               "placement_group = near\n"
                               "cluster_type = spot\n"
                               "scheduler = sge\n";
    struct buffer out = {0}, notes = {0};
    convert(text, &out, &notes);
    EXPECT(strstr(buffer_string(&out), "  - \"compute c5n.18xlarge 2-8 efa placement-group=near spot\"\n") != NULL);
    EXPECT(strstr(buffer_string(&notes), "the scheduler was sge") != NULL);
    EXPECT(strstr(buffer_string(&notes), "initial_queue_size") == NULL);
    buffer_free(&out);
    buffer_free(&notes);
}

// Settings that a gp3 volume and a queue lack are named, so that the short file can be rendered.
TEST(numbers_that_do_not_fit) {
    static const struct {
        const char *text, *lacks, *said;
    } cases[] = {
        {"[cluster a]\nebs_settings = e\n[ebs e]\nvolume_type = io2\nvolume_size = 20\nvolume_iops = 100\n",
         "apps-iops", "note: x.ini:6: volume_iops 100 was left out: a gp3 volume has at least 3000.\n"},
        {"[cluster a]\nebs_settings = e\n[ebs e]\nvolume_type = io1\nvolume_size = 20\nvolume_iops = 12000\n",
         "apps-iops",
         "note: x.ini:6: volume_iops 12000 was left out: a gp3 volume of this size has fewer; give a larger "
         "apps-size.\n"},
        {"[cluster a]\nebs_settings = e\n[ebs e]\nvolume_type = gp2\n", "apps-iops",
         "note: x.ini:4: volume_type gp2 is gp3 now.\n"},
        {"[cluster a]\ninitial_queue_size = 3\nmax_queue_size = 8\n", " 3-8",
         "note: x.ini:2: initial_queue_size 3 was left out"},
        {"[cluster a]\nmaster_root_volume_type = io1\n", "io1",
         "master_root_volume_type of [cluster a] has no counterpart"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buffer out = {0}, notes = {0};
        convert(cases[i].text, &out, &notes);
        if (strstr(buffer_string(&out), cases[i].lacks) || !strstr(buffer_string(&notes), cases[i].said))
            test_fail("no \"%s\" in the notes: %s", cases[i].said, buffer_string(&notes));
        buffer_free(&out);
        buffer_free(&notes);
    }
}

static void expect_refused(const char *text, size_t length, const char *message) {
    struct ini_document document;
    EXPECT_ERROR(ini_parse(&document, text, length, "x.ini"), message);
    ini_free(&document);
}

TEST(what_is_not_an_ini_file) {
    expect_refused("a = b\n", 6, "x.ini:1: a value before the first section");
    expect_refused("[a]\nword\n", 9, "x.ini:2: neither a section");
    expect_refused("[a]\n[]\n", 7, "x.ini:2: a section without a name");
    expect_refused("[a\n", 3, "x.ini:1: a section is [NAME]");
    expect_refused("[a]\n = b\n", 9, "x.ini:2: a value without a key");
    expect_refused("[a]\nk = v\n[b]\n  more\n", 21, "x.ini:4: an indented line");
    expect_refused("[a]\n\x01 = b\n", 10, "x.ini:2: a control character");
    expect_refused("[a]\n\0\n", 6, "NUL bytes");
    struct ini_document document;
    struct buffer out = {0}, notes = {0};
    EXPECT_OK(ini_parse(&document, "[a]\nb=c", 7, "x.ini"));
    EXPECT_ERROR(ini_convert(&document, "x.ini", &out, &notes), "no section [cluster");
    ini_free(&document);
    buffer_free(&out);
    buffer_free(&notes);
}

TEST_MAIN(TEST_CASE(a_cluster_of_two_queues), TEST_CASE(a_cluster_of_before_queues), TEST_CASE(what_is_not_an_ini_file),
          TEST_CASE(numbers_that_do_not_fit))
