// StopStrings: ends a streamed text before the first of some strings.  No byte of a stop string is ever let through, also
// where it is spread over pieces: bytes that may be the beginning of one wait until it is decided.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace deepinfer {

class StopStrings {
 public:
  // Empty strings are ignored.
  explicit StopStrings(std::vector<std::string> stops);

  bool any() const { return !stops_.empty(); }

  // Takes a piece of text and appends to `out` what is certain to be part of the answer.  Where several stop strings
  // match, the one that ends first counts, of those the one that begins first.
  void feed(std::string_view piece, std::string& out);
  // The text is over: what waited was no stop string.
  void finish(std::string& out);

  int found_index() const { return found_; }  // in the list that was given, empty strings left out; -1: none
  // The stop string that was found, or null.
  const std::string* found() const { return found_ < 0 ? nullptr : &stops_[static_cast<size_t>(found_)]; }

 private:
  std::vector<std::string> stops_;
  size_t longest_ = 0;
  std::string waiting_;  // a suffix of the text: the beginning of a stop string
  int found_ = -1;       // of stops_
};

}  // namespace deepinfer
