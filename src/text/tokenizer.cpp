#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/bounded_file.h"
#include "base/on_threads.h"
#include "base/out_of_memory.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/piece_cache.h"
#include "text/splitter.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace deepinfer {
namespace {

// A text is cut for several threads into parts of at least this size; starting a thread costs about as much as
// encoding a tenth of it.
constexpr std::size_t kPartBytes = 256 << 10;
// Ids are handed to the caller's vector in runs of about this many.
constexpr std::size_t kRunIds = 2048;

// What there was no memory for.
std::string describe(std::string_view text) {
  return fmt::format("the tokens of a text of {} bytes", text.size());
}

}  // namespace

struct Tokenizer::State {
  explicit State(TokenizerParts parts)
      : vocabulary(std::move(parts.vocabulary)),
        bpe(parts.byte_ids, parts.merges),
        normalizers(std::move(parts.normalizers)),
        whole_pieces_first(parts.whole_pieces_first),
        flags(static_cast<std::size_t>(vocabulary.size())) {
    std::vector<AddedToken> raw, normalized;
    for (const AddedToken& token : parts.added) {
      flags[static_cast<std::size_t>(token.id)] = token.special ? kAdded | kSpecial : kAdded;
      (token.normalized ? normalized : raw).push_back(token);
    }
    added = AddedTokens(std::move(parts.added));
    added_raw = AddedTokens(std::move(raw));
    added_normalized = AddedTokens(std::move(normalized));
  }

  // What one thread works in; borrowed for a call, so that the next call finds a warm cache.
  struct Context {
    PieceCache cache;
    Bpe::Scratch scratch;
    std::int32_t whole = 0;  // the token of a piece that is one
  };
  class Borrowed {
   public:
    explicit Borrowed(const State& state) : state_(state) {
      const std::lock_guard lock(state.contexts_mutex);
      if (!state.contexts.empty()) {
        context_ = std::move(state.contexts.back());
        state.contexts.pop_back();
      }
      if (context_ != nullptr) return;
      context_ = std::make_unique<Context>();
      // A place for every context that was ever made: giving one back must not fail.
      state.contexts.reserve(state.made_contexts + 1);
      ++state.made_contexts;
    }
    ~Borrowed() {
      const std::lock_guard lock(state_.contexts_mutex);
      state_.contexts.push_back(std::move(context_));
    }
    Context& operator*() const { return *context_; }

   private:
    const State& state_;
    std::unique_ptr<Context> context_;
  };

  class PieceEncoder;
  Status encode_pieces(std::string_view text, std::vector<std::int32_t>& ids, Context& context) const;
  Status encode_normalized(std::string_view text, std::vector<std::int32_t>& ids, int threads) const;
  Status encode_repaired(std::string_view text, std::vector<std::int32_t>& ids, int threads) const;
  Status encode_with_added(std::string_view text, std::vector<std::int32_t>& ids, int threads) const;
  std::string normalized(std::string_view text) const;

  static constexpr std::uint8_t kAdded = 1;
  static constexpr std::uint8_t kSpecial = 2;

  Vocabulary vocabulary;
  Bpe bpe;
  std::unique_ptr<Splitter> splitter;
  std::vector<NormalForm> normalizers;
  bool whole_pieces_first;
  std::vector<std::uint8_t> flags;  // [id]
  AddedTokens added;                // all
  AddedTokens added_raw;            // those looked for in the text as it came
  AddedTokens added_normalized;     // those looked for after normalisation
  mutable std::mutex contexts_mutex;
  mutable std::vector<std::unique_ptr<Context>> contexts;  // not borrowed
  mutable std::size_t made_contexts = 0;
};

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<Tokenizer>> Tokenizer::parse(std::string_view json, std::string_view name) {
  return or_out_of_memory([&] { return fmt::format("the tokenizer of {}, {} bytes", name, json.size()); },
                          [&]() -> Result<std::unique_ptr<Tokenizer>> {
                            DI_ASSIGN_OR_RETURN(TokenizerParts parts, read_tokenizer_json(json, name));
                            auto splitter = make_splitter(parts.splits);
                            if (!splitter.ok()) return splitter.status().with_context(name);
                            auto state = std::make_unique<State>(std::move(parts));
                            state->splitter = std::move(splitter).value();
                            return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(state)));
                          });
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const std::filesystem::path& file) {
  return or_out_of_memory([] { return "tokenizer.json"; },
                          [&]() -> Result<std::unique_ptr<Tokenizer>> {
                            DI_ASSIGN_OR_RETURN(const std::string json,
                                                read_bounded_file(file, kMaxTokenizerFileBytes));
                            return parse(json, file.string());
                          });
}

