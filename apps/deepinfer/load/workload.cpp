#include "load/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <sstream>

#include "text/json_text.h"
#include "text_input.h"

namespace deepinfer::cli {
namespace {

// Distributions of the standard library differ between implementations; these do not.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : engine_(seed) {}
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  double normal() { return std::sqrt(-2 * std::log(1 - uniform())) * std::cos(2 * std::numbers::pi * uniform()); }
  size_t below(size_t count) { return static_cast<size_t>(uniform() * static_cast<double>(count)); }

 private:
  std::mt19937_64 engine_;
};

int64_t spread_length(Numbers& numbers, int64_t length, double spread) {
  const double factor = 1 + spread * (2 * numbers.uniform() - 1);
  return std::max<int64_t>(1, std::llround(static_cast<double>(length) * factor));
}

int64_t chat_length(Numbers& numbers, double mean, double deviation) {
  const auto length = std::llround(std::exp(mean + deviation * numbers.normal()));
  return std::clamp<int64_t>(length, kChatLeastTokens, kChatMostTokens);
}

std::vector<int32_t> plain_tokens(const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < tokenizer.vocabulary(); ++id)
    if (!tokenizer.is_added(id) && !tokenizer.bytes(id).empty()) ids.push_back(id);
  return ids;
}

struct FilePrompt {
  std::string text;
  std::optional<int64_t> answer_tokens;
};

Result<std::vector<FilePrompt>> read_prompts(const std::string& file) {
  DI_ASSIGN_OR_RETURN(const std::string text, read_bytes(file));
  std::vector<FilePrompt> prompts;
  std::istringstream lines(text);
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Result<Json> json = parse_json(line);
    if (!json.ok()) return invalid_argument(fmt::format("{}, line {}: {}", file, number, json.status().message()));
    FilePrompt prompt;
    const Json* given = &*json;
    if (json->is_object()) {
      given = json->contains("prompt") ? &(*json)["prompt"] : nullptr;
      if (const auto most = json->find("max_tokens"); most != json->end()) {
        if (!most->is_number_unsigned() || most->get<uint64_t>() == 0 || most->get<uint64_t>() > 1'000'000)
          return invalid_argument(fmt::format("{}, line {}: max_tokens: allowed are 1 to 1000000", file, number));
        prompt.answer_tokens = most->get<int64_t>();
      }
    }
    if (given == nullptr || !given->is_string())
      return invalid_argument(fmt::format("{}, line {}: expected a string or an object with `prompt`", file, number));
    prompt.text = given->get<std::string>();
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) return invalid_argument(fmt::format("{}: no prompts", file));
  return prompts;
}

}  // namespace

Result<std::vector<EngineRequest>> make_workload(const WorkloadOptions& options, const Tokenizer& tokenizer,
                                                 int64_t count) {
  Numbers numbers(options.seed);
  const std::vector<int32_t> plain = plain_tokens(tokenizer);
  const std::optional<int32_t> begin = tokenizer.added_id("<｜begin▁of▁sentence｜>");
  std::vector<FilePrompt> prompts;
  if (options.kind == WorkloadOptions::Kind::kFile) {
    DI_ASSIGN_OR_RETURN(prompts, read_prompts(options.file));
  }
  std::vector<EngineRequest> requests(static_cast<size_t>(count));
  for (size_t i = 0; i < requests.size(); ++i) {
    EngineRequest& request = requests[i];
    int64_t prompt_tokens = 0, answer_tokens = options.answer_tokens;
    if (begin) request.prompt.push_back(*begin);
    switch (options.kind) {
      case WorkloadOptions::Kind::kRandom:
        prompt_tokens = spread_length(numbers, options.prompt_tokens, options.spread);
        answer_tokens = spread_length(numbers, options.answer_tokens, options.spread);
        break;
      case WorkloadOptions::Kind::kChat:
        prompt_tokens = chat_length(numbers, kChatPromptMean, kChatPromptDeviation);
        answer_tokens = chat_length(numbers, kChatAnswerMean, kChatAnswerDeviation);
        break;
      case WorkloadOptions::Kind::kFile: {
        const FilePrompt& prompt = prompts[i % prompts.size()];
        DI_RETURN_IF_ERROR(tokenizer.encode_plain(prompt.text, request.prompt));
        answer_tokens = prompt.answer_tokens.value_or(answer_tokens);
        break;
      }
    }
    while (static_cast<int64_t>(request.prompt.size()) < prompt_tokens)
      request.prompt.push_back(plain[numbers.below(plain.size())]);
    request.params.max_tokens = answer_tokens;
    request.params.temperature = options.temperature;
    request.params.draft_tokens = options.draft_tokens;
    request.params.seed = options.seed + i;
  }
  return requests;
}

}  // namespace deepinfer::cli
