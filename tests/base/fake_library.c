// Stands in for the libraries that the program loads: only the functions that report a version. FAKE_KIND: 1, all
// versions fit; 2, none does. `answer` makes it a complete library for tests/base/test_library.c, if FAKE_ANSWER gives
// one.
#include <stddef.h>
#include <string.h>

int fake_version(void);
size_t cublasLtGetVersion(void);
size_t cudnnGetVersion(void);
size_t cudnnGetCudartVersion(void);
int ncclGetVersion(int *version);
int nvrtcVersion(int *major, int *minor);
int cuDriverGetVersion(int *version);
int cuInit(unsigned flags);
int cuDeviceGetCount(int *count);
int MPI_Get_library_version(char *text, int *length);
const void *curl_version_info(int age);
const char *MHD_get_version(void);
int nvmlSystemGetNVMLVersion(char *version, unsigned length);
int nvmlInit_v2(void);
int nvmlDeviceGetHandleByUUID(const char *uuid, void **gpu);
int nvmlDeviceGetTotalEnergyConsumption(void *gpu, unsigned long long *millijoules);
int nvmlDeviceGetClockInfo(void *gpu, int clock, unsigned *mhz);

static const int fits = FAKE_KIND == 1;

#ifdef FAKE_ANSWER
extern const int answer;
const int answer = FAKE_ANSWER;
#endif

int fake_version(void) {
    return fits ? 7 : 6;
}

size_t cublasLtGetVersion(void) {
    return fits ? FAKE_CUDA * 10000 + 201 : 90405;
}

size_t cudnnGetVersion(void) {
    return 91400;
}

// cuDNN 9 for another CUDA version has the same file name.
size_t cudnnGetCudartVersion(void) {
    return fits ? FAKE_CUDA * 1000 : 9020;
}

int ncclGetVersion(int *version) {
    *version = fits ? 22803 : 21003;
    return 0;
}

int nvrtcVersion(int *major, int *minor) {
    *major = FAKE_CUDA;
    *minor = 0;
    return fits ? 0 : 1;
}

// Like the toolkit's stub of the driver, which says that it is a stub.
int cuDriverGetVersion(int *version) {
    *version = FAKE_CUDA * 1000;
    return fits ? 0 : 34;
}

int cuInit(unsigned flags) {
    return flags == 0 ? 0 : 1;
}

int cuDeviceGetCount(int *count) {
    *count = 2;
    return 0;
}

int MPI_Get_library_version(char *text, int *length) {
    strncpy(text, fits ? "Open MPI v4.9.1, package: none" : "MPICH Version:\t4.0.2\nMPICH Release date:\tnone", 64);
    *length = (int)strlen(text);
    return 0;
}

// The first fields are the same in all versions.
const void *curl_version_info(int age) {
    static const struct {
        int age;
        const char *version;
        unsigned number;
    } known = {0, "8.5.0", 0x080500}, old = {0, "7.19.7", 0x071307};
    (void)age;
    return fits ? (const void *)&known : (const void *)&old;
}

const char *MHD_get_version(void) {
    return fits ? "0.9.77" : "0.9.70";
}

int nvmlSystemGetNVMLVersion(char *version, unsigned length) {
    strncpy(version, "580.1", length);
    return 0;
}

int nvmlInit_v2(void) {
    return fits ? 0 : 9;
}

// One GPU, and a place in memory that stands for it.
int nvmlDeviceGetHandleByUUID(const char *uuid, void **gpu) {
    static char it;
    *gpu = &it;
    return strcmp(uuid, "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f") == 0 ? 0 : 6;
}

int nvmlDeviceGetTotalEnergyConsumption(void *gpu, unsigned long long *millijoules) {
    *millijoules = 12500;
    return gpu ? 0 : 2;
}

// NVML_CLOCK_GRAPHICS, _SM, _MEM
int nvmlDeviceGetClockInfo(void *gpu, int clock, unsigned *mhz) {
    static const unsigned clocks[] = {1005, 1410, 2619};
    *mhz = clock >= 0 && clock < 3 ? clocks[clock] : 0;
    return gpu ? 0 : 2;
}
