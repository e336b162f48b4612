// A backend by the name that a user gives it.  Called by executables, which have `--backend`; libraries get an Ops.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/thread_pool.h"
#include "ops/ops.h"

namespace deepinfer {

// "cpu, cuda, reference": for help and messages.
std::string_view backend_names();
bool is_backend_name(std::string_view name);
// The name that makes the operations of a path: "cuda" of "cuda/sm90".
std::string backend_name_of_path(std::string_view path);

// threads: of the CPU backend.  field: what the user set, for messages ("--backend").  kInvalidArgument for an unknown
// name; kUnsupported where this build has no such backend; otherwise what the backend says of this machine.
Result<std::unique_ptr<Ops>> make_named_backend(std::string_view name, const ThreadPoolOptions& threads,
                                                std::string_view field);

}  // namespace deepinfer
