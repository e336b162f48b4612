#include "text/tokenizer_json.h"

#include <new>

#include "base/bounded_file.h"
#include "text/tokenizer_json_node.h"

namespace deepinfer {
namespace tokenizer_json {
namespace {

constexpr std::size_t kMaxDepth = 64;

// What ByteLevel with use_regex cuts at: GPT-2's expression.
constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

Status read_normalizer(const Node& node, TokenizerParts& parts) {
  DI_ASSIGN_OR_RETURN(const std::string_view type, node.text("type"));
  if (type == "Sequence") {
    DI_ASSIGN_OR_RETURN(const std::vector<Node> steps, node.nodes("normalizers"));
    for (const Node& step : steps) DI_RETURN_IF_ERROR(read_normalizer(step, parts));
    return {};
  }
  if (parts.normalizers.size() == kMaxSteps) return wrong(node.field, fmt::format("more than {} steps", kMaxSteps));
  if (type == "NFC") {
    parts.normalizers.push_back(NormalForm::kNfc);
  } else if (type == "NFD") {
    parts.normalizers.push_back(NormalForm::kNfd);
  } else if (type == "NFKC") {
    parts.normalizers.push_back(NormalForm::kNfkc);
  } else if (type == "NFKD") {
    parts.normalizers.push_back(NormalForm::kNfkd);
  } else {
    return not_supported(path(node.field, "type"), type, "Sequence, NFC, NFD, NFKC, NFKD");
  }
  return {};
}

Result<SplitBehavior> read_behavior(const Node& node) {
  DI_ASSIGN_OR_RETURN(const std::string_view name, node.text("behavior"));
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return not_supported(path(node.field, "behavior"), name,
                       "Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous");
}

Status read_split(const Node& node, TokenizerParts& parts) {
  SplitRule rule;
  rule.field = node.field;
  DI_ASSIGN_OR_RETURN(const Node pattern, node.node("pattern"));
  rule.literal = pattern.has("String");
  DI_ASSIGN_OR_RETURN(const std::string_view text, pattern.text(rule.literal ? "String" : "Regex"));
  rule.pattern = text;
  DI_ASSIGN_OR_RETURN(rule.behavior, read_behavior(node));
  DI_ASSIGN_OR_RETURN(rule.invert, node.flag("invert", false));
  parts.splits.push_back(std::move(rule));
  return {};
}

// Sets byte_level where the step that turns text into the byte-level alphabet stands; it must be the last.
Status read_pre_tokenizer(const Node& node, TokenizerParts& parts, bool& byte_level) {
  DI_ASSIGN_OR_RETURN(const std::string_view type, node.text("type"));
  if (type == "Sequence") {
    DI_ASSIGN_OR_RETURN(const std::vector<Node> steps, node.nodes("pretokenizers"));
    for (const Node& step : steps) DI_RETURN_IF_ERROR(read_pre_tokenizer(step, parts, byte_level));
    return {};
  }
  if (byte_level) return not_supported(node.field, type, "nothing behind ByteLevel");
  if (parts.splits.size() == kMaxSteps) return wrong(node.field, fmt::format("more than {} steps", kMaxSteps));
  if (type == "Split") return read_split(node, parts);
  if (type == "Digits") {
    DI_ASSIGN_OR_RETURN(const bool single, node.flag("individual_digits", false));
    parts.splits.push_back({.pattern = single ? R"(\p{N})" : R"(\p{N}+)", .field = node.field});
    return {};
  }
  if (type != "ByteLevel") return not_supported(path(node.field, "type"), type, "Sequence, Split, Digits, ByteLevel");
  // Both options are true where the file leaves them out.
  DI_ASSIGN_OR_RETURN(const bool prefix_space, node.flag("add_prefix_space", true));
  if (prefix_space) return not_supported(path(node.field, "add_prefix_space"), "true", "false");
  DI_ASSIGN_OR_RETURN(const bool use_regex, node.flag("use_regex", true));
  if (use_regex) parts.splits.push_back({.pattern = kGpt2Pattern, .field = node.field});
  byte_level = true;
  return {};
}

// Only what this engine never applies (special tokens around a text) or what has no effect on ids may stand here.
Status check_post_processor(const Node& node) {
  DI_ASSIGN_OR_RETURN(const std::string_view type, node.text("type"));
  if (type == "Sequence") {
    DI_ASSIGN_OR_RETURN(const std::vector<Node> steps, node.nodes("processors"));
    for (const Node& step : steps) DI_RETURN_IF_ERROR(check_post_processor(step));
    return {};
  }
  for (const char* known : {"ByteLevel", "TemplateProcessing", "BertProcessing", "RobertaProcessing"}) {
    if (type == known) return {};
  }
  return not_supported(path(node.field, "type"), type, "Sequence, ByteLevel, TemplateProcessing");
}

Status check_decoder(const Node& node) {
  DI_ASSIGN_OR_RETURN(const std::string_view type, node.text("type"));
  if (type == "ByteLevel") return {};
  if (type == "Sequence") {
    DI_ASSIGN_OR_RETURN(const std::vector<Node> steps, node.nodes("decoders"));
    if (steps.size() == 1) return check_decoder(steps[0]);
  }
  return not_supported(path(node.field, "type"), type, "ByteLevel");
}

Status read_root(const Node& root, TokenizerParts& parts) {
  DI_RETURN_IF_ERROR(must_be_unset(root, {"truncation", "padding"}));
  if (root.has("normalizer")) {
    DI_ASSIGN_OR_RETURN(const Node normalizer, root.node("normalizer"));
    DI_RETURN_IF_ERROR(read_normalizer(normalizer, parts));
  }
  DI_ASSIGN_OR_RETURN(const Node pre_tokenizer, root.node("pre_tokenizer"));
  bool byte_level = false;
  DI_RETURN_IF_ERROR(read_pre_tokenizer(pre_tokenizer, parts, byte_level));
  if (!byte_level)
    return unsupported("pre_tokenizer: only byte-level tokenizers are supported (no ByteLevel step found)");
  if (root.has("post_processor")) {
    DI_ASSIGN_OR_RETURN(const Node post_processor, root.node("post_processor"));
    DI_RETURN_IF_ERROR(check_post_processor(post_processor));
  }
  DI_ASSIGN_OR_RETURN(const Node decoder, root.node("decoder"));
  DI_RETURN_IF_ERROR(check_decoder(decoder));
  if (root.has("added_tokens")) DI_RETURN_IF_ERROR(read_added_tokens(root, parts));
  DI_ASSIGN_OR_RETURN(const Node model, root.node("model"));
  return read_model(model, parts);
}

}  // namespace
}  // namespace tokenizer_json

Result<TokenizerParts> read_tokenizer_json(std::string_view json, std::string_view name) {
  if (json.size() > kMaxTokenizerFileBytes) {
    return corrupt_file(
        fmt::format("{}: has {} bytes; allowed: at most {}", name, json.size(), kMaxTokenizerFileBytes));
  }
  simdjson::dom::parser parser;
  const simdjson::padded_string padded(json);
  if (padded.data() == nullptr) throw std::bad_alloc();
  simdjson::dom::element document;
  simdjson::error_code error = parser.allocate(padded.size(), tokenizer_json::kMaxDepth);
  if (error == simdjson::SUCCESS) error = parser.parse(padded).get(document);
  if (error == simdjson::MEMALLOC) throw std::bad_alloc();
  if (error != simdjson::SUCCESS) {
    return corrupt_file(fmt::format("{}: not JSON: {}", name, simdjson::error_message(error)));
  }
  tokenizer_json::Node root;
  if (document.get(root.fields) != simdjson::SUCCESS) return corrupt_file(fmt::format("{}: an object expected", name));
  TokenizerParts parts;
  const Status status = tokenizer_json::read_root(root, parts);
  if (!status.ok()) return status.with_context(name);
  return parts;
}

}  // namespace deepinfer
