#include "engine/tiers/file_io.h"

#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>

#include "base/check.h"

namespace deepinfer {
namespace {

enum class Direction { kRead, kWrite };

// One piece from `done` on, with pread or pwrite.
void move_rest(IoPiece& piece, size_t done, Direction direction) {
  while (done < piece.bytes) {
    std::byte* const memory = piece.memory + done;
    const auto offset = static_cast<off_t>(piece.offset + done);
    const ssize_t moved = direction == Direction::kRead ? ::pread(piece.file, memory, piece.bytes - done, offset)
                                                        : ::pwrite(piece.file, memory, piece.bytes - done, offset);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) {
      piece.error = moved < 0 ? errno : EIO;
      return;
    }
    done += static_cast<size_t>(moved);
  }
}

class PreadIo final : public FileIo {
 public:
  void read(std::span<IoPiece> pieces) override {
    for (IoPiece& piece : pieces) move_rest(piece, 0, Direction::kRead);
  }
  void write(std::span<IoPiece> pieces) override {
    for (IoPiece& piece : pieces) move_rest(piece, 0, Direction::kWrite);
  }
  std::string_view name() const override { return "pread"; }
};

class UringIo final : public FileIo {
 public:
  static std::unique_ptr<UringIo> create() {
    auto io = std::unique_ptr<UringIo>(new UringIo);
    io->open_ = io_uring_queue_init(kDepth, &io->ring_, 0) == 0;
    if (!io->open_ || !io->works()) return nullptr;
    return io;
  }
  ~UringIo() override {
    if (open_) io_uring_queue_exit(&ring_);
  }

  void read(std::span<IoPiece> pieces) override { run(pieces, Direction::kRead); }
  void write(std::span<IoPiece> pieces) override { run(pieces, Direction::kWrite); }
  std::string_view name() const override { return "io_uring"; }

 private:
  static constexpr unsigned kDepth = 64;
  static constexpr size_t kMostBytes = size_t{1} << 30;  // of one operation

  UringIo() = default;

  // Some sandboxes let rings be made and not be used.
  bool works() {
    io_uring_prep_nop(io_uring_get_sqe(&ring_));
    io_uring_cqe* done = nullptr;
    if (io_uring_submit_and_wait(&ring_, 1) != 1 || io_uring_peek_cqe(&ring_, &done) != 0) return false;
    io_uring_cqe_seen(&ring_, done);
    return true;
  }

  void run(std::span<IoPiece> pieces, Direction direction) {
    size_t next = 0;
    unsigned in_flight = 0;
    while (next < pieces.size() || in_flight > 0) {
      while (next < pieces.size() && in_flight < kDepth) {
        io_uring_sqe* entry = io_uring_get_sqe(&ring_);
        if (entry == nullptr) break;
        IoPiece& piece = pieces[next++];
        const auto bytes = static_cast<unsigned>(std::min(piece.bytes, kMostBytes));
        if (direction == Direction::kRead) {
          io_uring_prep_read(entry, piece.file, piece.memory, bytes, piece.offset);
        } else {
          io_uring_prep_write(entry, piece.file, piece.memory, bytes, piece.offset);
        }
        io_uring_sqe_set_data(entry, &piece);
        ++in_flight;
      }
      int submitted = 0;
      do {
        submitted = io_uring_submit_and_wait(&ring_, 1);
      } while (submitted == -EINTR || submitted == -EAGAIN || submitted == -EBUSY);
      DI_CHECK(submitted >= 0, "io_uring takes operations");  // memory of pieces is the kernel's: no way back
      io_uring_cqe* done = nullptr;
      while (io_uring_peek_cqe(&ring_, &done) == 0) {
        auto& piece = *static_cast<IoPiece*>(io_uring_cqe_get_data(done));
        const int moved = done->res;
        io_uring_cqe_seen(&ring_, done);
        --in_flight;
        // Short transfers, and what this kernel's io_uring does not do, the plain way; it reports real errors too.
        const size_t had = moved > 0 ? static_cast<size_t>(moved) : 0;
        if (had < piece.bytes) move_rest(piece, had, direction);
      }
    }
  }

  io_uring ring_{};
  bool open_ = false;
};

}  // namespace

std::unique_ptr<FileIo> make_file_io(KvDiskIo io) {
  if (io != KvDiskIo::kPread) {
    if (auto uring = UringIo::create()) return uring;
    if (io == KvDiskIo::kUring) return nullptr;
  }
  return std::make_unique<PreadIo>();
}

}  // namespace deepinfer
