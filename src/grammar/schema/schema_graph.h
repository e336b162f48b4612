// SchemaGraph: which schemas a JSON value must satisfy at once.  Follows $ref and allOf, and knows the keywords: what
// is not enforced is refused by name here, so nothing is ever silently ignored.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "grammar/json_document.h"

namespace deepinfer {

// A schema, with the combining keywords that are taken care of already.
struct SchemaPart {
  const JsonDocument* schema = nullptr;
  bool any_of_done = false;
  bool one_of_done = false;
  auto operator<=>(const SchemaPart&) const = default;
};

// All of these hold.  Empty: any value.
using SchemaNode = std::vector<SchemaPart>;

struct SchemaAlternatives {
  const JsonDocument* owner = nullptr;
  const JsonDocument* options = nullptr;
  bool exactly_one = false;
};

struct ExpandedNode {
  bool impossible = false;                       // a schema `false` is among them
  std::vector<SchemaPart> parts;                 // object schemas, in the order in which they were met, each once
  std::vector<SchemaAlternatives> alternatives;  // anyOf and oneOf still to be chosen from
};

class SchemaGraph {
 public:
  // `what` begins every message.  The root must outlive the graph.
  SchemaGraph(const JsonDocument& root, std::string what);

  Result<ExpandedNode> expand(const SchemaNode& node);
  // "schema: /properties/a: ": where `schema` stands.
  std::string place(const JsonDocument* schema) const;
  Status wrong(const JsonDocument* schema, std::string_view problem) const;
  Status refused(const JsonDocument* schema, std::string_view problem) const;
  const JsonDocument& root() const { return root_; }

 private:
  Status check_keywords(const JsonDocument& schema);
  Result<const JsonDocument*> resolve(const JsonDocument& schema, const std::string& reference) const;

  const JsonDocument& root_;
  std::string what_;
  std::set<const JsonDocument*> checked_;
};

}  // namespace deepinfer
