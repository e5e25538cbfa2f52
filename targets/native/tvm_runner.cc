// Holds one TVM module on the machine it is proven on, and runs it when it is told to over its standard input.
//
// The device needs this program, libtvm_runtime.so and libtvm_ffi.so, and no Python. The other end, and the description
// of the frames, are in convert/remote/frames.py.
//
//   usage: tvm_runner MODEL.so

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

namespace ffi = tvm::ffi;

namespace {

constexpr uint32_t kVersion = 1;
constexpr uint32_t kMostAxes = 64;
constexpr size_t kAlignment = 64;
constexpr int kPooledAllocator = 2;

struct HostMemory {
  void AllocData(DLTensor* tensor) {
    size_t bytes = ffi::GetDataSize(*tensor);
    tensor->data = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
    if (tensor->data == nullptr) throw std::bad_alloc();
  }
  void FreeData(DLTensor* tensor) { std::free(tensor->data); }
};

// The two ends of the line. Standard output belongs to the frames alone: whatever else is printed goes to the log.
class Line {
 public:
  Line() : in_(stdin), out_(fdopen(dup(STDOUT_FILENO), "wb")) { dup2(STDERR_FILENO, STDOUT_FILENO); }

  // False at the end of the input before the first byte; an end in the middle of a frame is an error.
  bool Command(char* found) { return std::fread(found, 1, 1, in_) == 1; }

  template <typename T>
  T Get() {
    T value;
    Bytes(&value, sizeof value);
    return value;
  }
  void Bytes(void* to, size_t size) {
    if (size != 0 && std::fread(to, 1, size, in_) != size) throw std::runtime_error("the input ended in a frame");
  }
  template <typename T>
  void Put(T value) {
    Write(&value, sizeof value);
  }
  void Write(const void* from, size_t size) {
    // Nobody listens any more: there is no one to tell, either.
    if (size != 0 && std::fwrite(from, 1, size, out_) != size) std::_Exit(3);
  }
  void Flush() {
    if (std::fflush(out_) != 0) std::_Exit(3);
  }

 private:
  FILE* in_;
  FILE* out_;
};

ffi::Tensor ReadTensor(Line& line) {
  uint32_t axes = line.Get<uint32_t>();
  if (axes > kMostAxes) throw std::runtime_error("a tensor has too many axes");
  DLDataType dtype{line.Get<uint8_t>(), line.Get<uint8_t>(), 1};
  std::vector<int64_t> shape(axes);
  line.Bytes(shape.data(), axes * sizeof(int64_t));
  ffi::Tensor tensor = ffi::Tensor::FromNDAlloc(HostMemory(), ffi::Shape(shape.begin(), shape.end()), dtype,
                                                DLDevice{kDLCPU, 0});
  line.Bytes(tensor.data_ptr(), ffi::GetDataSize(tensor));
  return tensor;
}

void WriteTensor(Line& line, const ffi::Tensor& tensor) {
  if (!tensor.IsContiguous()) throw std::runtime_error("an output is not contiguous");
  line.Put<uint32_t>(tensor.ndim());
  line.Put<uint8_t>(tensor.dtype().code);
  line.Put<uint8_t>(tensor.dtype().bits);
  for (int axis = 0; axis < tensor.ndim(); ++axis) line.Put<int64_t>(tensor.shape()[axis]);
  line.Write(tensor.data_ptr(), ffi::GetDataSize(tensor));
}

class Model {
 public:
  explicit Model(const char* file) : library_(ffi::Module::LoadFromFile(file)) {
    machine_ = library_->GetFunction("vm_load_executable").value()().cast<ffi::Module>();
    machine_->GetFunction("vm_initialization").value()(static_cast<int>(kDLCPU), 0, kPooledAllocator);
    main_ = machine_->GetFunction("main").value();
  }
  void Feed(std::vector<ffi::Tensor> inputs) { inputs_ = std::move(inputs); }
  ffi::Any Run() {
    std::vector<ffi::AnyView> args(inputs_.begin(), inputs_.end());
    ffi::Any result;
    main_.CallPacked(ffi::PackedArgs(args.data(), static_cast<int32_t>(args.size())), &result);
    return result;
  }

 private:
  ffi::Module library_;
  ffi::Module machine_ = library_;
  ffi::Function main_;
  std::vector<ffi::Tensor> inputs_;
};

std::vector<ffi::Tensor> Outputs(const ffi::Any& result) {
  if (auto tensor = result.try_cast<ffi::Tensor>()) return {*tensor};
  auto many = result.cast<ffi::Array<ffi::Tensor>>();
  return {many.begin(), many.end()};
}

void Run(Line& line, Model& model) {
  std::vector<ffi::Tensor> inputs(line.Get<uint32_t>());
  for (ffi::Tensor& input : inputs) input = ReadTensor(line);
  model.Feed(std::move(inputs));
  std::vector<ffi::Tensor> outputs = Outputs(model.Run());
  line.Put('K');
  line.Put<uint32_t>(outputs.size());
  for (const ffi::Tensor& output : outputs) WriteTensor(line, output);
}

void Time(Line& line, Model& model) {
  std::vector<double> seconds(line.Get<uint32_t>());
  for (double& one : seconds) {
    auto start = std::chrono::steady_clock::now();
    model.Run();
    one = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  line.Put('T');
  line.Put<uint32_t>(seconds.size());
  line.Write(seconds.data(), seconds.size() * sizeof(double));
}

void Memory(Line& line) {
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  line.Put('M');
  line.Put<uint64_t>(static_cast<uint64_t>(usage.ru_maxrss) * 1024);  // Linux counts in KiB
}

void Fail(Line& line, const std::string& text) {
  line.Put('E');
  line.Put<uint32_t>(text.size());
  line.Write(text.data(), text.size());
  line.Flush();
}

}  // namespace

int main(int argc, char** argv) {
  Line line;
  try {
    if (argc != 2) throw std::runtime_error("usage: tvm_runner MODEL.so");
    Model model(argv[1]);
    line.Put('H');
    line.Put<uint32_t>(kVersion);
    line.Flush();
    for (char command; line.Command(&command); line.Flush()) {
      if (command == 'R') {
        Run(line, model);
      } else if (command == 'T') {
        Time(line, model);
      } else if (command == 'M') {
        Memory(line);
      } else {
        throw std::runtime_error("an unknown command");
      }
    }
  } catch (const std::exception& error) {
    Fail(line, error.what());
    return 2;
  }
  return 0;
}
