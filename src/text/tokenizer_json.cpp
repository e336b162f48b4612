#include "text/tokenizer_json.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <new>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "base/bounded_file.h"
#include "text/byte_level.h"
#include "text/utf8.h"

namespace deepinfer {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::element_type;
using simdjson::dom::object;

constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxSpellingBytes = 4096;
constexpr std::size_t kMaxAddedTokens = 1 << 16;
constexpr std::size_t kMaxSteps = 64;

// What ByteLevel with use_regex cuts at: GPT-2's expression.
constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

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

// An object with the path to it, for messages.
struct Node {
  object fields;
  std::string field;

  bool has(const char* key) const {
    element value;
    return fields[key].get(value) == simdjson::SUCCESS && !value.is_null();
  }
  template <typename T>
  Result<T> get(const char* key, const char* type) const {
    T value{};
    if (fields[key].get(value) != simdjson::SUCCESS) return wrong(path(field, key), fmt::format("{} expected", type));
    return value;
  }
  Result<std::string_view> text(const char* key) const { return get<std::string_view>(key, "a string"); }
  Result<bool> flag(const char* key, bool otherwise) const {
    return has(key) ? get<bool>(key, "true or false") : otherwise;
  }
  Result<Node> node(const char* key) const {
    DI_ASSIGN_OR_RETURN(const object value, get<object>(key, "an object"));
    return Node{value, path(field, key)};
  }
  // The objects of a list of steps.
  Result<std::vector<Node>> nodes(const char* key) const {
    DI_ASSIGN_OR_RETURN(const array values, get<array>(key, "an array"));
    if (values.size() > kMaxSteps) return wrong(path(field, key), fmt::format("more than {} entries", kMaxSteps));
    std::vector<Node> result;
    for (const element value : values) {
      object fields_of;
      std::string at = fmt::format("{}[{}]", path(field, key), result.size());
      if (value.get(fields_of) != simdjson::SUCCESS) return wrong(at, "an object expected");
      result.push_back({fields_of, std::move(at)});
    }
    return result;
  }
};

// An option that changes what tokens come out and is not implemented must be absent, null, false or "".
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

Result<std::int32_t> read_id(const element& value, std::string_view field) {
  std::int64_t id = -1;
  if (value.get(id) != simdjson::SUCCESS || id < 0 || id >= Bpe::kMaxIds) {
    return wrong(field, fmt::format("a token id from 0 to {} expected", Bpe::kMaxIds - 1));
  }
  return static_cast<std::int32_t>(id);
}

Status read_added_tokens(const Node& root, TokenizerParts& parts) {
  DI_ASSIGN_OR_RETURN(const array tokens, root.get<array>("added_tokens", "an array"));
  if (tokens.size() > kMaxAddedTokens)
    return wrong("added_tokens", fmt::format("more than {} entries", kMaxAddedTokens));
  std::unordered_set<std::string_view> spellings;
  std::unordered_set<std::int32_t> ids;
  for (const element value : tokens) {
    Node node{{}, fmt::format("added_tokens[{}]", parts.added.size())};
    if (value.get(node.fields) != simdjson::SUCCESS) return wrong(node.field, "an object expected");
    AddedToken token;
    DI_ASSIGN_OR_RETURN(const element id, node.get<element>("id", "a token id"));
    DI_ASSIGN_OR_RETURN(token.id, read_id(id, path(node.field, "id")));
    DI_ASSIGN_OR_RETURN(const std::string_view spelling, node.text("content"));
    if (spelling.empty() || spelling.size() > kMaxSpellingBytes) {
      return wrong(path(node.field, "content"),
                   fmt::format("1 to {} bytes expected, {} found", kMaxSpellingBytes, spelling.size()));
    }
    if (!spellings.insert(spelling).second)
      return wrong(path(node.field, "content"), fmt::format("{} appears twice", in_quotes(spelling)));
    if (!ids.insert(token.id).second) return wrong(path(node.field, "id"), fmt::format("{} appears twice", token.id));
    token.spelling = spelling;
    DI_RETURN_IF_ERROR(must_be_unset(node, {"single_word", "lstrip", "rstrip"}));
    DI_ASSIGN_OR_RETURN(token.special, node.flag("special", false));
    DI_ASSIGN_OR_RETURN(token.normalized, node.flag("normalized", !token.special));
    parts.added.push_back(std::move(token));
  }
  return {};
}

Status read_vocabulary(const Node& model, TokenizerParts& parts) {
  DI_ASSIGN_OR_RETURN(const object entries, model.get<object>("vocab", "an object"));
  std::unordered_map<std::string_view, std::int32_t> added;
  std::unordered_map<std::int32_t, std::string_view> added_by_id;
  for (const AddedToken& token : parts.added) {
    added.emplace(token.spelling, token.id);
    added_by_id.emplace(token.id, token.spelling);
  }
  // (object::size() saturates at 2^24 - 1; the table grows when that is not enough.)
  parts.vocabulary.reserve(std::min<std::size_t>(entries.size(), Bpe::kMaxIds));
  std::string bytes;
  for (const auto entry : entries) {
    const std::string_view spelling = entry.key;
    const element value = entry.value;
    const auto field = [&] { return fmt::format("model.vocab[{}]", in_quotes(spelling)); };
    if (spelling.empty() || spelling.size() > kMaxSpellingBytes) {
      return wrong(field(), fmt::format("1 to {} bytes expected, {} found", kMaxSpellingBytes, spelling.size()));
    }
    std::int64_t raw = -1;
    if (value.get(raw) != simdjson::SUCCESS || raw < 0 || raw >= Bpe::kMaxIds) return read_id(value, field()).status();
    const auto id = static_cast<std::int32_t>(raw);
    const auto also_added = added.find(spelling);
    if (also_added != added.end() && also_added->second != id) {
      return wrong(field(), fmt::format("has id {}, but added_tokens give it {}", id, also_added->second));
    }
    if (also_added == added.end()) {
      if (const auto other = added_by_id.find(id); other != added_by_id.end()) {
        return wrong(field(), fmt::format("has the id {} of the added token {}", id, in_quotes(other->second)));
      }
    }
    bytes.clear();
    if (append_byte_level(spelling, bytes)) {
      if (!parts.vocabulary.add(id, bytes))
        return wrong(field(), fmt::format("the entry or its id {} appears twice", id));
    } else if (also_added == added.end()) {
      return wrong(field(), "has a character outside the byte-level alphabet and is no added token");
    }
  }
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const char one = static_cast<char>(byte);
    parts.byte_ids[byte] = parts.vocabulary.find({&one, 1});
    if (parts.byte_ids[byte] < 0) return wrong("model.vocab", fmt::format("no token for the byte 0x{:02X}", byte));
  }
  for (const AddedToken& token : parts.added) parts.vocabulary.set_spelling(token.id, token.spelling);
  return {};
}

