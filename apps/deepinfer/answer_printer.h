// Shows an answer while it is made: content on standard output, reasoning on standard error or, where asked for, on
// standard output between <think> and </think>.
#pragma once

#include <string>

#include "answer.h"
#include "standard_output.h"

namespace deepinfer::cli {

class AnswerPrinter {
 public:
  // Standard output must outlive the printer.
  AnswerPrinter(StandardOutput& out, bool reasoning_to_output) : out_(out), reasoning_to_output_(reasoning_to_output) {}

  // False once nobody reads standard output any more.
  bool print(const AnswerPiece& piece);
  // Ends the reasoning where it is open, prints tool calls as one JSON object a line, and ends the last line.
  void finish(const Answer& answer);

 private:
  void end_reasoning();

  StandardOutput& out_;
  bool reasoning_to_output_;
  bool reasoning_ = false;  // the last piece was reasoning
  char last_reasoning_byte_ = '\n';
};

// "seed 7, prompt 12 tokens in 4 ms, ..." for --verbose; no line break.
std::string statistics_line(const Answer& answer, uint64_t seed, double load_seconds);

}  // namespace deepinfer::cli
