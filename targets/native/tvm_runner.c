// Holds one TVM module on the machine it is proven on, and runs it when it is told to over its standard input.
//
// The device needs this program, libtvm_runtime.so and libtvm_ffi.so, and no Python. Plain C against TVM's stable C
// interface, so that every cross compiler makes it in a second and it asks for no C++ library. The other end, and the
// description of the frames, are in convert/remote/frames.py. Little-endian machines only.
//
//   usage: tvm_runner MODEL.so

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <tvm/ffi/c_api.h>

enum { VERSION = 1, MOST_AXES = 64, MOST_TENSORS = 4096, MOST_RUNS = 1 << 20, ALIGNMENT = 64 };
enum { POOLED_ALLOCATOR = 2, LOST = 3 };

static FILE* answers;

// ---------------------------------------------------------------------------------------------------------------------
// The line

static void put(const void* from, size_t size) {
  // Nobody listens any more: there is no one to tell, either.
  if (size != 0 && fwrite(from, 1, size, answers) != size) _exit(LOST);
}

static void put_u32(uint32_t value) { put(&value, sizeof value); }

static void flush(void) {
  if (fflush(answers) != 0) _exit(LOST);
}

static void fail(const char* text, size_t size) {
  put("E", 1);
  put_u32((uint32_t)size);
  put(text, size);
  flush();
  exit(2);
}

static void fail_with(const char* text) { fail(text, strlen(text)); }

static void get(void* to, size_t size) {
  if (size != 0 && fread(to, 1, size, stdin) != size) fail_with("the input ended in the middle of a frame");
}

static uint32_t get_u32(void) {
  uint32_t value;
  get(&value, sizeof value);
  return value;
}

// ---------------------------------------------------------------------------------------------------------------------
// TVM

// Objects of TVM are a header with what C calls a cell right after it.
static void* cell_of(TVMFFIObjectHandle object) { return (char*)object + sizeof(TVMFFIObject); }

static void require(int code) {
  if (code == 0) return;
  TVMFFIObjectHandle raised = NULL;
  TVMFFIErrorMoveFromRaised(&raised);
  if (raised == NULL) fail_with("TVM failed without a reason");
  const TVMFFIErrorCell* cell = cell_of(raised);
  fail(cell->message.data, cell->message.size);
}

static TVMFFIAny any_int(int64_t value) {
  TVMFFIAny any = {.type_index = kTVMFFIInt, .v_int64 = value};
  return any;
}

static TVMFFIAny any_text(const char* text) {
  TVMFFIAny any = {.type_index = kTVMFFIRawStr, .v_c_str = text};
  return any;
}

static TVMFFIAny call(TVMFFIObjectHandle function, TVMFFIAny* args, int count) {
  TVMFFIAny result = {.type_index = kTVMFFINone};
  require(TVMFFIFunctionCall(function, args, count, &result));
  return result;
}

static TVMFFIAny call_global(const char* name, TVMFFIAny* args, int count) {
  TVMFFIByteArray text = {name, strlen(name)};
  TVMFFIObjectHandle function = NULL;
  require(TVMFFIFunctionGetGlobal(&text, &function));
  if (function == NULL) fail_with("the runtime lacks a function that every TVM has; it may be of another version");
  return call(function, args, count);
}

static TVMFFIObjectHandle function_of(TVMFFIAny module, const char* name) {
  TVMFFIAny no = {.type_index = kTVMFFIBool, .v_int64 = 0};
  TVMFFIAny args[] = {module, any_text(name), no};
  TVMFFIAny found = call_global("ffi.ModuleGetFunction", args, 3);
  if (found.type_index != kTVMFFIFunction) fail_with("the library is no module of Relax's virtual machine");
  return found.v_obj;
}

