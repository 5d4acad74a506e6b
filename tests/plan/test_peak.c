// Peaks by the names that drivers give GPUs.
#include "plan/hardware.h"
#include "test.h"

TEST(known_names) {
    EXPECT_NEAR(peak_find("NVIDIA A100-SXM4-80GB", DTYPE_BF16), 312, 0);
    EXPECT_NEAR(peak_find("NVIDIA A10G", DTYPE_BF16), 70, 0);
    EXPECT_NEAR(peak_find("NVIDIA A10", DTYPE_F16), 125, 0);
    EXPECT_NEAR(peak_find("NVIDIA H100 80GB HBM3", DTYPE_BF16), 989, 0);
    EXPECT_NEAR(peak_find("NVIDIA H100 PCIe", DTYPE_BF16), 756, 0);
    EXPECT_NEAR(peak_find("NVIDIA H200", DTYPE_F16), 989, 0);
    EXPECT_NEAR(peak_find("NVIDIA GH200 480GB", DTYPE_F16), 989, 0);
    EXPECT_NEAR(peak_find("NVIDIA GB200", DTYPE_BF16), 2500, 0);
    EXPECT_NEAR(peak_find("NVIDIA B200", DTYPE_BF16), 2250, 0);
    EXPECT_NEAR(peak_find("NVIDIA L40S", DTYPE_BF16), 362, 0);
    EXPECT_NEAR(peak_find("NVIDIA L4", DTYPE_BF16), 121, 0);
    EXPECT_NEAR(peak_find("NVIDIA GB300", DTYPE_BF16), 2500, 0);
    EXPECT_NEAR(peak_find("NVIDIA B300 SXM6 AC", DTYPE_BF16), 2250, 0);
    EXPECT_NEAR(peak_find("NVIDIA H20", DTYPE_BF16), 148, 0);
    EXPECT_NEAR(peak_find("Tesla V100-SXM2-16GB", DTYPE_F16), 125, 0);
    EXPECT_NEAR(peak_find("Tesla V100-PCIE-32GB", DTYPE_F16), 112, 0);
    EXPECT_NEAR(peak_find("Tesla V100S-PCIE-32GB", DTYPE_F16), 130, 0);
    // As a device describes itself.
    EXPECT_NEAR(peak_find("GPU 0: NVIDIA H200, 140 GiB, CUDA 12.8, cuBLASLt 120803, cuDNN 9.8.0", DTYPE_BF16), 989, 0);
}

TEST(what_is_not_known) {
    EXPECT_NEAR(peak_find("Tesla V100-SXM2-16GB", DTYPE_BF16), 0, 0);
    EXPECT_NEAR(peak_find("NVIDIA H100 80GB HBM3", DTYPE_F32), 0, 0);
    EXPECT_NEAR(peak_find("a CPU", DTYPE_BF16), 0, 0);
    EXPECT_NEAR(peak_find("NVIDIA RTX A1000 Laptop GPU", DTYPE_BF16), 0, 0);
    EXPECT_NEAR(peak_find("NVIDIA RTX A3000", DTYPE_BF16), 0, 0);
    EXPECT_NEAR(peak_find("NVIDIA T400 4GB", DTYPE_F16), 0, 0);
    EXPECT_NEAR(peak_find("NVIDIA H100 80GB HBM3 MIG 1g.10gb", DTYPE_BF16), 0, 0);
}

TEST_MAIN(TEST_CASE(known_names), TEST_CASE(what_is_not_known))