// Turns pieces into ids and hands these on in runs.
class Tokenizer::State::PieceEncoder {
 public:
  PieceEncoder(const State& state, std::string_view text, Context& context, std::vector<std::int32_t>& ids)
      : state_(state), context_(context), ids_(ids), text_(text), end_(text.data() + text.size()) {}

  void encode(std::span<const Piece> pieces) {
    for (const Piece piece : pieces) {
      const std::string_view bytes = text_.substr(piece.begin, piece.end - piece.begin);
      if (bytes.size() <= PieceCache::kMaxBytes) [[likely]] {
        encode_cached(bytes);
      } else {
        encode_uncached(bytes);
      }
    }
  }

  Status finish() {
    flush();
    return std::move(status_);
  }

 private:
  void encode_cached(std::string_view piece) {
    const auto key = PieceCache::key(piece.data(), piece.size(), end_);
    if (const auto* entry = context_.cache.find(key)) [[likely]] {
      std::copy_n(entry->ids.data(), PieceCache::kMaxIds, run_.data() + count_);
      count_ += entry->count;
      if (count_ >= kRunIds) [[unlikely]]
        flush();
      return;
    }
    const auto fresh = encode_uncached(piece);
    if (fresh.size() <= PieceCache::kMaxIds) context_.cache.insert(key, fresh);
  }

  std::span<const std::int32_t> encode_uncached(std::string_view piece) {
    if (piece.size() > Bpe::kMaxPieceBytes) {
      status_ = Status(
          StatusCode::kResourceExhausted,
          fmt::format("text: a run of {} bytes without a border (at most {})", piece.size(), Bpe::kMaxPieceBytes));
      return {};
    }
    const std::int32_t whole = state_.whole_pieces_first ? state_.vocabulary.find(piece) : -1;
    if (whole >= 0) context_.whole = whole;
    const auto fresh =
        whole >= 0 ? std::span<const std::int32_t>(&context_.whole, 1) : state_.bpe.encode(piece, context_.scratch);
    if (count_ + fresh.size() <= kRunIds) {
      std::copy(fresh.begin(), fresh.end(), run_.data() + count_);
      count_ += fresh.size();
    } else {
      flush();
      ids_.insert(ids_.end(), fresh.begin(), fresh.end());
    }
    return fresh;
  }

  void flush() {
    ids_.insert(ids_.end(), run_.begin(), run_.begin() + static_cast<std::ptrdiff_t>(count_));
    count_ = 0;
  }

  const State& state_;
  Context& context_;
  std::vector<std::int32_t>& ids_;
  const std::string_view text_;
  const char* const end_;
  std::array<std::int32_t, kRunIds + PieceCache::kMaxIds> run_;
  std::size_t count_ = 0;
  Status status_;
};

// Encodes text whose pieces are known to be independent of what stands around it.
Status Tokenizer::State::encode_pieces(std::string_view text, std::vector<std::int32_t>& ids, Context& context) const {
  PieceEncoder encoder(*this, text, context, ids);
  const Status split = splitter->split(text, [&](std::span<const Piece> pieces) { encoder.encode(pieces); });
  const Status status = encoder.finish();
  return split.ok() ? status : split;
}

// One segment of the text; borders of its pieces may depend on its ends.
Status Tokenizer::State::encode_normalized(std::string_view text, std::vector<std::int32_t>& ids, int threads) const {
  const std::size_t wanted =
      std::min<std::size_t>(static_cast<std::size_t>(std::max(threads, 1)), text.size() / kPartBytes);
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0, i = 1; wanted > 1 && i <= wanted; ++i) {
    const std::size_t target = text.size() / wanted * i;
    const std::size_t end = i == wanted ? text.size() : splitter->safe_cut(text, std::max(target, begin));
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  if (parts.size() < 2) return encode_pieces(text, ids, *Borrowed(*this));

  std::vector<std::vector<std::int32_t>> part_ids(parts.size());
  std::vector<Status> part_status(parts.size());
  const auto work = [&](std::size_t i) {  // on a thread of its own, where nobody else would catch anything
    part_status[i] = or_out_of_memory([&] { return describe(text); },
                                      [&] {
                                        part_ids[i].reserve(parts[i].size() / 3);
                                        return encode_pieces(parts[i], part_ids[i], *Borrowed(*this));
                                      });
  };
  on_threads(parts.size(), work);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    DI_RETURN_IF_ERROR(part_status[i]);
    ids.insert(ids.end(), part_ids[i].begin(), part_ids[i].end());
  }
  return {};
}

std::string Tokenizer::State::normalized(std::string_view text) const {
  std::string result(text);
  for (const NormalForm form : normalizers) result = normalize(result, form);
  return result;
}

Status Tokenizer::State::encode_repaired(std::string_view text, std::vector<std::int32_t>& ids, int threads) const {
  if (text.empty()) return {};
  if (text.size() > kMaxSplitBytes) {
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("text: {} bytes (at most {})", text.size(), kMaxSplitBytes));
  }
  return normalizers.empty() ? encode_normalized(text, ids, threads)
                             : encode_normalized(normalized(text), ids, threads);
}