static TVMFFIObjectHandle load(const char* file) {
  // Of a path without a slash the loader looks in its own folders only.
  char path[4096];
  snprintf(path, sizeof path, "%s%s", strchr(file, '/') ? "" : "./", file);
  TVMFFIAny args[] = {any_text(path)};
  TVMFFIAny library = call_global("ffi.ModuleLoadFromFile", args, 1);
  TVMFFIAny machine = call(function_of(library, "vm_load_executable"), NULL, 0);
  TVMFFIAny device[] = {any_int(kDLCPU), any_int(0), any_int(POOLED_ALLOCATOR)};
  call(function_of(machine, "vm_initialization"), device, 3);
  return function_of(machine, "main");
}

// ---------------------------------------------------------------------------------------------------------------------
// Tensors

static size_t bytes_of(const DLTensor* tensor) {
  size_t bytes = (tensor->dtype.bits * (size_t)tensor->dtype.lanes + 7) / 8;
  for (int axis = 0; axis < tensor->ndim; ++axis) bytes *= (size_t)tensor->shape[axis];
  return bytes;
}

static void release(DLManagedTensor* managed) {
  free(managed->dl_tensor.data);
  free(managed->dl_tensor.shape);
  free(managed);
}

static int is_known(uint8_t code, uint8_t bits) {
  int kind = code == kDLInt || code == kDLUInt || code == kDLFloat || code == kDLBool;
  return kind && (bits == 8 || bits == 16 || bits == 32 || bits == 64);
}

static TVMFFIAny read_tensor(void) {
  DLManagedTensor* managed = calloc(1, sizeof *managed);
  uint32_t axes = get_u32();
  uint8_t dtype[2];
  get(dtype, sizeof dtype);
  if (axes > MOST_AXES) fail_with("a tensor has too many axes");
  if (!is_known(dtype[0], dtype[1])) fail_with("a tensor has a dtype that is not known");
  // Shape and strides in one piece; a scalar still needs an address.
  int64_t* sizes = calloc(2 * axes + 1, sizeof *sizes);
  if (managed == NULL || sizes == NULL) fail_with("there is no memory for a tensor");
  get(sizes, axes * sizeof *sizes);
  int64_t step = 1;
  for (uint32_t axis = axes; axis-- > 0;) {
    sizes[axes + axis] = step;
    // A product that wraps would be taken for a small tensor, and read far beyond its end.
    if (sizes[axis] < 0 || __builtin_mul_overflow(step, sizes[axis], &step)) fail_with("a tensor has impossible sizes");
  }
  if (step > INT64_MAX / (int64_t)sizeof(double)) fail_with("a tensor has impossible sizes");
  DLTensor* tensor = &managed->dl_tensor;
  tensor->device.device_type = kDLCPU;
  tensor->ndim = (int32_t)axes;
  tensor->dtype.code = dtype[0];
  tensor->dtype.bits = dtype[1];
  tensor->dtype.lanes = 1;
  tensor->shape = sizes;
  tensor->strides = sizes + axes;
  managed->deleter = release;
  size_t bytes = bytes_of(tensor);
  tensor->data = aligned_alloc(ALIGNMENT, (bytes / ALIGNMENT + 1) * ALIGNMENT);
  if (tensor->data == NULL) fail_with("there is no memory for a tensor");
  get(tensor->data, bytes);
  TVMFFIAny any = {.type_index = kTVMFFITensor};
  TVMFFIObjectHandle handle = NULL;
  require(TVMFFITensorFromDLPack(managed, ALIGNMENT, 1, &handle));
  any.v_obj = handle;
  return any;
}

static void require_writable(const TVMFFIAny* any) {
  if (any->type_index != kTVMFFITensor) fail_with("an output is no tensor");
  const DLTensor* tensor = cell_of(any->v_obj);
  int64_t step = 1;
  for (int axis = tensor->ndim; axis-- > 0; step *= tensor->shape[axis]) {
    if (tensor->strides != NULL && tensor->shape[axis] != 1 && tensor->strides[axis] != step) {
      fail_with("an output is not contiguous");
    }
  }
}