// The pairs that have a rule already.
class PairSet {
 public:
  explicit PairSet(std::size_t pairs) : slots_(std::bit_ceil(2 * pairs + 16), kFree) {}
  // False when the pair is there already.
  bool insert(std::int32_t left, std::int32_t right) {
    const std::uint64_t pair = static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
    std::size_t slot = pair * 0x9E3779B97F4A7C15 >> (64 - std::countr_zero(slots_.size()));
    for (; slots_[slot] != kFree; slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot] == pair) return false;
    }
    slots_[slot] = pair;
    return true;
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  std::vector<std::uint64_t> slots_;  // open addressing
};

// Both spellings of a rule: "a b" and ["a", "b"].
bool merge_parts(const element& value, std::string_view& left, std::string_view& right) {
  std::string_view both;
  if (value.get(both) == simdjson::SUCCESS) {
    const std::size_t space = both.find(' ');
    if (space == std::string_view::npos) return false;
    left = both.substr(0, space);
    right = both.substr(space + 1);
    return true;
  }
  array pair;
  if (value.get(pair) != simdjson::SUCCESS || pair.size() != 2) return false;
  return pair.at(0).get(left) == simdjson::SUCCESS && pair.at(1).get(right) == simdjson::SUCCESS;
}

Status read_merges(const Node& model, TokenizerParts& parts) {
  DI_ASSIGN_OR_RETURN(const array rules, model.get<array>("merges", "an array"));
  parts.merges.reserve(std::min<std::size_t>(rules.size(), Bpe::kMaxMerges));
  PairSet pairs(parts.merges.capacity());
  std::string bytes;
  for (const element rule : rules) {
    const auto field = [&] { return fmt::format("model.merges[{}]", parts.merges.size()); };
    if (parts.merges.size() == Bpe::kMaxMerges)
      return wrong("model.merges", fmt::format("more than {} rules", Bpe::kMaxMerges));
    std::string_view left, right;
    if (!merge_parts(rule, left, right))
      return wrong(field(), "two token spellings expected, as \"a b\" or [\"a\", \"b\"]");
    bytes.clear();
    const bool left_known = append_byte_level(left, bytes);
    const std::size_t border = bytes.size();
    const bool right_known = append_byte_level(right, bytes);
    const MergeRule merge{
        .left = left_known ? parts.vocabulary.find(std::string_view(bytes).substr(0, border)) : -1,
        .right = right_known ? parts.vocabulary.find(std::string_view(bytes).substr(border)) : -1,
        .merged = parts.vocabulary.find(bytes),
    };
    for (const auto& [id, part] : {std::pair{merge.left, left}, std::pair{merge.right, right}}) {
      if (id < 0) return wrong(field(), fmt::format("{} is not in model.vocab", in_quotes(part)));
    }
    if (merge.merged < 0)
      return wrong(field(), fmt::format("the result {} is not in model.vocab",
                                        in_quotes(std::string(left) + std::string(right))));
    if (!pairs.insert(merge.left, merge.right)) {
      return wrong(field(), fmt::format("{} {} appears twice", in_quotes(left), in_quotes(right)));
    }
    parts.merges.push_back(merge);
  }
  return {};
}