// Calls between(stretch) for the text between the added tokens of `tokens`, and appends the ids of those.
template <typename Between>
Status for_each_stretch(const AddedTokens& tokens, std::string_view text, std::vector<std::int32_t>& ids,
                        Between between) {
  std::size_t done = 0;
  while (const auto match = tokens.next(text, done)) {
    DI_RETURN_IF_ERROR(between(text.substr(done, match->begin - done)));
    ids.push_back(match->id);
    done = match->end;
  }
  return between(text.substr(done));
}

Status Tokenizer::State::encode_with_added(std::string_view text, std::vector<std::int32_t>& ids, int threads) const {
  return for_each_stretch(added_raw, text, ids, [&](std::string_view stretch) -> Status {
    if (stretch.empty()) return {};
    if (stretch.size() > kMaxSplitBytes) return encode_repaired(stretch, ids, threads);
    std::string rewritten;
    if (!normalizers.empty()) stretch = rewritten = normalized(stretch);
    return for_each_stretch(added_normalized, stretch, ids, [&](std::string_view plain) -> Status {
      return plain.empty() ? Status() : encode_normalized(plain, ids, threads);
    });
  });
}

namespace {

// `text`, or its repaired copy in `storage`.
std::string_view repaired(std::string_view text, std::string& storage) {
  if (is_valid_utf8(text)) return text;
  append_repaired_utf8(text, storage);
  return storage;
}

// Runs `append`, which appends the ids of the text; after a failure ids is what it was.
template <typename Append>
Status all_or_nothing(std::string_view text, std::vector<std::int32_t>& ids, Append append) {
  const std::size_t before = ids.size();
  Status status = or_out_of_memory([&] { return describe(text); }, append);
  if (!status.ok()) ids.resize(before);
  return status;
}

}  // namespace

Status Tokenizer::encode(std::string_view text, std::vector<std::int32_t>& ids, int threads) const {
  return all_or_nothing(text, ids, [&] {
    std::string storage;
    return state_->encode_with_added(repaired(text, storage), ids, threads);
  });
}

Status Tokenizer::encode_plain(std::string_view text, std::vector<std::int32_t>& ids, int threads) const {
  return all_or_nothing(text, ids, [&] {
    std::string storage;
    return state_->encode_repaired(repaired(text, storage), ids, threads);
  });
}

Status Tokenizer::encode_segments(std::string_view text, std::span<const ByteRange> special,
                                  std::vector<std::int32_t>& ids, int threads) const {
  return all_or_nothing(text, ids, [&]() -> Status {
    std::size_t done = 0;
    for (const ByteRange range : special) {
      if (range.begin < done || range.begin >= range.end || range.end > text.size()) {
        return invalid_argument(
            fmt::format("special: range {}..{} must be non-empty, behind {} and inside the text's {} bytes",
                        range.begin, range.end, done, text.size()));
      }
      const std::string_view spelling = text.substr(range.begin, range.end - range.begin);
      const auto id = state_->added.find(spelling);
      if (!id)
        return invalid_argument(
            fmt::format("special: {:?} is not a special token of this tokenizer", spelling.substr(0, 80)));
      DI_RETURN_IF_ERROR(encode_plain(text.substr(done, range.begin - done), ids, threads));
      ids.push_back(*id);
      done = range.end;
    }
    return encode_plain(text.substr(done), ids, threads);
  });
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string raw;
  for (const std::int32_t id : ids) raw.append(bytes(id));
  if (is_valid_utf8(raw)) return raw;
  std::string text;
  append_repaired_utf8(raw, text);
  return text;
}

std::string_view Tokenizer::bytes(std::int32_t id) const {
  return state_->vocabulary.bytes(id);
}

std::optional<std::int32_t> Tokenizer::id(std::string_view spelling) const {
  if (const auto added = state_->added.find(spelling)) return added;
  const std::int32_t found = state_->vocabulary.find(spelling);
  return found >= 0 ? std::optional(found) : std::nullopt;
}

std::optional<std::int32_t> Tokenizer::added_id(std::string_view spelling) const {
  return state_->added.find(spelling);
}

bool Tokenizer::is_added(std::int32_t id) const {
  return static_cast<std::size_t>(static_cast<std::uint32_t>(id)) < state_->flags.size() &&
         (state_->flags[static_cast<std::size_t>(id)] & State::kAdded) != 0;
}

bool Tokenizer::is_special(std::int32_t id) const {
  return is_added(id) && (state_->flags[static_cast<std::size_t>(id)] & State::kSpecial) != 0;
}

std::int32_t Tokenizer::vocabulary() const {
  return state_->vocabulary.size();
}

}  // namespace deepinfer
