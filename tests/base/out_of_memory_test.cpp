// Memory that cannot be had: an error that says what for, never an exception.
#include "base/out_of_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "base/allocation_count.h"
#include "base/bounded_file.h"
#include "base/caught_exception.h"
#include "tensor/temporary_folder.h"

namespace deepinfer {
namespace {

TEST(OutOfMemory, WorkIsHandedThrough) {
  EXPECT_EQ(or_out_of_memory([] { return "x"; }, [] { return Result<int>(7); }).value(), 7);
  const Status status = or_out_of_memory([] { return "x"; }, [] { return not_found("y"); });
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
}

TEST(OutOfMemory, BothExceptionsBecomeOneError) {
  const auto status = [](uint64_t elements) {
    return or_out_of_memory([&] { return std::to_string(elements) + " numbers"; },
                            [&]() -> Status {
                              std::vector<double>().reserve(elements);
                              return {};
                            });
  };
  const Status length = status(uint64_t{1} << 62);  // std::length_error
  EXPECT_EQ(length.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(length.message(), "not enough memory for 4611686018427387904 numbers");
  const FailedAllocation failed(0);
  EXPECT_EQ(status(1000).message(), "not enough memory for 1000 numbers");
  EXPECT_TRUE(failed.happened());
}

TEST(OutOfMemory, TheMessageItselfMayFindNone) {
  const auto describe = []() -> std::string { throw std::bad_alloc(); };
  const Status status = or_out_of_memory(describe, []() -> Status { throw std::bad_alloc(); });
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "out of memory");
}

TEST(OutOfMemory, AnExceptionAtTheBottomOfAThread) {
  const auto caught = [](auto fail) {
    try {
      fail();
    } catch (...) {
      return caught_exception("planning a step");
    }
    return Status();
  };
  const Status memory = caught([] { throw std::bad_alloc(); });
  EXPECT_EQ(memory.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(memory.message(), "planning a step: not enough memory");
  const Status thread = caught(
      [] { throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again), "thread"); });
  EXPECT_EQ(thread.code(), StatusCode::kResourceExhausted);
  const Status other = caught([] { throw std::runtime_error("what it says"); });
  EXPECT_EQ(other.code(), StatusCode::kInternal);
  EXPECT_EQ(other.message(), "planning a step: what it says");
  EXPECT_EQ(caught([] { throw 42; }).message(), "planning a step: an exception of an unknown type");
  const FailedAllocation none(0, 1000);
  EXPECT_EQ(caught([] { throw std::bad_alloc(); }).message(), "out of memory");
  EXPECT_EQ(copy_without_fail(memory).message(), "out of memory");
  EXPECT_EQ(copy_without_fail(memory).code(), StatusCode::kResourceExhausted);
}

TEST(OutOfMemory, ReadingAFileNamesItsSize) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.write("a.json", std::string(5000, ' '));
  std::vector<std::string> messages;
  for (int64_t nth = 0;; ++nth) {
    const FailedAllocation failed(nth);
    const Result<std::string> text = read_bounded_file(path, 1 << 20);
    if (!failed.happened()) break;
    EXPECT_EQ(text.status().code(), StatusCode::kResourceExhausted);
    messages.push_back(text.status().message());
  }
  ASSERT_FALSE(messages.empty());
  EXPECT_EQ(messages.back(), "not enough memory for the 5000 bytes of " + path.string());
}

}  // namespace
}  // namespace deepinfer
