// The members that the objects inside a request's body may have: what else is there has no effect, and a server names
// it to its client.  Inside text/protocol only.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_text.h"

namespace deepinfer {

struct KnownMembers;

struct KnownMember {
  std::string_view name;
  const KnownMembers* inside = nullptr;  // null: nobody's business, such as a schema or a text
};

// Of an object, or of each object of a list.
struct KnownMembers {
  std::span<const KnownMember> members;
};

// Bodies: of each member that is listed, what lies inside it is looked at; members of the body itself are not.
extern const KnownMembers kChatCompletionsMembers;
extern const KnownMembers kCompletionsMembers;
extern const KnownMembers kResponsesMembers;
extern const KnownMembers kMessagesMembers;

// Appends "messages.content.cache_control" and the like, each once and null apart.  Linear in the body's objects.
void add_unknown_members(const Json& body, const KnownMembers& known, std::vector<std::string>& ignored);

}  // namespace deepinfer
