// The module for GPUs: missing, of another version, built with other headers, and one that fits. CMake builds stand-ins
// (fake_module.c) in folders below FAKES, and one of the driver that counts two GPUs.
#include "ops/cuda_module.h"

#include "test.h"

static const char *module_path, *driver_path = FAKES "/good/libfake.so.1";

static const char *environment(const char *name) {
    return strcmp(name, "BEVATRON_CUDA_LIBRARY") == 0     ? module_path
           : strcmp(name, "BEVATRON_DRIVER_LIBRARY") == 0 ? driver_path
                                                          : NULL;
}

// The module cannot be loaded, and every question says or bears it: `part` is in all messages.
static void expect_refused(const char *path, const char *part) {
    struct device *device = NULL;
    struct buffer text = {0};
    const struct library *list[DEVICE_MOST_LIBRARIES];
    module_path = path;
    library_set_environment(environment);
    error_clear();
    EXPECT(cuda_module() == NULL);
    EXPECT_INT(cuda_count(), 0);
    EXPECT_STRING(error_message(), "");
    EXPECT_ERROR(cuda_open(&device, &(struct device_options){.index = 0}), part);
    EXPECT(strstr(error_message(), "cannot load bevatron_cuda, which GPUs need: ") == error_message());
    EXPECT(strstr(error_message(), "or use --device cpu") != NULL);
    EXPECT(device == NULL);
    EXPECT(cuda_module_is_missed(&text));
    EXPECT(strstr(buffer_string(&text), "this machine has 2 GPUs, but their module cannot be used: ") != NULL);
    EXPECT(strstr(buffer_string(&text), part) != NULL);
    EXPECT_INT(device_libraries(list), 2);
    EXPECT_STRING(list[0]->name, "bevatron_cuda");
    EXPECT_STRING(list[1]->name, "libcuda");
    buffer_free(&text);
}

// Without a driver the machine has no GPUs, and nobody misses the module.
TEST(no_driver) {
    struct buffer text = {0};
    driver_path = FAKES "/old/libfake.so.1";
    library_set_environment(environment);
    EXPECT_INT(cuda_count(), 0);
    EXPECT(!cuda_module_is_missed(&text));
    driver_path = FAKES "/good/libfake.so.1";
}

TEST(missing) {
    expect_refused("/nonexistent/bevatron_cuda.so",
                   "BEVATRON_CUDA_LIBRARY is /nonexistent/bevatron_cuda.so, which does not exist");
}

TEST(of_another_version) {
    expect_refused(
        FAKES "/module_version",
        "/module_version/bevatron_cuda.so belongs to bevatron 0.0.9, but this is bevatron " BEVATRON_VERSION);
}

TEST(built_with_other_headers) {
    expect_refused(
        FAKES "/module_headers",
        "/module_headers/bevatron_cuda.so was built with other headers (0123456789abcdef) than this bevatron (");
}

// Another library, which is not a module of bevatron at all.
TEST(not_a_module) {
    expect_refused(FAKES "/good/libfake.so.1", "/good/libfake.so.1 has no symbol bevatron_cuda_module");
}

// Loaded, it stays: this is the last test.
TEST(fits) {
    struct buffer text = {0};
    struct device *device = NULL;
    const struct library *list[DEVICE_MOST_LIBRARIES];
    module_path = FAKES "/module_good";
    library_set_environment(environment);
    EXPECT_INT(cuda_count(), 3);
    EXPECT_INT(cuda_open(&device, &(struct device_options){.index = 7}), -107);
    EXPECT_INT(device_libraries(list), 3);
    EXPECT_STRING(list[2]->name, "fake");
    EXPECT(!cuda_module_is_missed(&text));
    EXPECT(library_describe(cuda_module_library(), &text));
    EXPECT(strstr(buffer_string(&text), BEVATRON_VERSION ", CUDA 99.1, sm_80, sm_90  /") == buffer_string(&text));
    EXPECT(strstr(buffer_string(&text), "/module_good/bevatron_cuda.so") != NULL);
    buffer_free(&text);
}

TEST_MAIN(TEST_CASE(no_driver), TEST_CASE(missing), TEST_CASE(of_another_version), TEST_CASE(built_with_other_headers),
          TEST_CASE(not_a_module), TEST_CASE(fits))
