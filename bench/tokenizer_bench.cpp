#include "bench/tokenizer_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "bench/median.h"

namespace deepinfer::bench {
namespace {

Status bench_text(const Tokenizer& tokenizer, const TokenizerSample& sample, int threads, int samples,
                  ResultSink sink) {
  const double mebibytes = static_cast<double>(sample.text.size()) / (1 << 20);
  std::vector<double> rates;
  std::size_t tokens = 0;
  for (int pass = 0; pass < samples; ++pass) {
    std::vector<int32_t> ids;
    ids.reserve(sample.text.size() / 2);  // growing the vector is no part of encoding
    const auto start = std::chrono::steady_clock::now();
    DI_RETURN_IF_ERROR(tokenizer.encode_plain(sample.text, ids, threads));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    rates.push_back(mebibytes / seconds.count());
    tokens = ids.size();
  }
  sink({fmt::format("encode {}, {} thread{}", sample.name, threads, threads == 1 ? "" : "s"),
        *std::max_element(rates.begin(), rates.end()), "MiB/s", std::nullopt,
        fmt::format("best of {}, median {:.1f}; {:.1f} MiB, {} tokens", samples, median(rates), mebibytes, tokens)});
  return {};
}

}  // namespace

Status bench_tokenizer(const Tokenizer& tokenizer, const std::vector<TokenizerSample>& texts, int threads, int samples,
                       ResultSink sink) {
  for (const TokenizerSample& text : texts) {
    DI_RETURN_IF_ERROR(bench_text(tokenizer, text, 1, samples, sink));
    if (threads > 1) DI_RETURN_IF_ERROR(bench_text(tokenizer, text, threads, samples, sink));
  }
  return {};
}

}  // namespace deepinfer::bench
