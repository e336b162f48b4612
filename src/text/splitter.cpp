#include "text/splitter.h"

#include "text/deepseek_splitter.h"
#include "text/regex_splitter.h"

namespace deepinfer {

Result<std::unique_ptr<Splitter>> make_splitter(const std::vector<SplitRule>& rules) {
  if (DeepSeekSplitter::accepts(rules)) return std::unique_ptr<Splitter>(std::make_unique<DeepSeekSplitter>());
  return RegexSplitter::create(rules);
}

}  // namespace deepinfer
