// The GPU's memory behind tensor/memory.h: what it has room for, and files on their way into it.
#include <algorithm>
#include <fstream>
#include <random>

#include "backends/cuda_backends.h"
#include "tensor/buffer.h"
#include "tensor/file_piece.h"
#include "tensor/temporary_folder.h"

namespace deepinfer {
namespace {

class CudaMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (!make_cuda_ops().ok()) GTEST_SKIP() << make_cuda_ops().status().to_string();
  }
};

TEST_F(CudaMemory, RoomKeepsToTheShare) {
  const auto whole = make_cuda_ops({}, true, 1).value();
  const auto half = make_cuda_ops({}, true, 0.5).value();
  const MemoryRoom all = whole->memory().room().value(), some = half->memory().room().value();
  EXPECT_EQ(all.granted, all.total);
  EXPECT_EQ(some.granted, all.total / 2);
  EXPECT_LE(some.free, some.granted);
  constexpr uint64_t kBytes = uint64_t{64} << 20;
  const Buffer buffer = Buffer::allocate(kBytes, whole->memory()).value();
  EXPECT_LE(whole->memory().room()->free, all.free - kBytes);
}

// Enough for several threads; pieces of all sizes, in an order of their own, with bytes between them that stay.
TEST_F(CudaMemory, LoadsPiecesOfFiles) {
  const TemporaryFolder folder;
  constexpr size_t kBytes = size_t{300} << 20;
  std::mt19937_64 random(7);
  std::vector<uint64_t> words(kBytes / 8);
  for (uint64_t& word : words) word = random();
  std::vector<MappedFile> files;
  for (const char* name : {"a", "b"}) {
    std::ofstream(folder / name, std::ios::binary).write(reinterpret_cast<const char*>(words.data()), kBytes);
    files.push_back(MappedFile::open(folder / name).value());
  }

  const auto ops = make_cuda_ops().value();
  Memory& memory = ops->memory();
  Buffer there = Buffer::allocate(2 * kBytes, memory).value();
  std::vector<uint8_t> want(2 * kBytes);  // zeros, as the buffer's
  std::vector<FilePiece> pieces;
  for (size_t f = 0; f < files.size(); ++f) {
    for (size_t at = random() % 100; at < kBytes;) {
      const size_t most = random() % 4 == 0 ? size_t{20} << 20 : 5000;
      const size_t bytes = std::min(kBytes - at, 1 + random() % most);
      pieces.push_back({&files[f], at, bytes, there.data() + f * kBytes + at});
      std::copy_n(reinterpret_cast<const uint8_t*>(words.data()) + at, bytes, want.data() + f * kBytes + at);
      at += bytes + random() % 1000;
    }
  }
  std::shuffle(pieces.begin(), pieces.end(), random);
  ASSERT_TRUE(memory.load(pieces).ok());
  std::vector<uint8_t> got(want.size());
  memory.read(got.data(), there.data(), got.size());
  EXPECT_TRUE(got == want);
}

TEST_F(CudaMemory, SaysWhichFileIsTooShort) {
  const TemporaryFolder folder;
  std::ofstream(folder / "short") << "ten bytes.";
  const MappedFile file = MappedFile::open(folder / "short").value();
  std::filesystem::resize_file(folder / "short", 4);
  const auto ops = make_cuda_ops().value();
  Buffer there = Buffer::allocate(10, ops->memory()).value();
  const FilePiece piece{&file, 0, 10, there.data()};
  const Status status = ops->memory().load({&piece, 1});
  EXPECT_EQ(status.code(), StatusCode::kCorruptFile);
  EXPECT_NE(status.message().find("short"), std::string::npos) << status.message();
  EXPECT_TRUE(ops->health().ok());
}

}  // namespace
}  // namespace deepinfer
