// The inputs of preflight: nvidia-smi's table, NCCL's log, fi_info, with answers of real machines and with nonsense.
#include "base/file.h"
#include "base/memory.h"
#include "cluster/machine.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#define A100(rest) "NVIDIA A100-SXM4-40GB, 535.183.01, 40960, 1410, 1410, " rest "\n"

TEST(healthy_gpus) {
    static struct gpus gpus;
    struct buffer faults = {0};
    EXPECT_OK(gpus_parse(&gpus, A100("Enabled, 0, No, 0x0000000000000001, 31")
                                    A100("Enabled, 0, No, 0x0000000000000000, 33")));
    EXPECT_INT(gpus.count, 2);
    EXPECT_STRING(gpus.items[1].name, "NVIDIA A100-SXM4-40GB");
    EXPECT_STRING(gpus.items[1].driver, "535.183.01");
    EXPECT_INT(gpus.items[1].memory_mib, 40960);
    EXPECT_INT(gpus.items[1].temperature, 33);
    EXPECT_INT(gpus.items[0].throttle, 1);
    EXPECT(gpus.items[0].has_ecc);
    EXPECT_INT(gpus_faults(&gpus, 2, &faults), 0);
    EXPECT_INT(gpus_faults(&gpus, 0, &faults), 0);
    EXPECT_INT(faults.length, 0);
    EXPECT_INT(gpus_faults(&gpus, 8, &faults), 1);
    EXPECT(strstr(buffer_string(&faults), "2 GPUs instead of 8"));
    buffer_free(&faults);
}

static void expect_fault(const char *second, const char *text) {
    static struct gpus gpus;
    struct buffer faults = {0}, table = {0};
    buffer_printf(&table, "%s%s\r\n", A100("Enabled, 0, No, 0x0, 31"), second);
    EXPECT_OK(gpus_parse(&gpus, buffer_string(&table)));
    EXPECT_INT(gpus_faults(&gpus, 2, &faults), 1);
    if (!strstr(buffer_string(&faults), text))
        test_fail("\"%s\" lacks \"%s\"", buffer_string(&faults), text);
    EXPECT(strncmp(buffer_string(&faults), "GPU 1:", 6) == 0);
    buffer_free(&faults);
    buffer_free(&table);
}

TEST(sick_gpus) {
    expect_fault(A100("Enabled, 3, No, 0x0, 31"), "3 memory errors");
    expect_fault(A100("Enabled, 0, Yes, 0x0, 31"), "wait for a reset");
    expect_fault(A100("Enabled, 0, No, 0x0000000000000040, 95"), "held down by the hardware");
    expect_fault(A100("Enabled, 0, No, 0x20, 90"), "because it is hot");
    expect_fault(A100("Disabled, [N/A], No, 0x0, 31"), "error correction is off");
    expect_fault("Tesla V100-SXM2-32GB, 535.183.01, 32768, 135, 1530, Enabled, 0, [N/A], 0x1, 31", "is a Tesla V100");
}

// ECC that is off on the first, on all data centre cards, and on a workstation's, where it may be off.
TEST(error_correction) {
    static struct gpus gpus;
    struct buffer faults = {0};
    EXPECT_OK(gpus_parse(&gpus, A100("Disabled, [N/A], No, 0x0, 31") A100("Enabled, 0, No, 0x0, 31")));
    EXPECT_INT(gpus_faults(&gpus, 2, &faults), 1);
    EXPECT(strncmp(buffer_string(&faults), "GPU 0: error correction is off", 30) == 0);
    EXPECT_OK(gpus_parse(&gpus, A100("Disabled, [N/A], No, 0x0, 31") A100("Disabled, [N/A], No, 0x0, 31")));
    EXPECT_INT(gpus_faults(&gpus, 2, &faults), 2);
    EXPECT_OK(gpus_parse(&gpus, "NVIDIA RTX A6000, 550.1, 49140, 210, 2100, Disabled, [N/A], No, 0x0, 40"));
    EXPECT_INT(gpus_faults(&gpus, 1, &faults), 0);
    buffer_free(&faults);
}

