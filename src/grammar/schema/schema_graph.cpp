#include "grammar/schema/schema_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace deepinfer {
namespace {

enum class Form { kAny, kSchema, kSchemas, kSchemaMap, kItems, kType, kNumber, kCount, kText, kNames, kFlag, kList };

// Keywords that have an effect on the grammar, and the form of their values.
const std::map<std::string_view, Form>& enforced_keywords() {
  static const std::map<std::string_view, Form> kKeywords{
      {"type", Form::kType},
      {"enum", Form::kList},
      {"const", Form::kAny},
      {"$ref", Form::kText},
      {"allOf", Form::kSchemas},
      {"anyOf", Form::kSchemas},
      {"oneOf", Form::kSchemas},
      {"properties", Form::kSchemaMap},
      {"patternProperties", Form::kSchemaMap},
      {"additionalProperties", Form::kSchema},
      {"propertyNames", Form::kSchema},
      {"required", Form::kNames},
      {"minProperties", Form::kCount},
      {"maxProperties", Form::kCount},
      {"items", Form::kItems},
      {"prefixItems", Form::kSchemas},
      {"additionalItems", Form::kSchema},
      {"minItems", Form::kCount},
      {"maxItems", Form::kCount},
      {"uniqueItems", Form::kFlag},
      {"minLength", Form::kCount},
      {"maxLength", Form::kCount},
      {"pattern", Form::kText},
      {"format", Form::kText},
      {"minimum", Form::kNumber},
      {"maximum", Form::kNumber},
      {"exclusiveMinimum", Form::kNumber},
      {"exclusiveMaximum", Form::kNumber},
      {"multipleOf", Form::kNumber},
  };
  return kKeywords;
}

// Keywords that say nothing about which values are valid.
bool is_annotation(std::string_view keyword) {
  static const std::set<std::string_view> kAnnotations{
      // JSON Schema: meta-data, content, and what names or holds other schemas.
      "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment",
      "contentEncoding", "contentMediaType", "contentSchema", "$schema", "$vocabulary", "$defs", "definitions",
      "$anchor", "$dynamicAnchor", "$id", "id",
      // OpenAPI.
      "example", "discriminator", "xml", "externalDocs",
      // Editors.
      "markdownDescription", "enumDescriptions", "markdownEnumDescriptions", "defaultSnippets", "errorMessage",
      "patternErrorMessage", "deprecationMessage", "doNotSuggest", "suggestSortText"};
  return kAnnotations.count(keyword) > 0 || keyword.substr(0, 2) == "x-";
}

bool has_form(const JsonDocument& value, Form form) {
  const auto is_schema = [](const JsonDocument& v) { return v.is_object() || v.is_boolean(); };
  const auto all = [&](auto&& test) { return std::all_of(value.begin(), value.end(), test); };
  switch (form) {
    case Form::kAny:
      return true;
    case Form::kSchema:
      return is_schema(value);
    case Form::kSchemas:
      return value.is_array() && !value.empty() && all(is_schema);
    case Form::kSchemaMap:
      return value.is_object() && all(is_schema);
    case Form::kItems:
      return is_schema(value) || (value.is_array() && all(is_schema));
    case Form::kType: {
      static const std::set<std::string> kTypes{"null", "boolean", "integer", "number", "string", "array", "object"};
      const auto is_type = [](const JsonDocument& v) {
        return v.is_string() && kTypes.count(v.get<std::string>()) > 0;
      };
      return is_type(value) || (value.is_array() && !value.empty() && all(is_type));
    }
    case Form::kNumber:
      return value.is_number();
    case Form::kCount:
      return value.is_number() && value.get<double>() >= 0 &&
             value.get<double>() == static_cast<double>(static_cast<int64_t>(std::min(value.get<double>(), 1e15)));
    case Form::kText:
      return value.is_string();
    case Form::kNames:
      return value.is_array() && all([](const JsonDocument& v) { return v.is_string(); });
    case Form::kFlag:
      return value.is_boolean();
    case Form::kList:
      return value.is_array() && !value.empty();
  }
  return false;
}

}  // namespace

SchemaGraph::SchemaGraph(const JsonDocument& root, std::string what) : root_(root), what_(std::move(what)) {}

namespace {

// A key as a part of a JSON pointer.
std::string pointer_part(const std::string& key) {
  std::string part;
  for (const char c : key) {
    if (c == '~') {
      part += "~0";
    } else if (c == '/') {
      part += "~1";
    } else {
      part.push_back(c);
    }
  }
  return part;
}

}  // namespace

std::string SchemaGraph::place(const JsonDocument* schema) const {
  struct Visit {
    const JsonDocument* value;
    std::string pointer;
  };
  std::vector<Visit> stack{{&root_, ""}};
  while (!stack.empty()) {
    Visit visit = std::move(stack.back());
    stack.pop_back();
    if (visit.value == schema) return fmt::format("{}: {}: ", what_, visit.pointer.empty() ? "/" : visit.pointer);
    if (visit.value->is_object()) {
      for (const auto& [key, value] : visit.value->items())
        stack.push_back({&value, visit.pointer + "/" + pointer_part(key)});
    } else if (visit.value->is_array()) {
      for (size_t i = 0; i < visit.value->size(); ++i)
        stack.push_back({&(*visit.value)[i], visit.pointer + "/" + std::to_string(i)});
    }
  }
  return what_ + ": ";
}

