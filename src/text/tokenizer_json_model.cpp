// The tokens and merges of a tokenizer.json.
#include <algorithm>
#include <bit>
#include <unordered_map>
#include <unordered_set>

#include "text/byte_level.h"
#include "text/tokenizer_json_node.h"

namespace deepinfer::tokenizer_json {
namespace {

constexpr std::size_t kMaxSpellingBytes = 4096;
constexpr std::size_t kMaxAddedTokens = 1 << 16;

Result<std::int32_t> read_id(const element& value, std::string_view field) {
  std::int64_t id = -1;
  if (value.get(id) != simdjson::SUCCESS || id < 0 || id >= Bpe::kMaxIds) {
    return wrong(field, fmt::format("a token id from 0 to {} expected", Bpe::kMaxIds - 1));
  }
  return static_cast<std::int32_t>(id);
}

}  // namespace

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

namespace {

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

}  // namespace

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

}  // namespace deepinfer::tokenizer_json
