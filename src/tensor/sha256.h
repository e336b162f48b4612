// SHA-256, and the check of a model folder against its SHA256SUMS.  Used by `deepinfer inspect --verify`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/status.h"

namespace deepinfer {

class Sha256 {
 public:
  using Digest = std::array<uint8_t, 32>;

  // portable: without the CPU's SHA instructions, which are used where they exist.
  explicit Sha256(bool portable = false) : portable_(portable) {}

  void update(std::span<const std::byte> bytes);
  Digest finish();  // ends the message; the object is not used afterwards

 private:
  std::array<uint32_t, 8> state_{0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                                 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};
  std::array<std::byte, 64> pending_{};
  size_t pending_bytes_ = 0;
  uint64_t total_bytes_ = 0;
  bool portable_;
};

std::string to_hex(const Sha256::Digest& digest);

struct ChecksumProgress {
  const std::string& file;  // plain name
  uint64_t bytes_done;      // over all files
  uint64_t bytes_total;
};

struct ChecksumMismatch {
  std::string file;
  std::string problem;  // "expected 12ab.., found 34cd..", "missing", ...
};

struct ChecksumReport {
  std::vector<std::string> verified;         // files that match, in the order of SHA256SUMS
  std::vector<ChecksumMismatch> mismatches;  // empty: all is well
};

// Reads folder/SHA256SUMS ("<64 hex digits><space><space or *><file in the folder>" a line) and every file that it
// lists. on_progress is called at least once per file and per 64 MiB; returning false ends the check with kCancelled.
// Errors: kNotFound without SHA256SUMS, kCorruptFile when a line is malformed or a name is listed twice.
Result<ChecksumReport> verify_checksums(const std::string& folder,
                                        FunctionRef<bool(const ChecksumProgress&)> on_progress);

}  // namespace deepinfer
