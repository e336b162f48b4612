#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "base/bounded_file.h"
#include "base/out_of_memory.h"
#include "tensor/mapped_file.h"
#include "tensor/name_table.h"
#include "tensor/quoted_name.h"
#include "tensor/sha256.h"

namespace deepinfer {
namespace {

constexpr char kListName[] = "SHA256SUMS";
constexpr uint64_t kMaxListBytes = 16'000'000;
constexpr size_t kReadBytes = size_t{4} << 20;
constexpr uint64_t kBytesPerProgress = uint64_t{64} << 20;
constexpr size_t kDigestDigits = 64;

struct ListedFile {
  std::string digest;  // lower case
  std::string name;
};

// A file of the folder or of its subfolders: no empty, "." or ".." component, not absolute.
bool stays_in_folder(std::string_view name) {
  while (true) {
    const size_t slash = name.find('/');
    const std::string_view component = name.substr(0, slash);
    if (component.empty() || component == "." || component == "..") return false;
    if (slash == std::string_view::npos) return true;
    name.remove_prefix(slash + 1);
  }
}

std::optional<ListedFile> parse_line(std::string_view line) {
  if (line.size() < kDigestDigits + 3 || line[kDigestDigits] != ' ') return std::nullopt;
  if (line[kDigestDigits + 1] != ' ' && line[kDigestDigits + 1] != '*') return std::nullopt;
  ListedFile file{std::string(line.substr(0, kDigestDigits)), std::string(line.substr(kDigestDigits + 2))};
  for (char& c : file.digest) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return std::nullopt;
  }
  if (file.name.starts_with("./")) file.name.erase(0, 2);
  if (!stays_in_folder(file.name) || file.name.find('\0') != std::string::npos) return std::nullopt;
  return file;
}

Result<std::vector<ListedFile>> read_list(const std::string& path) {
  DI_ASSIGN_OR_RETURN(const std::string list, read_bounded_file(path, kMaxListBytes));
  std::string_view text = list;

  std::vector<ListedFile> files;
  NameTable seen;
  const auto name_of = [&](uint32_t i) -> std::string_view { return files[i].name; };
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t length = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    const std::string place = path + ": line " + std::to_string(number);
    std::optional<ListedFile> listed = parse_line(line);
    if (!listed.has_value()) {
      return corrupt_file(place + ": must be 64 hexadecimal digits, two spaces and the name of a file in the folder");
    }
    files.push_back(*std::move(listed));
    if (seen.insert(files.back().name, static_cast<uint32_t>(files.size() - 1), name_of).has_value()) {
      return corrupt_file(place + ": " + quoted_name(files.back().name) + " is listed twice");
    }
  }
  return files;
}

// Reads by read calls, not through the map: a file that shrinks is a mismatch here, not the end of the process.
class FileDigester {
 public:
  FileDigester(uint64_t bytes_total, FunctionRef<bool(const ChecksumProgress&)> on_progress)
      : buffer_(new std::byte[kReadBytes]), bytes_total_(bytes_total), on_progress_(on_progress) {}

  Result<std::string> digest(const std::string& path, const std::string& name) {
    DI_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
    Sha256 hash;
    uint64_t reported = 0;
    DI_RETURN_IF_ERROR(report(name));
    for (uint64_t offset = 0; offset < file.size();) {
      const uint64_t count = std::min<uint64_t>(kReadBytes, file.size() - offset);
      file.prefetch(offset + count, kReadBytes);
      const std::span<std::byte> part(buffer_.get(), count);
      DI_RETURN_IF_ERROR(file.copy(offset, part));
      hash.update(part);
      offset += count;
      bytes_done_ += count;
      if (offset - reported >= kBytesPerProgress) {
        reported = offset;
        DI_RETURN_IF_ERROR(report(name));
      }
    }
    DI_RETURN_IF_ERROR(report(name));
    return to_hex(hash.finish());
  }

 private:
  Status report(const std::string& name) {
    if (on_progress_({name, bytes_done_, bytes_total_})) return {};
    return {StatusCode::kCancelled, "the check of " + name + " was cancelled"};
  }

  std::unique_ptr<std::byte[]> buffer_;
  uint64_t bytes_done_ = 0;
  uint64_t bytes_total_;
  FunctionRef<bool(const ChecksumProgress&)> on_progress_;
};

Result<ChecksumReport> verify_folder(const std::string& folder,
                                     FunctionRef<bool(const ChecksumProgress&)> on_progress) {
  DI_ASSIGN_OR_RETURN(const std::vector<ListedFile> files, read_list(folder + "/" + kListName));
  uint64_t bytes_total = 0;
  for (const ListedFile& file : files) {
    std::error_code error;
    const uint64_t bytes = std::filesystem::file_size(folder + "/" + file.name, error);
    if (!error) bytes_total += bytes;
  }
  ChecksumReport report;
  FileDigester digester(bytes_total, on_progress);
  for (const ListedFile& file : files) {
    const Result<std::string> digest = digester.digest(folder + "/" + file.name, file.name);
    if (!digest.ok()) {
      if (digest.status().code() == StatusCode::kCancelled) return digest.status();
      const bool missing = digest.status().code() == StatusCode::kNotFound;
      report.mismatches.push_back({file.name, missing ? "missing" : digest.status().message()});
    } else if (*digest != file.digest) {
      report.mismatches.push_back({file.name, "expected SHA-256 " + file.digest + ", found " + *digest});
    } else {
      report.verified.push_back(file.name);
    }
  }
  return report;
}

}  // namespace

Result<ChecksumReport> verify_checksums(const std::string& folder,
                                        FunctionRef<bool(const ChecksumProgress&)> on_progress) {
  return or_out_of_memory([&] { return "the list of files of " + folder; },
                          [&] { return verify_folder(folder, on_progress); });
}

}  // namespace deepinfer
