#include "text/protocol/known_members.h"

#include <algorithm>
#include <utility>

namespace deepinfer {
namespace {

constexpr size_t kMostNames = 64;

// ---- Chat Completions, Completions --------------------------------------------------------------------------------

constexpr KnownMember kStreamOptions[] = {{"include_usage"}};
constexpr KnownMembers kStreamOptionsOf{kStreamOptions};

constexpr KnownMember kThinking[] = {{"type"}};  // its budget_tokens has no effect
constexpr KnownMembers kThinkingOf{kThinking};

constexpr KnownMember kImageUrl[] = {{"url"}, {"detail"}};
constexpr KnownMembers kImageUrlOf{kImageUrl};
constexpr KnownMember kChatPart[] = {{"type"},      {"text"},     {"image_url", &kImageUrlOf},
                                     {"file_data"}, {"filename"}, {"file_id"}};
constexpr KnownMembers kChatPartOf{kChatPart};

constexpr KnownMember kCalledFunction[] = {{"name"}, {"arguments"}};
constexpr KnownMembers kCalledFunctionOf{kCalledFunction};
// The index is that of our own answers, which come back.
constexpr KnownMember kChatCall[] = {{"id"}, {"type"}, {"index"}, {"function", &kCalledFunctionOf}};
constexpr KnownMembers kChatCallOf{kChatCall};

constexpr KnownMember kChatMessage[] = {{"role"},         {"content", &kChatPartOf},    {"reasoning_content"},
                                        {"tool_call_id"}, {"tool_calls", &kChatCallOf}, {"prefix"}};
constexpr KnownMembers kChatMessageOf{kChatMessage};

constexpr KnownMember kFunction[] = {{"name"}, {"description"}, {"parameters"}, {"strict"}};
constexpr KnownMembers kFunctionOf{kFunction};
constexpr KnownMember kChatTool[] = {{"type"}, {"function", &kFunctionOf}};
constexpr KnownMembers kChatToolOf{kChatTool};

constexpr KnownMember kChosenFunction[] = {{"name"}};
constexpr KnownMembers kChosenFunctionOf{kChosenFunction};
constexpr KnownMember kChatToolChoice[] = {{"type"}, {"function", &kChosenFunctionOf}};
constexpr KnownMembers kChatToolChoiceOf{kChatToolChoice};

constexpr KnownMember kJsonSchema[] = {{"name"}, {"description"}, {"schema"}, {"strict"}};
constexpr KnownMembers kJsonSchemaOf{kJsonSchema};
constexpr KnownMember kResponseFormat[] = {{"type"}, {"json_schema", &kJsonSchemaOf}, {"regex"}};
constexpr KnownMembers kResponseFormatOf{kResponseFormat};

constexpr KnownMember kChatBody[] = {{"messages", &kChatMessageOf},
                                     {"thinking", &kThinkingOf},
                                     {"tools", &kChatToolOf},
                                     {"tool_choice", &kChatToolChoiceOf},
                                     {"response_format", &kResponseFormatOf},
                                     {"stream_options", &kStreamOptionsOf}};
constexpr KnownMember kCompletionsBody[] = {{"stream_options", &kStreamOptionsOf}};

// ---- Responses ----------------------------------------------------------------------------------------------------

constexpr KnownMember kResponsesPart[] = {{"type"},      {"text"},     {"image_url"},   {"detail"},  {"file_id"},
                                          {"file_data"}, {"filename"}, {"annotations"}, {"logprobs"}};
constexpr KnownMembers kResponsesPartOf{kResponsesPart};
// Items of our own answers come back with all that they have.
constexpr KnownMember kResponsesItem[] = {{"type"},
                                          {"role"},
                                          {"content", &kResponsesPartOf},
                                          {"call_id"},
                                          {"name"},
                                          {"arguments"},
                                          {"namespace"},
                                          {"input"},
                                          {"tools"},
                                          {"output", &kResponsesPartOf},
                                          {"id"},
                                          {"status"},
                                          {"phase"},
                                          {"summary"},
                                          {"encrypted_content"},
                                          {"execution"}};
constexpr KnownMembers kResponsesItemOf{kResponsesItem};

constexpr KnownMember kEffort[] = {{"effort"}};
constexpr KnownMembers kEffortOf{kEffort};
extern const KnownMembers kResponsesToolOf;
constexpr KnownMember kResponsesTool[] = {{"type"},       {"name"},   {"description"},
                                          {"parameters"}, {"strict"}, {"tools", &kResponsesToolOf}};
const KnownMembers kResponsesToolOf{kResponsesTool};
constexpr KnownMember kNamedChoice[] = {{"type"}, {"name"}};
constexpr KnownMembers kNamedChoiceOf{kNamedChoice};
constexpr KnownMember kTextFormat[] = {{"type"}, {"name"}, {"description"}, {"schema"}, {"strict"}};
constexpr KnownMembers kTextFormatOf{kTextFormat};
constexpr KnownMember kText[] = {{"format", &kTextFormatOf}};
constexpr KnownMembers kTextOf{kText};

constexpr KnownMember kResponsesBody[] = {{"input", &kResponsesItemOf},
                                          {"reasoning", &kEffortOf},
                                          {"tools", &kResponsesToolOf},
                                          {"tool_choice", &kNamedChoiceOf},
                                          {"text", &kTextOf}};

// ---- Messages -----------------------------------------------------------------------------------------------------

constexpr KnownMember kSource[] = {{"type"}, {"media_type"}, {"data"}, {"url"}, {"file_id"}};
constexpr KnownMembers kSourceOf{kSource};
constexpr KnownMember kToolReference[] = {{"type"}, {"name"}};
constexpr KnownMembers kToolReferenceOf{kToolReference};
extern const KnownMembers kBlockOf;
constexpr KnownMember kBlock[] = {
    {"type"}, {"text"},  {"source", &kSourceOf}, {"thinking"},    {"signature"},          {"id"},
    {"name"}, {"input"}, {"tool_name"},          {"tool_use_id"}, {"content", &kBlockOf}, {"tool", &kToolReferenceOf}};
const KnownMembers kBlockOf{kBlock};
constexpr KnownMember kMessage[] = {{"role"}, {"content", &kBlockOf}};
constexpr KnownMembers kMessageOf{kMessage};
constexpr KnownMember kSystemBlock[] = {{"type"}, {"text"}};
constexpr KnownMembers kSystemBlockOf{kSystemBlock};
constexpr KnownMember kTool[] = {{"type"}, {"name"}, {"description"}, {"input_schema"}, {"defer_loading"}};
constexpr KnownMembers kToolOf{kTool};

constexpr KnownMember kMessagesBody[] = {{"messages", &kMessageOf},  {"system", &kSystemBlockOf},
                                         {"thinking", &kThinkingOf}, {"output_config", &kEffortOf},
                                         {"tools", &kToolOf},        {"tool_choice", &kNamedChoiceOf}};

// -------------------------------------------------------------------------------------------------------------------

// Where an object lies, as a chain on the stack: a text is made only of what is unknown.
struct Place {
  const Place* above = nullptr;
  std::string_view name;

