#include "tensor/buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

namespace deepinfer {
namespace {

TEST(Buffer, IsZeroedAndAligned) {
  for (const uint64_t bytes :
       {uint64_t{1}, uint64_t{63}, uint64_t{64}, uint64_t{1000}, uint64_t{Buffer::kLarge - 1}, uint64_t{Buffer::kLarge},
        uint64_t{Buffer::kHugePage}, uint64_t{Buffer::kHugePage + 1}, uint64_t{9'000'000}}) {
    Result<Buffer> buffer = Buffer::allocate(bytes);
    ASSERT_TRUE(buffer.ok()) << bytes;
    EXPECT_EQ(buffer->size(), bytes);
    const size_t alignment = bytes >= Buffer::kLarge ? Buffer::kHugePage : Buffer::kAlignment;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % alignment, 0u) << bytes;
    const std::byte* begin = buffer->data();
    EXPECT_TRUE(std::all_of(begin, begin + bytes, [](std::byte b) { return b == std::byte{0}; })) << bytes;
    buffer->data()[bytes - 1] = std::byte{1};
  }
}

TEST(Buffer, Moves) {
  Buffer a = Buffer::allocate(128).value();
  a.as<float>()[3] = 2.5f;
  Buffer b = std::move(a);
  EXPECT_EQ(a.data(), nullptr);
  EXPECT_EQ(a.size(), 0u);
  EXPECT_EQ(b.as<float>()[3], 2.5f);
  b = Buffer::allocate(3 * Buffer::kHugePage).value();
  EXPECT_EQ(b.as<float>()[3], 0.0f);
  b = Buffer();
  EXPECT_EQ(b.data(), nullptr);
}

TEST(Buffer, EmptyAndTooLarge) {
  EXPECT_EQ(Buffer::allocate(0)->data(), nullptr);
  for (const uint64_t bytes : {std::numeric_limits<uint64_t>::max(), uint64_t{1} << 62}) {
    const Result<Buffer> buffer = Buffer::allocate(bytes);
    ASSERT_FALSE(buffer.ok());
    EXPECT_EQ(buffer.status().code(), StatusCode::kResourceExhausted);
    EXPECT_NE(buffer.status().message().find(std::to_string(bytes)), std::string::npos);
  }
}

}  // namespace
}  // namespace deepinfer
