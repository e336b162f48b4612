// SubmittedRequest: a request under way in Python's hands.  Made by Engine.submit; bind_answer.cpp gives it its
// methods.
#pragma once

#include <memory>

#include "python_engine.h"

namespace deepinfer::python {

// Keeps the engine alive and may be cancelled.
struct SubmittedRequest {
  std::shared_ptr<PythonEngine> engine;
  std::shared_ptr<PendingAnswer> answer;
};

}  // namespace deepinfer::python
