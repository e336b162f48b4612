// Standard output as answers need it: every write goes out at once, a reader that has gone is no error, a full disk is.
#pragma once

#include <string_view>

#include "base/status.h"

namespace deepinfer::cli {

class StandardOutput {
 public:
  // Writes all of text.  False once nothing more can be written: the reader closed the pipe, or status() says why.
  bool write(std::string_view text);

  bool reader_gone() const { return reader_gone_; }
  // An error other than a closed pipe (a full disk, for example).
  const Status& status() const { return status_; }
  // The last byte written; '\n' before anything was.
  char last_byte() const { return last_byte_; }

 private:
  bool reader_gone_ = false;
  Status status_;
  char last_byte_ = '\n';
};

// Standard input, output and error that were closed at start are reserved, so that no file that is opened later takes
// their place: `deepinfer chat <&-` would read a model file as its conversation.  Called once, before anything else.
void keep_standard_descriptors();

// A closed pipe must come back as an error of write(), not end the process: called once at start.
void ignore_broken_pipes();

}  // namespace deepinfer::cli