// GPUs that are not supported, by name.
TEST(old_gpus) {
    static const char *const cards[][2] = {
        {"Tesla V100-SXM2-32GB", "a Tesla V100-SXM2-32GB has compute capability 7.0, but 8.0"},
        {"Tesla T4", "compute capability 7.5"},
        {"NVIDIA GeForce RTX 2080 Ti", "7.5"},
        {"Tesla P100-PCIE-16GB", "6.0"},
        {"NVIDIA A100-SXM4-40GB", NULL},
        {"NVIDIA L4", NULL},
        {"NVIDIA RTX 6000 Ada Generation", NULL},
        {"NVIDIA H200", NULL}};
    static struct gpus gpus;
    for (size_t i = 0; i < sizeof cards / sizeof cards[0]; i++) {
        struct buffer line = {0}, faults = {0};
        for (int k = 0; k < 2; k++)
            buffer_printf(&line, "%s, 550.1, 16384, 210, 1980, Enabled, 0, No, 0x0, 40\n", cards[i][0]);
        EXPECT_OK(gpus_parse(&gpus, buffer_string(&line)));
        EXPECT_INT(gpus_faults(&gpus, 2, &faults), cards[i][1] ? 1 : 0);
        if (cards[i][1] && !strstr(buffer_string(&faults), cards[i][1]))
            test_fail("\"%s\" lacks \"%s\"", buffer_string(&faults), cards[i][1]);
        buffer_free(&line);
        buffer_free(&faults);
    }
    static const char *const old[] = {"p3.2xlarge",  "p3.8xlarge",    "p3.16xlarge", "p3dn.24xlarge",
                                      "g4dn.xlarge", "g4dn.12xlarge", "g4dn.metal"};
    for (size_t i = 0; i < sizeof old / sizeof old[0]; i++)
        EXPECT(machine_look_up(old[i]) && machine_has_old_gpus(machine_look_up(old[i])));
    // They are not offered.
    EXPECT(!machine_find("p9.large") && !strstr(error_message(), "g4dn") && strstr(error_message(), ": p4d.24xlarge,"));
    EXPECT(!machine_has_old_gpus(machine_look_up("p4d.24xlarge")));
    EXPECT(!machine_has_old_gpus(machine_look_up("c5n.18xlarge")));
}

static void expect_kind(const char *line, const char *machine, const char *text) {
    static struct gpus gpus;
    struct buffer faults = {0};
    EXPECT_OK(gpus_parse(&gpus, line));
    EXPECT_INT(gpus_differ(&gpus, machine_look_up(machine), &faults), text ? 1 : 0);
    if (text && !strstr(buffer_string(&faults), text))
        test_fail("\"%s\" lacks \"%s\"", buffer_string(&faults), text);
    buffer_free(&faults);
}

#define CARD(name, memory) name ", 550.1, " memory ", 210, 1980, Enabled, 0, No, 0x0, 40"

TEST(kind_of_a_machine) {
    expect_kind(CARD("NVIDIA A10G", "23028"), "p5.48xlarge", "is a NVIDIA A10G, those of a p5.48xlarge are H100");
    expect_kind(CARD("NVIDIA A100-SXM4-40GB", "40960"), "p4d.24xlarge", NULL);
    expect_kind(CARD("NVIDIA A100-SXM4-40GB", "40960"), "p4de.24xlarge",
                "has 40960 MiB, those of a p4de.24xlarge have 80");
    expect_kind(CARD("NVIDIA H100 80GB HBM3", "81559"), "p5.48xlarge", NULL);
    expect_kind(CARD("NVIDIA H200", "143771"), "p5en.48xlarge", NULL);
    expect_kind(CARD("NVIDIA L40S", "46068"), "g6.48xlarge", "those of a g6.48xlarge are L4");
    expect_kind(CARD("NVIDIA L40S", "46068"), "g6e.48xlarge", NULL);
    expect_kind(CARD("Tesla V100-SXM2-32GB", "32768"), "p3dn.24xlarge", NULL);
    expect_kind(CARD("Tesla T4", "15360"), "g4dn.12xlarge", NULL);
    expect_kind(CARD("NVIDIA H200", "143771"), "c5n.18xlarge", NULL);
}

