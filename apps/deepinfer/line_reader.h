// Lines that a person types: with editing and a history of the session on a terminal, plain lines from a pipe.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace deepinfer::cli {

class LineReader {
 public:
  // name: of the program, for the editor's own settings file.
  static std::unique_ptr<LineReader> of_standard_input(const char* name);
  virtual ~LineReader() = default;

  enum class Event { kLine, kInterrupt, kEnd, kError };
  struct Input {
    Event event = Event::kEnd;
    std::string line = {};  // without its line break; kLine only
    int error = 0;          // of the system; kError only
  };
  // Shows the prompt (on a terminal only, on standard error) and waits.  kInterrupt: Ctrl-C, the line was thrown away.
  // kEnd: Ctrl-D on an empty line, or the end of the pipe.  kError: standard input cannot be read.
  virtual Input read(const std::string& prompt) = 0;
};

}  // namespace deepinfer::cli
