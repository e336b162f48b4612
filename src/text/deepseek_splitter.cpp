#include "text/deepseek_splitter.h"

#include <emmintrin.h>

#include <array>
#include <bit>

#include "text/unicode_classes.h"
#include "text/utf8.h"

namespace deepinfer {
namespace {

constexpr const char* kNumbers = R"(\p{N}{1,3})";
constexpr const char* kCjkRun = "[一-龥぀-ゟ゠-ヿ]+";
// Punctuation with a word | word with one character before | symbols with a space before and newlines behind | lines'
// ends | white space but the last before a word | white space.  DeepSeek's files spell CR and LF as themselves, files
// that were written by hand as escapes.
constexpr const char* kWords = R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^)"
                               "\r\n"
                               R"(\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[)"
                               "\r\n"
                               R"(]*|\s*[)"
                               "\r\n"
                               R"(]+|\s+(?!\S)|\s+)";
constexpr const char* kWordsEscaped =
    R"([!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

using enum CharClass;

constexpr auto kAsciiClass = [] {
  std::array<CharClass, 128> table{};
  for (int c = 0; c < 128; ++c) {
    CharClass& entry = table[static_cast<std::size_t>(c)];
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      entry = kLetter;
    } else if (c >= '0' && c <= '9') {
      entry = kNumber;
    } else if (c == '\r' || c == '\n') {
      entry = kNewline;
    } else if (c == ' ' || c == '\t' || c == '\v' || c == '\f') {
      entry = kSpace;
    } else if (c > ' ' && c < 0x7F) {
      entry = kSymbol;
    } else {
      entry = kOther;
    }
  }
  return table;
}();

bool is_ascii(char c) {
  return static_cast<signed char>(c) >= 0;
}
CharClass ascii_class(char c) {
  return kAsciiClass[static_cast<unsigned char>(c)];
}
bool is_ascii_letter(char c) {
  return static_cast<unsigned char>((c | 0x20) - 'a') < 26;
}

// End of the run of ASCII letters at `at`.
const char* skip_ascii_letters(const char* at, const char* end) {
  while (end - at >= 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    // (byte | 0x20) - 'a' < 26 unsigned, as a signed comparison after moving the range to its lower end.
    const __m128i moved =
        _mm_add_epi8(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), _mm_set1_epi8(static_cast<char>(-'a' - 128)));
    const auto letters = static_cast<unsigned>(_mm_movemask_epi8(_mm_cmplt_epi8(moved, _mm_set1_epi8(-128 + 26))));
    if (letters != 0xFFFF) return at + std::countr_one(letters);
    at += 16;
  }
  while (at < end && is_ascii_letter(*at)) ++at;
  return at;
}

// Splits one stretch of text.  The three expressions run one after the other in the tokenizer.json; here the first two
// only decide where a segment ends: the third sees numbers and CJK runs as the end of its text.
class Scanner {
 public:
  Scanner(const char* at, const char* end) : at_(at), end_(end), cjk_end_(at) {}

  bool done() const { return at_ == end_; }

  // The end of the piece that begins at the current position, which moves there.
  const char* next() {
    const char* const begin = at_;
    if (begin < cjk_end_) return at_ = piece_end<true>(begin, cjk_end_);
    if (is_ascii(*begin)) return at_ = ascii_piece_end(begin);
    const char* behind = begin;
    const char32_t c = next_code_point(behind);
    if (is_cjk(c)) return at_ = cjk_piece_end(begin);
    if (char_class(c) == kNumber) return at_ = number_end(begin);
    return at_ = piece_end<false>(begin, end_);
  }

 private:
  struct Char {
    CharClass klass;
    const char* behind;
    bool inside;  // false: the segment has ended, klass and behind mean nothing
  };

  // The character at `at` as the third expression sees it.
  template <bool kInCjkRun>
  Char look(const char* at, const char* end) const {
    if (at == end) return {kOther, at, false};
    if (is_ascii(*at)) {
      const CharClass klass = ascii_class(*at);
      return {klass, at + 1, kInCjkRun || klass != kNumber};
    }
    const char* behind = at;
    const char32_t c = next_code_point(behind);
    const CharClass klass = char_class(c);
    return {klass, behind, kInCjkRun || (klass != kNumber && !is_cjk(c))};
  }

  static bool in_word(const Char& c) { return c.inside && (c.klass == kLetter || c.klass == kMark); }

  template <bool kInCjkRun>
  const char* word_end(const char* at, const char* end) const {
    for (;;) {
      if constexpr (!kInCjkRun) at = skip_ascii_letters(at, end);
      const Char c = look<kInCjkRun>(at, end);
      if (!in_word(c)) return at;
      at = c.behind;
    }
  }

  template <bool kInCjkRun>
  const char* symbols_end(const char* at, const char* end) const {
    for (;;) {
      const Char c = look<kInCjkRun>(at, end);
      if (!c.inside || c.klass != kSymbol) break;
      at = c.behind;
    }
    while (at < end && (*at == '\r' || *at == '\n')) ++at;
    return at;
  }

  // \s*[\r\n]+ | \s+(?!\S) | \s+
  template <bool kInCjkRun>
  const char* space_end(const char* at, const char* end) const {
    const char* newline_end = nullptr;
    const char* last = at;
    const char* const begin = at;
    for (;;) {
      const Char c = look<kInCjkRun>(at, end);
      if (!c.inside || (c.klass != kSpace && c.klass != kNewline)) {
        if (newline_end != nullptr) return newline_end;
        return c.inside && last != begin ? last : at;
      }
      last = at;
      at = c.behind;
      if (c.klass == kNewline) newline_end = at;
    }
  }

