#include "text/tokenizer_json_node.h"

#include "text/utf8.h"

namespace deepinfer::tokenizer_json {

// Messages quote at most this much of the file.
std::string in_quotes(std::string_view text) {
  std::string repaired;
  append_repaired_utf8(text.substr(0, 60), repaired);
  return fmt::format("{:?}{}", repaired, text.size() > 60 ? "..." : "");
}

Status wrong(std::string_view field, std::string_view problem) {
  return corrupt_file(fmt::format("{}: {}", field, problem));
}

Status not_supported(std::string_view field, std::string_view value, std::string_view allowed) {
  return unsupported(fmt::format("{}: {} is not supported (supported: {})", field, in_quotes(value), allowed));
}

std::string path(std::string_view parent, std::string_view key) {
  return parent.empty() ? std::string(key) : fmt::format("{}.{}", parent, key);
}

Status must_be_unset(const Node& node, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    element value;
    if (!node.has(key) || node.fields[key].get(value) != simdjson::SUCCESS) continue;
    bool set = true;
    std::string_view text;
    if (value.is_bool()) {
      set = value.get_bool().value_unsafe();
    } else if (value.get(text) == simdjson::SUCCESS) {
      set = !text.empty();
    }
    if (set) return not_supported(path(node.field, key), simdjson::minify(value), "null");
  }
  return {};
}

}  // namespace deepinfer::tokenizer_json
