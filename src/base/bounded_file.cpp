#include "base/bounded_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/out_of_memory.h"

namespace deepinfer {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

std::string reason(int error) {
  return std::generic_category().message(error);
}

Result<std::string> read_whole(const std::string& name, uint64_t most_bytes) {
  // O_NONBLOCK: a named pipe without a writer must be refused below, not waited for.
  const Descriptor file(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) return not_found(name + ": no such file");
    return io_error(name + ": cannot open: " + reason(error));
  }
  struct stat state;
  if (::fstat(file.number(), &state) != 0) return io_error(name + ": cannot stat: " + reason(errno));
  if (!S_ISREG(state.st_mode)) return invalid_argument(name + ": not a regular file");
  const auto size = static_cast<uint64_t>(state.st_size);
  if (size > most_bytes)
    return corrupt_file(name + ": has " + std::to_string(size) + " bytes; allowed: at most " +
                        std::to_string(most_bytes));
  return or_out_of_memory([&] { return "the " + std::to_string(size) + " bytes of " + name; },
                          [&]() -> Result<std::string> {
                            std::string text(size, '\0');
                            for (uint64_t done = 0; done < size;) {
                              const ssize_t got = ::read(file.number(), text.data() + done, size - done);
                              if (got < 0 && errno == EINTR) continue;
                              if (got < 0) return io_error(name + ": cannot read: " + reason(errno));
                              if (got == 0) return io_error(name + ": became shorter while it was read");
                              done += static_cast<uint64_t>(got);
                            }
                            return text;
                          });
}

}  // namespace

Result<std::string> read_bounded_file(const std::filesystem::path& path, uint64_t most_bytes) {
  return or_out_of_memory([] { return "reading a file"; }, [&] { return read_whole(path.string(), most_bytes); });
}

}  // namespace deepinfer