Status SchemaGraph::wrong(const JsonDocument* schema, std::string_view problem) const {
  return invalid_argument(place(schema) + std::string(problem));
}

Status SchemaGraph::refused(const JsonDocument* schema, std::string_view problem) const {
  return unsupported(place(schema) + std::string(problem));
}

Status SchemaGraph::check_keywords(const JsonDocument& schema) {
  if (!checked_.insert(&schema).second) return {};
  for (const auto& [key, value] : schema.items()) {
    const auto known = enforced_keywords().find(key);
    if (known == enforced_keywords().end()) {
      if (!is_annotation(key)) return refused(&schema, fmt::format("the keyword {} is not supported", key));
      if ((key == "$id" || key == "id") && &schema != &root_)
        return refused(&schema, fmt::format("{} inside a schema is not supported", key));
      continue;
    }
    if (!has_form(value, known->second))
      return wrong(&schema, fmt::format("{} has no valid value: {}", key, dump_canonical(value).substr(0, 100)));
  }
  return {};
}

Result<const JsonDocument*> SchemaGraph::resolve(const JsonDocument& schema, const std::string& reference) const {
  if (reference.empty() || reference[0] != '#' || (reference.size() > 1 && reference[1] != '/'))
    return refused(&schema,
                   fmt::format("$ref {}: only references into the schema itself (#/...) are supported", reference));
  const JsonDocument* at = &root_;
  size_t begin = 2;
  while (begin <= reference.size() && reference.size() > 1) {
    const size_t end = std::min(reference.find('/', begin), reference.size());
    std::string token;
    for (size_t i = begin; i < end; ++i) {
      char c = reference[i];
      if (c == '%' && i + 2 < end) {
        const std::string hex = reference.substr(i + 1, 2);
        if (hex.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos) {
          c = static_cast<char>(std::stoi(hex, nullptr, 16));
          i += 2;
        }
      }
      token.push_back(c);
    }
    std::string name;
    for (size_t i = 0; i < token.size(); ++i) {
      if (token[i] == '~' && i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1')) {
        name.push_back(token[++i] == '0' ? '~' : '/');
      } else {
        name.push_back(token[i]);
      }
    }
    const JsonDocument* next = nullptr;
    if (at->is_object()) {
      if (const auto found = at->find(name); found != at->end()) next = &*found;
    } else if (at->is_array() && !name.empty() && name.size() < 9 &&
               name.find_first_not_of("0123456789") == std::string::npos) {
      const auto index = static_cast<size_t>(std::stoul(name));
      if (index < at->size()) next = &(*at)[index];
    }
    if (next == nullptr) return wrong(&schema, fmt::format("$ref {} leads nowhere", reference));
    at = next;
    begin = end + 1;
  }
  if (!at->is_object() && !at->is_boolean())
    return wrong(&schema, fmt::format("$ref {} leads to no schema", reference));
  return at;
}

Result<ExpandedNode> SchemaGraph::expand(const SchemaNode& node) {
  ExpandedNode expanded;
  std::vector<SchemaPart> stack(node.rbegin(), node.rend());
  std::map<const JsonDocument*, size_t> met;  // -> place in parts
  while (!stack.empty()) {
    const SchemaPart part = stack.back();
    stack.pop_back();
    if (part.schema->is_boolean()) {
      expanded.impossible = expanded.impossible || !part.schema->get<bool>();
      continue;
    }
    if (const auto known = met.find(part.schema); known != met.end()) {
      // Met twice: a choice that one way has made already need not be made again.
      SchemaPart& first = expanded.parts[known->second];
      first.any_of_done = first.any_of_done || part.any_of_done;
      first.one_of_done = first.one_of_done || part.one_of_done;
      continue;
    }
    const JsonDocument& schema = *part.schema;
    DI_RETURN_IF_ERROR(check_keywords(schema));
    met[part.schema] = expanded.parts.size();
    expanded.parts.push_back(part);
    if (const auto all = schema.find("allOf"); all != schema.end())
      for (auto option = all->rbegin(); option != all->rend(); ++option) stack.push_back({&*option});
    if (const auto reference = schema.find("$ref"); reference != schema.end()) {
      DI_ASSIGN_OR_RETURN(const JsonDocument* target, resolve(schema, reference->get_ref<const std::string&>()));
      stack.push_back({target});
    }
  }
  for (const SchemaPart& part : expanded.parts) {
    const auto any = part.schema->find("anyOf");
    if (any != part.schema->end() && !part.any_of_done) expanded.alternatives.push_back({part.schema, &*any, false});
    const auto one = part.schema->find("oneOf");
    if (one != part.schema->end() && !part.one_of_done) expanded.alternatives.push_back({part.schema, &*one, true});
  }
  return expanded;
}

}  // namespace deepinfer