  std::string text() const { return above == nullptr ? std::string(name) : above->text().append(".").append(name); }
};

class Walk {
 public:
  explicit Walk(std::vector<std::string>& ignored) : ignored_(ignored) {}

  // As deep as the tables above go, but for blocks and tools, which the parsers take two levels deep.
  void visit(const Json& value, const KnownMembers& known, const Place& place) {
    if (value.is_array()) {
      for (const Json& one : value)
        if (one.is_object()) visit_object(one, known, place);
    } else if (value.is_object()) {
      visit_object(value, known, place);
    }
  }

 private:
  void visit_object(const Json& object, const KnownMembers& known, const Place& place) {
    for (const auto& [key, value] : object.items()) {
      if (value.is_null()) continue;
      const auto found = std::find_if(known.members.begin(), known.members.end(),
                                      [&name = key](const KnownMember& member) { return member.name == name; });
      const Place here{&place, key};
      if (found == known.members.end()) {
        add(here.text());
      } else if (found->inside != nullptr) {
        visit(value, *found->inside, here);
      }
    }
  }

  void add(std::string name) {
    if (ignored_.size() >= kMostNames || std::find(ignored_.begin(), ignored_.end(), name) != ignored_.end()) return;
    ignored_.push_back(std::move(name));
  }

  std::vector<std::string>& ignored_;
};

}  // namespace

const KnownMembers kChatCompletionsMembers{kChatBody};
const KnownMembers kCompletionsMembers{kCompletionsBody};
const KnownMembers kResponsesMembers{kResponsesBody};
const KnownMembers kMessagesMembers{kMessagesBody};

void add_unknown_members(const Json& body, const KnownMembers& known, std::vector<std::string>& ignored) {
  Walk walk(ignored);
  for (const KnownMember& member : known.members) {
    const auto found = body.find(std::string(member.name));
    if (found != body.end()) walk.visit(*found, *member.inside, {nullptr, member.name});
  }
}

}  // namespace deepinfer
