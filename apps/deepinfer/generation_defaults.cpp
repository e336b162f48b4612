#include "generation_defaults.h"

#include <fmt/format.h>

#include <limits>
#include <string>

#include "base/bounded_file.h"
#include "engine/generator.h"
#include "number_text.h"
#include "text/json_text.h"

namespace deepinfer::cli {
namespace {

template <typename T>
Status read_number(const Json& object, const char* field, const NumberRange<T>& range, std::optional<T>& target) {
  const auto found = object.find(field);
  if (found == object.end() || found->is_null()) return {};
  const bool right_kind = std::is_integral_v<T> ? found->is_number_integer() : found->is_number();
  // Compared as a double: a value beyond the target's range must not wrap.
  const double value = right_kind ? found->template get<double>() : std::numeric_limits<double>::quiet_NaN();
  const bool in_range = value <= static_cast<double>(std::numeric_limits<T>::max()) &&
                        value >= static_cast<double>(std::numeric_limits<T>::lowest()) &&
                        range.contains(static_cast<T>(value));
  if (!in_range)
    return corrupt_file(fmt::format("{}: {} is out of range, allowed: {}", field, found->dump(), range.text()));
  target = static_cast<T>(value);
  return {};
}

Status read_end_tokens(const Json& object, std::vector<int32_t>& tokens) {
  const auto found = object.find("eos_token_id");
  if (found == object.end() || found->is_null()) return {};
  const Json list = found->is_array() ? *found : Json::array({*found});
  for (const Json& item : list) {
    std::optional<int32_t> token;
    DI_RETURN_IF_ERROR(read_number<int32_t>(Json{{"eos_token_id", item}}, "eos_token_id", {.lowest = 0}, token));
    if (token) tokens.push_back(*token);
  }
  return {};
}

Status read_fields(const Json& object, GenerationDefaults& defaults) {
  if (!object.is_object()) return corrupt_file("not a JSON object");
  DI_RETURN_IF_ERROR(read_number<float>(object, "temperature", {.lowest = 0}, defaults.temperature));
  DI_RETURN_IF_ERROR(
      read_number<float>(object, "top_p", {.lowest = 0, .highest = 1, .lowest_excluded = true}, defaults.top_p));
  DI_RETURN_IF_ERROR(read_number<float>(object, "min_p", {.lowest = 0, .highest = 1}, defaults.min_p));
  DI_RETURN_IF_ERROR(read_number<int32_t>(object, "top_k", {.lowest = 0}, defaults.top_k));
  DI_RETURN_IF_ERROR(read_number<float>(object, "repetition_penalty",
                                        {.lowest = kLeastRepetitionPenalty, .highest = kMostRepetitionPenalty},
                                        defaults.repetition_penalty));
  DI_RETURN_IF_ERROR(read_end_tokens(object, defaults.end_tokens));
  const auto sampled = object.find("do_sample");
  if (sampled != object.end() && sampled->is_boolean() && !sampled->get<bool>()) defaults.temperature = 0.0f;
  return {};
}

}  // namespace

Result<GenerationDefaults> read_generation_defaults(const std::filesystem::path& model_folder) {
  const std::filesystem::path file = model_folder / "generation_config.json";
  GenerationDefaults defaults;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return defaults;
  DI_ASSIGN_OR_RETURN(const std::string text, read_bounded_file(file, kMaxConfigFileBytes));
  const Result<Json> object = parse_json(text);
  if (!object.ok()) return corrupt_file(fmt::format("{}: {}", file.string(), object.status().message()));
  DI_RETURN_IF_ERROR(read_fields(*object, defaults).with_context(file.string()));
  return defaults;
}

}  // namespace deepinfer::cli
