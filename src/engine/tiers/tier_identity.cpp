#include "engine/tiers/tier_identity.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace deepinfer {
namespace {

namespace fs = std::filesystem;

class OpenFile {
 public:
  explicit OpenFile(const fs::path& path) : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() {
    if (file_ >= 0) ::close(file_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int get() const { return file_; }

 private:
  int file_;
};

Status failure(const fs::path& path) {
  return io_error(fmt::format("{}: {}", path.string(), std::strerror(errno)));
}

// Adds [offset, offset + bytes) of a file to a hash, as far as the file goes.
bool hash_part(int file, uint64_t offset, uint64_t bytes, XXH3_state_t& state) {
  std::vector<char> buffer(std::min<uint64_t>(bytes, uint64_t{1} << 20));
  while (bytes > 0) {
    const ssize_t got =
        ::pread(file, buffer.data(), std::min<uint64_t>(bytes, buffer.size()), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) return true;
    XXH3_128bits_update(&state, buffer.data(), static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<uint64_t>(got);
  }
  return true;
}

std::string digest(const XXH3_state_t& state) {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

enum class TimesOfChange { kIncluded, kLeftOut };

Result<std::string> evidence(const fs::path& path, TimesOfChange times) {
  const OpenFile file(path);
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) return failure(path);
  const auto size = static_cast<uint64_t>(status.st_size);
  constexpr uint64_t kPiece = 4096;
  uint64_t header = 0;
  if (::pread(file.get(), &header, sizeof header, 0) < 0) return failure(path);
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  bool read = hash_part(file.get(), 0, std::min(size, 8 + std::min(header, size)), state);
  for (uint64_t i = 0; i < kEvidencePieces && read; ++i)
    read = hash_part(file.get(), size / kEvidencePieces * i, kPiece, state);
  if (!read) return failure(path);
  if (times == TimesOfChange::kLeftOut) return fmt::format("{} bytes, {}", size, digest(state));
  return fmt::format("{} bytes, changed {}.{:09}, {}", size, static_cast<int64_t>(status.st_mtim.tv_sec),
                     static_cast<int64_t>(status.st_mtim.tv_nsec), digest(state));
}

Result<std::string> identity_of(const fs::path& folder, TimesOfChange times) {
  std::string identity;
  for (const char* name : {"config.json", "tokenizer.json", "engram_token_map.json", "model.safetensors.index.json"}) {
    std::error_code error;
    if (!fs::exists(folder / name, error)) continue;
    DI_ASSIGN_OR_RETURN(const std::string hash, checksum_of_file(folder / name));
    identity += fmt::format("{}: {}\n", name, hash);
  }
  std::vector<fs::path> shards;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".safetensors") shards.push_back(entry->path());
  }
  if (error) return io_error(fmt::format("{}: {}", folder.string(), error.message()));
  std::sort(shards.begin(), shards.end());
  for (const fs::path& shard : shards) {
    DI_ASSIGN_OR_RETURN(const std::string line, evidence(shard, times));
    identity += fmt::format("{}: {}\n", shard.filename().string(), line);
  }
  return identity;
}

}  // namespace

Result<std::string> checksum_of_file(const fs::path& path) {
  const OpenFile file(path);
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  if (file.get() < 0 || !hash_part(file.get(), 0, UINT64_MAX / 2, state)) return failure(path);
  return digest(state);
}

Result<std::string> model_identity(const fs::path& folder) {
  return identity_of(folder, TimesOfChange::kIncluded);
}

Result<std::string> model_contents_checksum(const fs::path& folder) {
  DI_ASSIGN_OR_RETURN(const std::string identity, identity_of(folder, TimesOfChange::kLeftOut));
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  XXH3_128bits_update(&state, identity.data(), identity.size());
  return digest(state);
}

Result<std::string> program_checksum() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&program_checksum), &info) == 0 || info.dli_fname == nullptr)
    return io_error("the program's own file cannot be found");
  // A program's own name may be relative to a folder that is no longer the current one.
  const fs::path own = "/proc/self/exe";
  const fs::path named(info.dli_fname);
  const bool library = named.is_absolute() && named.string().find(".so") != std::string::npos;
  return checksum_of_file(library ? named : own);
}

Result<std::string> program_identity() {
  DI_ASSIGN_OR_RETURN(const std::string hash, program_checksum());
  return fmt::format("program: {}\n", hash);
}

}  // namespace deepinfer
