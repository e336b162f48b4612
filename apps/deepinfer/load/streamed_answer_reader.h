// Reads answers of a server as they come: HTTP/1.1, status 200, a stream of events in chunks.  Called by the client of
// `deepinfer bench serve`, which costs the machine that it measures as little as it can.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "base/status.h"

namespace deepinfer::cli {

class StreamedAnswerReader {
 public:
  // The next bytes of the connection.  on_event gets the data of each event (`data: ...`), comments left out.  An
  // error: what came is no such answer; the message has its first bytes.
  Status read(std::string_view bytes, FunctionRef<void(std::string_view data)> on_event);
  // The answer is whole.  The next bytes begin another one.
  bool ended() const { return part_ == Part::kHead && input_.empty() && answers_ > 0; }

 private:
  enum class Part { kHead, kChunkSize, kChunk, kChunkEnd, kLastLine };

  Status read_head(std::size_t end);
  void read_events(FunctionRef<void(std::string_view data)> on_event);

  Part part_ = Part::kHead;
  std::size_t answers_ = 0;
  std::size_t chunk_left_ = 0;
  std::string input_;   // received and not used yet
  std::string events_;  // of chunks, what is no whole event yet
};

}  // namespace deepinfer::cli