Status read_model(const Node& model, TokenizerParts& parts) {
  if (model.has("type")) {
    DI_ASSIGN_OR_RETURN(const std::string_view type, model.text("type"));
    if (type != "BPE") return not_supported("model.type", type, "BPE");
  }
  // unk_token, fuse_unk and byte_fallback are about characters without a token; here every byte has one.
  DI_RETURN_IF_ERROR(must_be_unset(model, {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}));
  DI_ASSIGN_OR_RETURN(parts.whole_pieces_first, model.flag("ignore_merges", false));
  DI_RETURN_IF_ERROR(read_vocabulary(model, parts));
  return read_merges(model, parts);
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

Result<TokenizerParts> read_tokenizer_json(std::string_view json, std::string_view name) {
  if (json.size() > kMaxTokenizerFileBytes) {
    return corrupt_file(
        fmt::format("{}: has {} bytes; allowed: at most {}", name, json.size(), kMaxTokenizerFileBytes));
  }
  simdjson::dom::parser parser;
  const simdjson::padded_string padded(json);
  if (padded.data() == nullptr) throw std::bad_alloc();
  element document;
  simdjson::error_code error = parser.allocate(padded.size(), kMaxDepth);
  if (error == simdjson::SUCCESS) error = parser.parse(padded).get(document);
  if (error == simdjson::MEMALLOC) throw std::bad_alloc();
  if (error != simdjson::SUCCESS) {
    return corrupt_file(fmt::format("{}: not JSON: {}", name, simdjson::error_message(error)));
  }
  Node root;
  if (document.get(root.fields) != simdjson::SUCCESS) return corrupt_file(fmt::format("{}: an object expected", name));
  TokenizerParts parts;
  const Status status = read_root(root, parts);
  if (!status.ok()) return status.with_context(name);
  return parts;
}

}  // namespace deepinfer