static void write_tensor(const TVMFFIAny* any) {
  const DLTensor* tensor = cell_of(any->v_obj);
  put_u32((uint32_t)tensor->ndim);
  put(&tensor->dtype.code, 1);
  put(&tensor->dtype.bits, 1);
  put(tensor->shape, (size_t)tensor->ndim * sizeof *tensor->shape);
  put((const char*)tensor->data + tensor->byte_offset, bytes_of(tensor));
}

// ---------------------------------------------------------------------------------------------------------------------
// Requests

typedef struct {
  TVMFFIObjectHandle main;
  TVMFFIAny* inputs;
  uint32_t count;
} Model;

static void forget_inputs(Model* model) {
  for (uint32_t place = 0; place < model->count; ++place) TVMFFIObjectDecRef(model->inputs[place].v_obj);
  free(model->inputs);
  model->inputs = NULL;
  model->count = 0;
}

static void run(Model* model) {
  forget_inputs(model);
  uint32_t count = get_u32();
  if (count > MOST_TENSORS) fail_with("there are too many tensors");
  model->inputs = calloc(count + 1, sizeof *model->inputs);
  if (model->inputs == NULL) fail_with("there is no memory for the inputs");
  for (; model->count < count; ++model->count) model->inputs[model->count] = read_tensor();
  TVMFFIAny result = call(model->main, model->inputs, (int)count);
  const TVMFFIAny* outputs = &result;
  int64_t outputs_count = 1;
  if (result.type_index == kTVMFFIArray) {
    const TVMFFISeqCell* many = cell_of(result.v_obj);
    outputs = many->data;
    outputs_count = many->size;
  }
  for (int64_t place = 0; place < outputs_count; ++place) require_writable(outputs + place);
  put("K", 1);
  put_u32((uint32_t)outputs_count);
  for (int64_t place = 0; place < outputs_count; ++place) write_tensor(outputs + place);
  TVMFFIObjectDecRef(result.v_obj);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void time_runs(Model* model) {
  uint32_t runs = get_u32();
  if (runs > MOST_RUNS) fail_with("there are too many runs");
  double* seconds = calloc(runs + 1, sizeof *seconds);
  if (seconds == NULL) fail_with("there is no memory for so many times");
  for (uint32_t one = 0; one < runs; ++one) {
    double start = now();
    TVMFFIAny result = call(model->main, model->inputs, (int)model->count);
    seconds[one] = now() - start;
    TVMFFIObjectDecRef(result.v_obj);
  }
  put("T", 1);
  put_u32(runs);
  put(seconds, runs * sizeof *seconds);
  free(seconds);
}

static void tell_memory(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  uint64_t bytes = (uint64_t)usage.ru_maxrss * 1024;  // Linux counts in KiB
  put("M", 1);
  put(&bytes, sizeof bytes);
}

// Sorting and the like are in a library of their own, which lies here where the module needs it.
static void load_extra(void) {
  const char* extra = "./libtvm_runtime_extra.so";
  if (access(extra, F_OK) == 0 && dlopen(extra, RTLD_NOW | RTLD_GLOBAL) == NULL) fail_with(dlerror());
}

int main(int argc, char** argv) {
  // Standard output belongs to the frames alone: whatever else is printed goes to the log.
  answers = fdopen(dup(STDOUT_FILENO), "wb");
  if (answers == NULL || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return LOST;
  if (argc != 2) fail_with("usage: tvm_runner MODEL.so");
  load_extra();
  Model model = {load(argv[1]), NULL, 0};
  put("H", 1);
  put_u32(VERSION);
  flush();
  for (char command; fread(&command, 1, 1, stdin) == 1; flush()) {
    if (command == 'R') {
      run(&model);
    } else if (command == 'T') {
      time_runs(&model);
    } else if (command == 'M') {
      tell_memory();
    } else {
      fail_with("an unknown request");
    }
  }
  return 0;
}
