// Status and Result<T>: how a library reports a failure that its caller can act on.
// No exception crosses a public header (docs/architecture.md, "Errors"); programmer errors abort through check.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace deepinfer {

// Stable codes; the command line turns them into exit codes, a server into HTTP statuses.
enum class StatusCode {
  kOk = 0,
  kInvalidArgument,    // a request, option or text is wrong: the message names the field and the allowed range
  kNotFound,           // a file, model or repository is not there
  kCorruptFile,        // a file breaks its format's rules: the message names file, tensor, offset and rule
  kUnsupported,        // valid, but this build or machine cannot do it
  kResourceExhausted,  // memory, disk or a configured bound
  kCancelled,
  kDeviceFailure,
  kIoError,            // the operating system refused: the message carries its reason
  kInternal,           // a bug
};

std::string_view to_string(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  // "corrupt file: model.safetensors: tensor `x`: ..." for people.
  std::string to_string() const;
  // The same status with "context: " in front of its message.
  Status with_context(std::string_view context) const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status invalid_argument(std::string message) { return {StatusCode::kInvalidArgument, std::move(message)}; }
inline Status not_found(std::string message) { return {StatusCode::kNotFound, std::move(message)}; }
inline Status corrupt_file(std::string message) { return {StatusCode::kCorruptFile, std::move(message)}; }
inline Status unsupported(std::string message) { return {StatusCode::kUnsupported, std::move(message)}; }
inline Status io_error(std::string message) { return {StatusCode::kIoError, std::move(message)}; }

// A value or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {
    DI_CHECK(!std::get<1>(state_).ok(), "a Result needs a value or an error");
  }

  bool ok() const { return state_.index() == 0; }
  Status status() const { return ok() ? Status() : std::get<1>(state_); }
  T& value() & {
    DI_CHECK(ok(), std::get<1>(state_).message());
    return std::get<0>(state_);
  }
  const T& value() const& {
    DI_CHECK(ok(), std::get<1>(state_).message());
    return std::get<0>(state_);
  }
  T&& value() && {
    DI_CHECK(ok(), std::get<1>(state_).message());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace deepinfer

#define DI_RETURN_IF_ERROR(expression)                       \
  do {                                                       \
    if (::deepinfer::Status di_status = (expression); !di_status.ok()) return di_status; \
  } while (false)

#define DI_CONCAT_INNER(a, b) a##b
#define DI_CONCAT(a, b) DI_CONCAT_INNER(a, b)
// DI_ASSIGN_OR_RETURN(auto x, make_x());
#define DI_ASSIGN_OR_RETURN(declaration, expression)                       \
  auto DI_CONCAT(di_result_, __LINE__) = (expression);                     \
  if (!DI_CONCAT(di_result_, __LINE__).ok()) return DI_CONCAT(di_result_, __LINE__).status(); \
  declaration = std::move(DI_CONCAT(di_result_, __LINE__)).value()
