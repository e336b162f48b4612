// Grammars from hostile requests: nothing may abort, hang or read out of bounds, and what a mask allows is accepted.
// First byte: the kind and the form (of tool calls: strict, required, behind reasoning); the rest is the text, and
// behind a zero byte the tokens to try.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "grammar/grammar_compiler.h"
#include "grammar/grammar_matcher.h"

namespace {

using namespace deepinfer;

GrammarCompiler& compiler() {
  static GrammarCompiler* const kCompiler = [] {
    GrammarVocabulary vocabulary;
    for (int byte = 0; byte < 256; ++byte) vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
    for (const char* more : {"", "{\"", "\":", "\", \"", "true", "  ", "\xE2\x82", "ab", "</", "<a>", "<｜DSML｜",
                             "｜DSML｜", " calls>\n", "<｜DSML｜ invoke name=\"f\">\n"})
      vocabulary.tokens.emplace_back(more);
    GrammarCompilerOptions options;
    options.threads = 1;
    options.cache_bytes = 1 << 20;
    options.limits.time = std::chrono::milliseconds(500);
    options.limits.bytes = 64 << 20;
    options.limits.terms = 20'000;
    return GrammarCompiler::create(std::move(vocabulary), options).value().release();
  }();
  return *kCompiler;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const uint8_t form = data[0];
  const std::string input(reinterpret_cast<const char*>(data + 1), size - 1);
  const size_t split = std::min(input.find('\0'), input.size());
  const std::string text = input.substr(0, split);
  GrammarSpec spec;
  spec.strict = (form & 8) != 0;
  spec.whitespace = (form & 16) != 0 ? JsonWhitespace::kBounded : JsonWhitespace::kNone;
  switch (form % 6) {
    case 0:
    case 1:
      spec.kind = GrammarSpec::Kind::kJsonSchema;
      break;
    case 2:
      spec.kind = GrammarSpec::Kind::kRegex;
      break;
    case 3:
      spec.kind = GrammarSpec::Kind::kEbnf;
      break;
    case 4:
      spec.kind = GrammarSpec::Kind::kToolCalls;
      spec.tools.push_back({"f", text, (form & 32) != 0});
      spec.call_required = (form & 64) != 0;
      if ((form & 128) != 0) {
        spec.reasoning_end = 257;  // has no bytes
        if (!spec.call_required) spec.content = GrammarSpec::Content::kJsonSchema;
      }
      break;
    default:
      (void)parse_so_args(text);
      return 0;
  }
  spec.text = text;
  const GrammarTicket ticket = compiler().compile(spec);
  const Result<SharedGrammar> grammar = ticket.wait();
  if (!grammar.ok()) return 0;
  const int32_t stop = 256;
  Result<GrammarMatcher> matcher = GrammarMatcher::create(grammar.value(), spec, std::span(&stop, 1));
  if (!matcher.ok()) return 0;
  std::vector<uint32_t> mask(matcher->mask_words());
  for (size_t i = split + 1; i < input.size() && i < split + 64; ++i) {
    if (!matcher->fill_mask(mask).ok()) return 0;
    // A byte picks the next allowed token from there on.
    int32_t token = static_cast<uint8_t>(input[i]);
    for (int32_t tries = 0; tries < grammar.value()->vocabulary(); ++tries, ++token) {
      if (token >= grammar.value()->vocabulary()) token = 0;
      if (mask[static_cast<size_t>(token / 32)] >> (token % 32) & 1) break;
    }
    DI_CHECK(matcher->accept(token) || !matcher->status().ok(), "an allowed token is accepted");
    if (matcher->is_terminated()) break;
    if (input[i] == 'r' && matcher->accepted() > 1) matcher->rollback(1);
  }
  return 0;
}
