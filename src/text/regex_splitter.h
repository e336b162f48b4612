// RegexSplitter: the general splitter, a chain of PCRE2 expressions compiled to machine code.
#pragma once

#include <memory>
#include <vector>

#include "text/splitter.h"

namespace deepinfer {

class RegexSplitter final : public Splitter {
 public:
  // kUnsupported naming the rule's field when an expression cannot be compiled or has constructs whose meaning differs
  // between Oniguruma and PCRE2.
  static Result<std::unique_ptr<Splitter>> create(const std::vector<SplitRule>& rules);
  ~RegexSplitter() override;

  Status split(std::string_view text, Sink sink) const override;
  std::size_t safe_cut(std::string_view text, std::size_t from) const override;

 private:
  struct Step;
  RegexSplitter();
  std::vector<Step> steps_;
};

}  // namespace deepinfer
