#include <fmt/format.h>

#include "grammar/grammar_spec.h"
#include "grammar/json_document.h"

namespace deepinfer {
namespace {

Result<int32_t> token_id(const JsonDocument& value, std::string_view field) {
  if (!value.is_number_integer() || value < 0 || value > INT32_MAX)
    return invalid_argument(
        fmt::format("so_args: {} must be a token id, 0 or more, not {}", field, dump_canonical(value)));
  return value.get<int32_t>();
}

}  // namespace

Result<GrammarSpec> parse_so_args(std::string_view json) {
  // The schema is a string inside this document, so its own limits come on top.
  DI_ASSIGN_OR_RETURN(const JsonDocument args, read_json_document(json, "so_args", {.bytes = 4 << 20, .depth = 8}));
  if (!args.is_object()) return invalid_argument("so_args: an object is expected");
  GrammarSpec spec;
  bool has_type = false, has_schema = false;
  for (const auto& [key, value] : args.items()) {
    if (key == "schema_type") {
      if (value == "json") {
        spec.kind = GrammarSpec::Kind::kJsonSchema;
      } else if (value == "regex") {
        spec.kind = GrammarSpec::Kind::kRegex;
      } else if (value == "ebnf") {
        spec.kind = GrammarSpec::Kind::kEbnf;
      } else {
        return invalid_argument(
            fmt::format("so_args: schema_type must be json, regex or ebnf, not {}", dump_canonical(value)));
      }
      has_type = true;
    } else if (key == "schema") {
      if (!value.is_string()) return invalid_argument("so_args: schema must be a string");
      spec.text = value.get<std::string>();
      has_schema = true;
    } else if (key == "trigger_token_ids") {
      if (!value.is_array()) return invalid_argument("so_args: trigger_token_ids must be a list of token ids");
      for (const JsonDocument& id : value) {
        DI_ASSIGN_OR_RETURN(const int32_t token, token_id(id, "trigger_token_ids"));
        spec.trigger_token_ids.push_back(token);
      }
    } else if (key == "bound_token_id") {
      DI_ASSIGN_OR_RETURN(spec.bound_token_id, token_id(value, "bound_token_id"));
    } else if (key == "bound_token_ids") {
      return invalid_argument("so_args: bound_token_ids is not supported; bound_token_id takes one id");
    } else if (key == "serialized") {
      return invalid_argument("so_args: serialized is not supported; a compiled grammar is not taken from a request");
    } else {
      return invalid_argument(fmt::format("so_args: unknown key {}", dump_canonical(key)));
    }
  }
  if (!has_type) return invalid_argument("so_args: schema_type is missing");
  if (!has_schema) return invalid_argument("so_args: schema is missing");
  if (spec.bound_token_id && spec.trigger_token_ids.empty())
    return invalid_argument("so_args: bound_token_id needs trigger_token_ids");
  return spec;
}

}  // namespace deepinfer