  // The third expression's match at `at`, or null.
  template <bool kInCjkRun>
  const char* match(const char* at, const char* end) const {
    const Char first = look<kInCjkRun>(at, end);
    switch (first.klass) {
      case kLetter:
      case kMark:
        return word_end<kInCjkRun>(first.behind, end);
      case kSymbol:
        if (is_ascii(*at)) {
          const char* letters_end = skip_ascii_letters(at + 1, end);
          if (letters_end != at + 1) return letters_end;
        }
        return symbols_end<kInCjkRun>(first.behind, end);
      case kNewline:
        return space_end<kInCjkRun>(at, end);
      case kSpace:
      case kOther:
      case kNumber: {
        const Char second = look<kInCjkRun>(first.behind, end);
        if (in_word(second)) return word_end<kInCjkRun>(second.behind, end);
        if (*at == ' ' && second.inside && second.klass == kSymbol) return symbols_end<kInCjkRun>(second.behind, end);
        return first.klass == kSpace ? space_end<kInCjkRun>(at, end) : nullptr;
      }
    }
    return nullptr;
  }

  // The end of the match at `at`; where there is none, of the stretch up to the next match.
  template <bool kInCjkRun>
  const char* piece_end(const char* at, const char* end) const {
    if (const char* found = match<kInCjkRun>(at, end)) return found;
    do {
      at = look<kInCjkRun>(at, end).behind;
    } while (look<kInCjkRun>(at, end).inside && match<kInCjkRun>(at, end) == nullptr);
    return at;
  }

  const char* ascii_piece_end(const char* begin) const {
    const CharClass klass = ascii_class(*begin);
    if (klass == kNumber) return number_end(begin);
    if (klass == kNewline) return space_end<false>(begin, end_);
    const char* word = begin + (klass != kLetter);
    const char* word_stop = skip_ascii_letters(word, end_);
    if (word_stop != word && (word_stop == end_ || is_ascii(*word_stop) || klass == kSymbol)) return word_stop;
    return piece_end<false>(begin, end_);
  }

  const char* number_end(const char* at) const {
    for (int digits = 0; digits < 3 && at != end_; ++digits) {
      const char* behind = at;
      if (char_class(next_code_point(behind)) != kNumber) break;
      at = behind;
    }
    return at;
  }

  const char* cjk_piece_end(const char* begin) {
    const char* at = begin;
    bool one_word = true;
    // All characters of the run have three bytes, the first E3..E9.
    while (at < end_ && static_cast<unsigned char>(*at) - 0xE3u <= 0xE9u - 0xE3u) {
      const char* behind = at;
      const char32_t c = next_code_point(behind);
      if (!is_cjk(c)) break;
      if (c < 0x4E00) one_word = one_word && (char_class(c) == kLetter || char_class(c) == kMark);
      at = behind;
    }
    if (one_word) return at;
    cjk_end_ = at;
    return piece_end<true>(begin, at);
  }

  const char* at_;
  const char* const end_;
  const char* cjk_end_;  // end of the CJK run that the current position is in, when it takes more than one piece
};

bool is_plain(const SplitRule& rule) {
  return !rule.literal && !rule.invert && rule.behavior == SplitBehavior::kIsolated;
}

}  // namespace

bool DeepSeekSplitter::accepts(const std::vector<SplitRule>& rules) {
  return rules.size() == 3 && is_plain(rules[0]) && is_plain(rules[1]) && is_plain(rules[2]) &&
         rules[0].pattern == kNumbers && rules[1].pattern == kCjkRun &&
         (rules[2].pattern == kWords || rules[2].pattern == kWordsEscaped);
}

std::vector<SplitRule> DeepSeekSplitter::rules() {
  const auto rule = [](const char* pattern) { return SplitRule{.pattern = pattern, .field = "pre_tokenizer"}; };
  return {rule(kNumbers), rule(kCjkRun), rule(kWords)};
}

Status DeepSeekSplitter::split(std::string_view text, Sink sink) const {
  std::array<Piece, 512> pieces;
  std::size_t count = 0;
  const char* const origin = text.data();
  Scanner scanner(origin, origin + text.size());
  std::uint32_t begin = 0;
  while (!scanner.done()) {
    const auto end = static_cast<std::uint32_t>(scanner.next() - origin);
    pieces[count++] = {begin, end};
    begin = end;
    if (count == pieces.size()) {
      sink(pieces);
      count = 0;
    }
  }
  if (count > 0) sink(std::span<const Piece>(pieces).first(count));
  return {};
}

// Two kinds of places are borders whatever stands around them: behind an ASCII letter and before a space (a word ends
// there and nothing before it looks further), and the beginning or end of a CJK run.
std::size_t DeepSeekSplitter::safe_cut(std::string_view text, std::size_t from) const {
  const char* const end = text.data() + text.size();
  const char* at = text.data() + from;
  while (at < end && (*at & 0xC0) == 0x80) ++at;  // to the beginning of a character
  bool before_known = false, letter_before = false, cjk_before = false;
  while (at < end) {
    const bool letter = is_ascii_letter(*at);
    const bool space = *at == ' ';
    const char* const here = at;
    const bool cjk = is_cjk(next_code_point(at));
    if (before_known && ((letter_before && space) || cjk_before != cjk))
      return static_cast<std::size_t>(here - text.data());
    before_known = true;
    letter_before = letter;
    cjk_before = cjk;
  }
  return text.size();
}

}  // namespace deepinfer