// Cards without such fields say so, and that is not a problem.
TEST(fields_that_are_not_there) {
    static struct gpus gpus;
    struct buffer faults = {0};
    EXPECT_OK(gpus_parse(&gpus,
                         "NVIDIA GeForce RTX 4090, 550.1, 24564, 210, 3105, [N/A], [N/A], [N/A], [Not Supported], 40"));
    EXPECT_INT(gpus.items[0].uncorrected, -1);
    EXPECT_INT(gpus.items[0].throttle, -1);
    EXPECT_INT(gpus_faults(&gpus, 1, &faults), 0);
    EXPECT_ERROR(gpus_parse(&gpus, "No devices were found"), "instead of 10 fields");
    EXPECT_ERROR(gpus_parse(&gpus, "a,b,c,d,e,f,g,h,i,j,k"), "instead of 10 fields");
    EXPECT_OK(gpus_parse(&gpus, ""));
    EXPECT_INT(gpus.count, 0);
    struct buffer many = {0};
    for (int i = 0; i < MOST_GPUS + 1; i++)
        buffer_append_string(&many, A100("Enabled, 0, No, 0x0, 31"));
    EXPECT_ERROR(gpus_parse(&gpus, buffer_string(&many)), "too long");
    buffer_clear(&many);
    for (int i = 0; i < 5000; i++)
        buffer_append_byte(&many, 'x');
    EXPECT_ERROR(gpus_parse(&gpus, buffer_string(&many)), "too long");
    buffer_free(&many);
    buffer_free(&faults);
}

TEST(network_of_a_log) {
    EXPECT_INT(
        transport_of_log("p4d-1:77:90 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.14.0\n"
                         "p4d-1:77:90 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa (found 4 nics)\n"
                         "p4d-1:77:90 [0] NCCL INFO Using network Libfabric\n"),
        TRANSPORT_EFA);
    EXPECT_INT(transport_of_log("h:1:2 [0] NCCL INFO NET/OFI Selected Provider is efa"), TRANSPORT_EFA);
    EXPECT_INT(
        transport_of_log("h:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>\n"
                         "h:1:2 [0] NCCL INFO Using network IB\n"),
        TRANSPORT_IB);
    EXPECT_INT(transport_of_log("h:1:2 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so)\n"
                                "h:1:2 [0] NCCL INFO NET/IB : No device found.\n"
                                "h:1:2 [0] NCCL INFO NET/Socket : Using [0]ens5:10.0.0.1<0>\n"
                                "h:1:2 [0] NCCL INFO Using network Socket\n"),
               TRANSPORT_TCP);
    // The plug-in is there and still uses TCP.
    EXPECT_INT(transport_of_log("h [0] NCCL INFO NET/OFI Selected provider is tcp, fabric is 10.0.0.0/16\n"
                                "h [0] NCCL INFO Using network Libfabric\n"),
               TRANSPORT_TCP);
    // One of several ranks.
    EXPECT_INT(
        transport_of_log("h [0] NCCL INFO Using network Socket\nh [1] NCCL INFO NET/OFI Selected provider is efa\n"),
        TRANSPORT_TCP);
    EXPECT_INT(transport_of_log("NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"), TRANSPORT_UNKNOWN);
    EXPECT_INT(transport_of_log(""), TRANSPORT_UNKNOWN);
    EXPECT_STRING(transport_name(TRANSPORT_EFA), "efa");
}

