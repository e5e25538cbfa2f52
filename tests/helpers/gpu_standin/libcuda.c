/* The few functions of libcuda.so.1 and libnvidia-ml.so.1 that are asked, answered for a GPU that does not exist. */
#include <stdlib.h>
#include <string.h>

static const char *said(const char *name, const char *usual) {
    const char *value = getenv(name);
    return value && *value ? value : usual;
}

int cuInit(unsigned flags) { (void)flags; return getenv("STANDIN_CUINIT") ? atoi(getenv("STANDIN_CUINIT")) : 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetName(char *text, int size, int device) {
    (void)device;
    strncpy(text, said("STANDIN_GPU", "STAND-IN, NO GPU"), (size_t)size - 1);
    text[size - 1] = 0;
    return 0;
}
int cuDeviceGetAttribute(int *value, int which, int device) {
    (void)device;
    int capability = atoi(said("STANDIN_CAPABILITY", "86"));
    if (which == 75) { *value = capability / 10; return 0; }
    if (which == 76) { *value = capability % 10; return 0; }
    return 1;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device) { (void)device; *bytes = (size_t)8 << 30; return 0; }
int cuDriverGetVersion(int *version) { *version = atoi(said("STANDIN_CUDA", "13000")); return 0; }

int nvmlInit_v2(void) { return 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) {
    strncpy(text, said("STANDIN_DRIVER", "580.65.06"), size - 1);
    text[size - 1] = 0;
    return 0;
}
