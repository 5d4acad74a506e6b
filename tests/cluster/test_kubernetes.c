// Manifests for Kubernetes: names are accepted or refused, strings stay strings. tests/cli/test_kubernetes.sh tests
// them against the schemas of Kubernetes and the operators, if available.
#include "cluster/kubernetes.h"
#include "cluster/yaml.h"
#include "test.h"

static const char *const command[] = {"bevatron", "train", "--data-path", "a \"b\" $(c)\n- d: {e}", NULL};
static const struct kubernetes_job plain = {.kind = KUBERNETES_JOBSET,
                                            .launch.name = "train",
                                            .image = "registry/bevatron:1",
                                            .launch.command = command,
                                            .launch.nodes = 2,
                                            .launch.ranks_per_node = 8,
                                            .launch.gpus_per_node = 8,
                                            .efa = 32,
                                            .huge_pages = "5120Mi",
                                            .shared_memory = "64Gi",
                                            .claim = "fsx-claim",
                                            .mount = "/fsx",
                                            .launch.max_restarts = 3};

TEST(yaml) {
    struct buffer out = {0};
    struct yaml y = {.out = &out};
    yaml_text(&y, "a", "x: \"y\"\n\t\\");
    yaml_map(&y, "b");
    yaml_list(&y, "c");
    yaml_item(&y);
    yaml_number(&y, "d", -3);
    yaml_bool(&y, "e", true);
    yaml_end(&y);
    yaml_item_text(&y, "- f");
    yaml_end(&y);
    yaml_pair(&y, "g: h", "");
    yaml_end(&y);
    yaml_document(&y);
    yaml_text(&y, "none", NULL);
    EXPECT_STRING(buffer_string(&out), "a: \"x: \\\"y\\\"\\n\\u0009\\\\\"\n"
                                       "b:\n"
                                       "  c:\n"
                                       "    - d: -3\n"
                                       "      e: true\n"
                                       "    - \"- f\"\n"
                                       "  \"g: h\": \"\"\n"
                                       "---\n");
    buffer_free(&out);
}

TEST(every_kind_has_its_fields) {
    static const char *const wanted[][3] = {
        [KUBERNETES_JOBSET] = {"kind: \"JobSet\"", "MASTER_ADDR", "train-node-0-0.train"},
        [KUBERNETES_INDEXED_JOB] = {"clusterIP: \"None\"", "completionMode: \"Indexed\"", "train-0.train"},
        [KUBERNETES_MPIJOB] = {"slotsPerWorker: 8", "\"mpirun\"", "odls_base_sigkill_timeout"},
        [KUBERNETES_PYTORCHJOB] = {"name: \"pytorch\"", "containerPort: 23456", "Worker:"},
        [KUBERNETES_JOB] = {"kind: \"Job\"", "backoffLimit: 3", "restartPolicy: \"Never\""},
    };
    for (int kind = KUBERNETES_JOBSET; kind <= KUBERNETES_JOB; kind++) {
        struct kubernetes_job job = plain;
        struct buffer out = {0};
        job.kind = (enum kubernetes_kind)kind;
        EXPECT_OK(kubernetes_manifest(&job, &out));
        for (int i = 0; i < 3; i++)
            if (!strstr(buffer_string(&out), wanted[kind][i]))
                test_fail("kind %d has no %s", kind, wanted[kind][i]);
        EXPECT(strstr(buffer_string(&out), "vpc.amazonaws.com/efa: 32") != NULL);
        EXPECT((strstr(buffer_string(&out), "\"NCCL_NET\"") != NULL) == (job.launch.nodes > 1));
        // Huge pages must come with memory or CPUs; a request is enough.
        EXPECT(strstr(buffer_string(&out), "hugepages-2Mi: \"5120Mi\"\n") != NULL);
        EXPECT(strstr(buffer_string(&out), "memory: \"16Gi\"\n") != NULL);
        EXPECT(strstr(buffer_string(&out), "\"a \\\"b\\\" $$(c)\\n- d: {e}\"\n") != NULL);
        buffer_free(&out);
    }
}

// A run with checkpoints decides itself about restarts, unless there are to be none.
TEST(restarts) {
    for (int kind = KUBERNETES_JOBSET; kind <= KUBERNETES_JOB; kind++)
        for (int i = 0; i < 3; i++) {
            struct kubernetes_job job = plain;
            struct buffer out = {0};
            job.kind = (enum kubernetes_kind)kind;
            job.launch.save = i > 0 ? "/fsx/run" : NULL;
            job.launch.max_restarts = i == 2 ? 0 : 3;
            job.launch.window_minutes = 60;
            EXPECT_OK(kubernetes_manifest(&job, &out));
            const char *text = buffer_string(&out);
            bool decides = i == 1 && kind != KUBERNETES_MPIJOB && kind != KUBERNETES_PYTORCHJOB;
            EXPECT((strstr(text, "\"decide\"") != NULL) == decides);
            EXPECT((strstr(text, "\"/fsx/run/restarts.json\"") != NULL) == decides);
            EXPECT((strstr(text, "1000000") != NULL) == decides);
            buffer_free(&out);
        }
}

