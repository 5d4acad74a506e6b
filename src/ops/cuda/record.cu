// Recordings: work of the compute stream, captured as a CUDA graph and launched as one. A launch costs the host some
// microseconds for any number of kernels, and the GPU starts them faster one after the other than separate launches.
// Work of other streams is included if events fork to them and join back within the recording.
#include "ops/cuda/cuda.cuh"

extern "C" void cuda_record_begin(struct device *device) {
    struct cuda_device *cuda = cuda_use(device);
    CHECK(!cuda->is_recording);
    cuda->is_recording = true;
    // Other threads of the process may keep using the GPU.
    CHECK_CUDA(cudaStreamBeginCapture(cuda->streams[STREAM_COMPUTE], cudaStreamCaptureModeThreadLocal));
}

// Failing to build a graph is not an error: the work is done call by call, as before.
extern "C" struct recording *cuda_record_end(struct device *device) {
    struct cuda_device *cuda = cuda_use(device);
    cudaGraph_t graph = NULL;
    cudaGraphExec_t launchable = NULL;
    cuda->is_recording = false;
    phase_note("instantiating CUDA graphs");
    cudaError_t status = cudaStreamEndCapture(cuda->streams[STREAM_COMPUTE], &graph);
    if (status == cudaSuccess)
        status = cudaGraphInstantiate(&launchable, graph, 0);
    if (status == cudaSuccess)
        status = cudaGraphUpload(launchable, cuda->streams[STREAM_COMPUTE]);
    if (graph)
        CHECK_CUDA(cudaGraphDestroy(graph));
    phase_note(NULL);
    if (status == cudaSuccess)
        return (struct recording *)launchable;
    if (launchable)
        cudaGraphExecDestroy(launchable);
    cudaGetLastError();
    log_info("this GPU does not record a step (%s): its operations are launched one by one",
             cudaGetErrorString(status));
    return NULL;
}

extern "C" void cuda_replay(struct device *device, struct recording *recording) {
    struct cuda_device *cuda = cuda_use(device);
    CHECK_CUDA(cudaGraphLaunch((cudaGraphExec_t)recording, cuda->streams[STREAM_COMPUTE]));
}

extern "C" void cuda_recording_free(struct device *device, struct recording *recording) {
    cuda_use(device);
    CHECK_CUDA(cudaGraphExecDestroy((cudaGraphExec_t)recording));
}