TEST(interfaces) {
    static const char two[] = "provider: efa\n    fabric: efa\n    domain: rdmap16s27-rdm\n    version: 122.0\n"
                              "    type: FI_EP_RDM\n    protocol: FI_PROTO_EFA\n"
                              "provider: efa\n    fabric: efa\n    domain: rdmap16s27-dgrm\n    type: FI_EP_DGRAM\n"
                              "provider: efa\n    fabric: efa\n    domain: rdmap32s27-rdm\n    type: FI_EP_RDM\n"
                              "provider: efa;ofi_rxd\n    domain: rdmap32s27-rdm\n";
    EXPECT_INT(transport_efa_interfaces(two), 2);
    EXPECT_INT(transport_efa_interfaces("provider: tcp\n    domain: eth0-rdm\n"), 0);
    EXPECT_INT(transport_efa_interfaces("fi_getinfo: -61 (No data available)\n"), 0);
}

static void add_port(const char *root, const char *port, const char *state) {
    char *folder = memory_printf("%s/%s", root, port), *path = file_join(folder, "state");
    EXPECT_OK(file_make_folders(folder));
    FILE *file = fopen(path, "w");
    EXPECT(file && fputs(state, file) >= 0 && fclose(file) == 0);
    free(path);
    free(folder);
}

TEST(infiniband_ports) {
    char root[] = "/tmp/bevatron-ports-XXXXXX";
    EXPECT(mkdtemp(root));
    EXPECT_INT(transport_ib_ports("/no/such/folder"), 0);
    EXPECT_INT(transport_ib_ports(root), 0);
    add_port(root, "mlx5_0/ports/1", "4: ACTIVE\n");
    add_port(root, "mlx5_1/ports/1", "1: DOWN\n");
    add_port(root, "ibp3s0/ports/2", "4: ACTIVE\n");
    add_port(root, "mlx5_2/ports/1", "");
    add_port(root, "efa_0/ports/1", "4: ACTIVE\n");
    add_port(root, "rdmap16s27/ports/1", "4: ACTIVE\n");
    EXPECT_INT(transport_ib_ports(root), 2);
    char *command = memory_printf("rm -r %s", root);
    EXPECT_INT(system(command), 0);
    free(command);
}

// Output of `nvidia-smi` with driver 580 on a busy H200 (2026-11): a power cap is not a problem.
TEST(an_h200_at_work) {
    static struct gpus gpus;
    struct buffer faults = {0};
    EXPECT_OK(
        gpus_parse(&gpus, "NVIDIA H200, 580.159.04, 143771, 1950, 1980, Enabled, 0, No, 0x0000000000000004, 51\n"));
    EXPECT_INT(gpus.items[0].memory_mib, 143771);
    EXPECT_INT(gpus.items[0].throttle, 4);
    EXPECT_INT(gpus_faults(&gpus, 1, &faults), 0);
    EXPECT_INT(gpus_faults(&gpus, 8, &faults), 1);
    buffer_free(&faults);
}

TEST(expectations) {
    EXPECT_NEAR(transport_expected_busbw("p5.48xlarge", 2), 343, 0);
    EXPECT_NEAR(transport_expected_busbw("p5.48xlarge", 1), 419, 0);
    EXPECT_NEAR(transport_expected_busbw("p4d.24xlarge", 16), 70, 0);
    EXPECT_NEAR(transport_expected_busbw("c5n.18xlarge", 2), 0, 0);
}

TEST_MAIN(TEST_CASE(healthy_gpus), TEST_CASE(sick_gpus), TEST_CASE(error_correction), TEST_CASE(old_gpus),
          TEST_CASE(kind_of_a_machine), TEST_CASE(fields_that_are_not_there), TEST_CASE(network_of_a_log),
          TEST_CASE(interfaces), TEST_CASE(infiniband_ports), TEST_CASE(an_h200_at_work), TEST_CASE(expectations))
