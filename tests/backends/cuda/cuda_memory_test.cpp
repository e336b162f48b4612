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

// FP4 experts and Engram rows, read from the file into memory of the host that kernels reach, give the bits that they
// give in the device's memory.
TEST_F(CudaMemory, KernelsReadWeightsOfTheHost) {
  constexpr int64_t kD = 256, kWidth = 128, kExperts = 4, kTop = 2, kRows = 40;
  constexpr int64_t kMatrix = kD * kWidth / 2, kScales = kD * kWidth / 32, kTable = 64;
  const auto ops = make_cuda_ops().value();
  ASSERT_TRUE(ops->prepare({.rows = kRows,
                            .max_k = kD,
                            .max_n = kD,
                            .heads = 64,
                            .head_dim = 512,
                            .experts = kExperts,
                            .experts_per_token = kTop,
                            .expert_width = kWidth,
                            .hidden = kD,
                            .vocabulary = 256})
                  .ok());
  std::mt19937_64 random(11);
  // Of each expert w1, w3, w2; then the table.  Scales from 2^-2 to 2^1.
  std::vector<uint8_t> stored(kExperts * 3 * (kMatrix + kScales) + kTable * (kD + kD / 32));
  for (uint8_t& byte : stored) byte = static_cast<uint8_t>(125 + random() % 4);
  for (int64_t m = 0; m < kExperts * 3; ++m)
    std::generate_n(stored.begin() + m * (kMatrix + kScales), kMatrix, [&] { return static_cast<uint8_t>(random()); });
  std::generate_n(stored.begin() + kExperts * 3 * (kMatrix + kScales), kTable * kD,
                  [&] { return static_cast<uint8_t>(random() % 0x70); });
  const TemporaryFolder folder;
  folder.write("weights", {reinterpret_cast<const char*>(stored.data()), stored.size()});
  const MappedFile file = MappedFile::open(folder / "weights").value();

  Memory& memory = ops->memory();
  std::vector<uint16_t> x(kRows * kD), mixed[2], gathered[2];
  for (uint16_t& value : x) value = static_cast<uint16_t>((random() % 2 << 15) | 0x3f80);  // 1 or -1
  std::vector<int32_t> expert;
  std::vector<int64_t> row;
  for (int64_t i = 0; i < kRows; ++i) {
    const auto first = static_cast<int32_t>(random() % kExperts);
    expert.insert(expert.end(), {first, (first + 1) % static_cast<int32_t>(kExperts)});
    row.push_back(static_cast<int64_t>(random() % (kTable + 2)) - 1);  // some lie outside
  }
  const std::vector<float> weight(kRows * kTop, 0.5F);
  Buffer operands = Buffer::allocate(3 * kRows * kD * 2 + kRows * kTop * 8, memory).value();
  auto* const there_x = reinterpret_cast<bf16*>(operands.data());
  bf16 *const there_y = there_x + kRows * kD, *const there_e = there_y + kRows * kD;
  auto* const there_expert = reinterpret_cast<int32_t*>(there_e + kRows * kD);
  auto* const there_weight = reinterpret_cast<float*>(there_expert + kRows * kTop);
  memory.write(there_x, x.data(), x.size() * 2);
  memory.write(there_expert, expert.data(), expert.size() * 4);
  memory.write(there_weight, weight.data(), weight.size() * 4);
  for (const bool host : {false, true}) {
    Memory& place = host ? ops->reachable_host_memory() : memory;
    EXPECT_EQ(place.is_host(), host);
    const Buffer weights = Buffer::allocate(stored.size(), place).value();
    const FilePiece piece{&file, 0, stored.size(), const_cast<std::byte*>(weights.data())};
    ASSERT_TRUE(place.load({&piece, 1}).ok());
    const auto* at = weights.as<uint8_t>();
    const auto matrix = [&](int64_t n, int64_t k) {
      const LinearWeight w{LinearWeight::Format::kFp4, n, k, at, at + kMatrix};
      at += kMatrix + kScales;
      return w;
    };
    std::vector<ExpertWeights> experts(kExperts);
    for (ExpertWeights& e : experts) {
      e.w1 = matrix(kWidth, kD);
      e.w3 = matrix(kWidth, kD);
      e.w2 = matrix(kD, kWidth);
    }
    for (const int64_t rows : {int64_t{3}, kRows}) {
      ops->mixture_of_experts({.x = {there_x, rows, kD},
                               .expert = {there_expert, rows, kTop},
                               .weight = {there_weight, rows, kTop},
                               .experts = experts.data(),
                               .expert_count = static_cast<int>(kExperts),
                               .shared = {},
                               .limit = 10,
                               .y = {there_y, rows, kD}});
      std::vector<uint16_t>& y = mixed[host ? 1 : 0];
      y.resize(y.size() + static_cast<size_t>(rows * kD));
      memory.read(y.data() + y.size() - rows * kD, there_y, static_cast<size_t>(rows * kD) * 2);
    }
    ops->engram_gather({.table = {at, at + kTable * kD, kTable, kD, true},
                        .row = row.data(),
                        .lookups = 1,
                        .e = {there_e, kRows, kD}});
    gathered[host ? 1 : 0].resize(kRows * kD);
    memory.read(gathered[host ? 1 : 0].data(), there_e, kRows * kD * 2);
    EXPECT_TRUE(ops->health().ok()) << ops->health().message();
  }
  EXPECT_TRUE(mixed[0] == mixed[1]);
  EXPECT_TRUE(gathered[0] == gathered[1]);
  EXPECT_GT(std::count_if(mixed[1].begin(), mixed[1].end(), [](uint16_t bits) { return (bits & 0x7fff) != 0; }), 1000);
  EXPECT_GT(std::count_if(gathered[1].begin(), gathered[1].end(), [](uint16_t bits) { return bits != 0; }), 1000);
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