// Pods of ranks have a probe that fails when the run makes no progress, and its file. Nobody restarts workers of an
// MPIJob.
TEST(probe) {
    for (int kind = KUBERNETES_JOBSET; kind <= KUBERNETES_JOB; kind++)
        for (int is_wanted = 0; is_wanted < 2; is_wanted++) {
            struct kubernetes_job job = plain;
            struct buffer out = {0};
            job.kind = (enum kubernetes_kind)kind;
            job.launch.progress_minutes = is_wanted ? 0.5 : 0;
            EXPECT_OK(kubernetes_manifest(&job, &out));
            const char *probe = strstr(buffer_string(&out), "livenessProbe:");
            bool has_probe = is_wanted && kind != KUBERNETES_MPIJOB;
            EXPECT((probe != NULL) == has_probe);
            EXPECT((strstr(buffer_string(&out), "BEVATRON_NODE_LIFELINE") != NULL) == has_probe);
            static const char *const words[] = {"- \"progress\"\n", "- \"--once\"\n", "- \"0.5\"\n"};
            for (size_t i = 0; probe && i < sizeof words / sizeof words[0]; i++)
                EXPECT((probe = strstr(probe, words[i])) != NULL);
            buffer_free(&out);
        }
}

TEST(bad_fields) {
    struct buffer out = {0};
    struct kubernetes_job job = plain;
    static const char *const names[] = {
        "", "Train", "a b", "-a", "a-", "a_b", "a.b", "9a", "a-name-that-is-much-longer-than-names-may-be-here"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        job.launch.name = (char *)(uintptr_t)names[i];
        EXPECT_ERROR(kubernetes_manifest(&job, &out), "cannot be the name of a job");
    }
    job = plain;
    job.memory = "much";
    EXPECT_ERROR(kubernetes_manifest(&job, &out), "--memory \"much\"");
    static const char *const pages[] = {"3Mi", "0", "1", "2M", "1024Ki", "5120m"};
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        job = plain;
        job.huge_pages = (char *)(uintptr_t)pages[i];
        EXPECT_ERROR(kubernetes_manifest(&job, &out), "not a multiple of the page size");
    }
    static char *variables[] = {"A B=1", "=1", "A", "1A=1", "A=\xff"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        struct string_list environment = {.items = &variables[i], .count = 1};
        job = plain;
        job.launch.environment = environment;
        EXPECT_ERROR(kubernetes_manifest(&job, &out), "--env \"");
    }
    static const char *const words[] = {"bevatron", "train", "--save", "/d/\xc3(", NULL};
    job = plain;
    job.launch.command = words;
    EXPECT_ERROR(kubernetes_manifest(&job, &out), "\"/d/\" is not valid UTF-8 at byte 3");
    job = plain;
    job.mount = "fsx";
    EXPECT_ERROR(kubernetes_manifest(&job, &out), "absolute");
    job = plain;
    job.image = NULL;
    EXPECT_ERROR(kubernetes_manifest(&job, &out), "--image");
    EXPECT_INT((int)out.length, 0);
    buffer_free(&out);
}

TEST(disks) {
    static const char fields[] = "containers:\n"
                                 "  - name: bevatron\n"
                                 "    volumeMounts:\n"
                                 "      - {name: cache, mountPath: /cache/}\n"
                                 "      - {name: keys, mountPath: /fsx/keys}\n"
                                 "      - {name: nowhere, mountPath: /nowhere}\n"
                                 "      - {name: bare, mountPath: /bare}\n"
                                 "      - {name: claim, mountPath: /claim}\n"
                                 "      - name: strange\n"
                                 "volumes:\n"
                                 "  - {name: cache, emptyDir: {}}\n"
                                 "  - {name: keys, secret: {secretName: s}}\n"
                                 "  - name: bare\n"
                                 "  - {name: claim, persistentVolumeClaim: {claimName: c, readOnly: true}}\n";
    static const struct {
        const char *path;
        enum kubernetes_disk disk;
    } cases[] = {
        {"/fsx", KUBERNETES_DISK_LASTING},
        {"/fsx/../fsx//a", KUBERNETES_DISK_LASTING},
        {"/../fsx/a/..", KUBERNETES_DISK_LASTING},
        {"s3://b/a", KUBERNETES_DISK_LASTING},
        {"/fsx/..", KUBERNETES_DISK_POD},
        {"/", KUBERNETES_DISK_POD},
        {"", KUBERNETES_DISK_POD},
        {"fsx/a", KUBERNETES_DISK_POD},
        {"/fsxa", KUBERNETES_DISK_POD},
        {"/cache/a", KUBERNETES_DISK_POD},
        {"/nowhere/a", KUBERNETES_DISK_POD},
        {"/bare/a", KUBERNETES_DISK_POD},
        {"/dev/shm/a", KUBERNETES_DISK_POD},
        {"/fsx/keys/a", KUBERNETES_DISK_READ_ONLY},
        {"/claim", KUBERNETES_DISK_READ_ONLY},
        {"/scratch/a", KUBERNETES_DISK_NODE},
        {"/opt/a", KUBERNETES_DISK_READ_ONLY},
    };
    static char *hosts[] = {"/scratch", "/opt:ro"};
    struct string_list host_paths = {.items = hosts, .count = 2};
    struct yaml_node tree;
    EXPECT_OK(yaml_tree_parse(&tree, fields, strlen(fields), "pod.yaml"));
    struct kubernetes_job job = plain;
    job.host_paths = host_paths;
    job.pod_fields = &tree;
    for (int kind = KUBERNETES_JOBSET; kind <= KUBERNETES_JOB; kind++)
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            job.kind = (enum kubernetes_kind)kind;
            if (kubernetes_disk_of(&job, cases[i].path) != cases[i].disk)
                test_fail("\"%s\" of kind %d is on another disk", cases[i].path, kind);
        }
    yaml_tree_free(&tree);
}

TEST_MAIN(TEST_CASE(yaml), TEST_CASE(every_kind_has_its_fields), TEST_CASE(restarts), TEST_CASE(probe),
          TEST_CASE(bad_fields), TEST_CASE(disks))
