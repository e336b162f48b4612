// How fast a file gets into device memory, beside what the machine could do at best.  For benchmarks.
#pragma once

#include <string>

#include "base/status.h"

namespace deepinfer::cuda {

// Bytes a second, best of three passes over the whole file.
struct FileRates {
  double read = 0;    // into pinned memory by as many threads as upload_files() takes
  double copy = 0;    // from pinned memory to the device, 256 MB at a time
  double upload = 0;  // by upload_files(): read and copied
  double steady = 0;  // the same, the file eight times over in one call: what starting costs counts less
  int threads = 0;
};
Result<FileRates> measure_file(const std::string& path);

}  // namespace deepinfer::cuda
