// SHA-256 against the published test vectors, both implementations against each other, and a folder against SHA256SUMS.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "safetensors_file.h"
#include "temporary_folder.h"
#include "tensor/sha256.h"

namespace deepinfer {
namespace {

std::string hash_of(std::string_view text, bool portable) {
  Sha256 hash(portable);
  hash.update(as_bytes(text));
  return to_hex(hash.finish());
}

TEST(Sha256, PublishedVectors) {  // FIPS 180-4 examples and their long-message companion
  for (const bool portable : {false, true}) {
    EXPECT_EQ(hash_of("", portable), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(hash_of("abc", portable), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", portable),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(hash_of(std::string(1'000'000, 'a'), portable),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  }
}

TEST(Sha256, PiecesGiveTheWhole) {
  std::mt19937 random(7);
  std::string text(1000, '\0');
  for (char& c : text) c = static_cast<char>(random());
  for (size_t size = 0; size <= 200; ++size) {
    const std::string_view message(text.data(), size);
    const std::string expected = hash_of(message, true);
    EXPECT_EQ(hash_of(message, false), expected) << size;
    Sha256 hash;
    for (size_t done = 0; done < size;) {
      const size_t count = std::min<size_t>(size - done, random() % 70);
      hash.update(as_bytes(message.substr(done, count)));
      done += count;
    }
    EXPECT_EQ(to_hex(hash.finish()), expected) << size;
  }
}

const auto kGoOn = [](const ChecksumProgress&) { return true; };
constexpr char kAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Checksums, FindsWhatDiffersAndWhatIsMissing) {
  const TemporaryFolder folder;
  folder.write("good", "abc");
  folder.write("other", "abd");
  folder.write("SHA256SUMS", std::string(kAbc) + "  good\n" + kAbc + " *./other\n" + kAbc + "  none\n");
  std::vector<std::string> progress;
  const Result<ChecksumReport> report = verify_checksums(folder.path(), [&](const ChecksumProgress& p) {
    progress.push_back(p.file + " " + std::to_string(p.bytes_done) + "/" + std::to_string(p.bytes_total));
    return true;
  });
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->verified, std::vector<std::string>{"good"});
  ASSERT_EQ(report->mismatches.size(), 2u);
  EXPECT_EQ(report->mismatches[0].file, "other");
  EXPECT_EQ(report->mismatches[0].problem.find(std::string("expected SHA-256 ") + kAbc + ", found "), 0u);
  EXPECT_EQ(report->mismatches[1].file, "none");
  EXPECT_EQ(report->mismatches[1].problem, "missing");
  EXPECT_EQ(progress, (std::vector<std::string>{"good 0/6", "good 3/6", "other 3/6", "other 6/6"}));
}

TEST(Checksums, CanBeCancelled) {
  const TemporaryFolder folder;
  folder.write("good", "abc");
  folder.write("SHA256SUMS", std::string(kAbc) + "  good\n");
  const auto report = verify_checksums(folder.path(), [](const ChecksumProgress&) { return false; });
  EXPECT_EQ(report.status().code(), StatusCode::kCancelled);
}

TEST(Checksums, RefusesMalformedLists) {
  const TemporaryFolder folder;
  EXPECT_EQ(verify_checksums(folder.path(), kGoOn).status().code(), StatusCode::kNotFound);
  const std::string abc = kAbc;
  for (const std::string& line :
       {std::string("nonsense"), abc, abc + " good", abc + "  ", abc.substr(1) + "  good", abc + "  /etc/passwd",
        abc + "  ../x", abc + "  a/../../x", abc + "  a//b", abc + "  a/",
        std::string("g").append(abc.substr(1)).append("  good"), std::string(), abc + "  good\n" + abc + "  ./good"}) {
    folder.write("SHA256SUMS", line + "\n");
    const Result<ChecksumReport> report = verify_checksums(folder.path(), kGoOn);
    EXPECT_EQ(report.status().code(), StatusCode::kCorruptFile) << line;
    EXPECT_NE(report.status().message().find("SHA256SUMS: line "), std::string::npos) << report.status().message();
  }
}

TEST(Checksums, TheDemonstrationModelIsIntact) {
  const Result<ChecksumReport> report = verify_checksums(DEEPINFER_TEST_MODEL, kGoOn);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(report->mismatches.empty());
  EXPECT_GE(report->verified.size(), 8u);
}

}  // namespace
}  // namespace deepinfer
