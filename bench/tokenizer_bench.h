// Encoding speed of a tokenizer on files.  `deepinfer bench tokenizer` is its caller; bench/make_corpora.sh makes
// files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/bench_result.h"
#include "text/tokenizer.h"

namespace deepinfer::bench {

struct TokenizerSample {
  std::string name;
  std::string text;
};

// MiB/s of encode_plain on each text, with one thread and, where threads > 1, with that many; best and median of
// `samples` passes.
Status bench_tokenizer(const Tokenizer& tokenizer, const std::vector<TokenizerSample>& texts, int threads, int samples,
                       ResultSink sink);

}  // namespace deepinfer::bench
