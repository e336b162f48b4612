#include "tensor/memory.h"

#include <algorithm>
#include <vector>

#include "base/out_of_memory.h"
#include "tensor/file_piece.h"

namespace deepinfer {

Status Memory::load(std::span<const FilePiece> pieces) {
  constexpr uint64_t kPart = uint64_t{4} << 20;
  return or_out_of_memory([] { return std::string("a buffer for reading weights"); },
                          [&]() -> Status {
                            std::vector<std::byte> buffer;
                            for (const FilePiece& piece : pieces) {
                              for (uint64_t done = 0; done < piece.bytes; done += buffer.size()) {
                                buffer.resize(std::min(kPart, piece.bytes - done));
                                DI_RETURN_IF_ERROR(piece.file->copy(piece.offset + done, buffer));
                                write(piece.to + done, buffer.data(), buffer.size());
                              }
                            }
                            finish();
                            return {};
                          });
}

}  // namespace deepinfer
