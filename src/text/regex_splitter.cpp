#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex_splitter.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

namespace deepinfer {
namespace {

// How much work one match attempt may do before it is given up; DeepSeek's and GPT's expressions need none of it.
constexpr std::uint32_t kMatchLimit = 10'000'000;
constexpr std::size_t kJitStackStart = 32 << 10;
constexpr std::size_t kJitStackMax = 8 << 20;
constexpr std::size_t kMaxPatternBytes = 1 << 16;

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};
using Code = std::unique_ptr<pcre2_code, Freed<pcre2_code_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context, Freed<pcre2_compile_context_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Freed<pcre2_jit_stack_free>>;

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

// tokenizer.json is written for Oniguruma with Ruby's syntax.  Rewrites the escapes that mean something else in PCRE2
// (white space is the Unicode property there, words are Alphabetic, M, Nd, Pc); refuses constructs that differ
// otherwise.
Result<std::string> to_pcre2(const SplitRule& rule) {
  const std::string& in = rule.pattern;
  const auto refuse = [&](std::string_view construct) {
    return unsupported(fmt::format("{}.pattern: `{}` in {:?} is not supported", rule.field, construct, in));
  };
  constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const char c = in[i];
    const char next = i + 1 < in.size() ? in[i + 1] : '\0';
    if (c == '\\' && next != '\0') {
      ++i;
      switch (next) {
        case 's':
          out += "\\p{White_Space}";
          break;
        case 'S':
          out += "\\P{White_Space}";
          break;
        case 'w':
          out += in_class ? std::string(kWord) : fmt::format("[{}]", kWord);
          break;
        case 'W':
          if (in_class) return refuse("[\\W]");
          out += fmt::format("[^{}]", kWord);
          break;
        default:
          // Of letters and digits only those whose meaning both engines share.
          if (std::isalnum(static_cast<unsigned char>(next)) &&
              std::string_view("rntfvaepPdDux").find(next) == std::string_view::npos) {
            return refuse(in.substr(i - 1, 2));
          }
          out += {c, next};
          if ((next == 'p' || next == 'P' || next == 'x') && i + 1 < in.size() && in[i + 1] == '{') {
            const std::size_t close = std::min(in.find('}', i), in.size() - 1);
            out += in.substr(i + 1, close - i);
            i = close;
          }
      }
      continue;
    }
    if (in_class) {
      if (c == '[') return refuse("[ inside [...]");
      if (c == '&' && next == '&') return refuse("&&");
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
      if (next == ']') return refuse("[]");
    } else if (c == '}' && next == '+') {
      return refuse("}+");  // greedy in Ruby's syntax, possessive in PCRE2
    }
    out += c;
    // A bracket right behind "[^" is text in PCRE2 and an error in Oniguruma.
    if (c == '^' && in_class && next == ']' && in[i - 1] == '[') return refuse("[^]");
  }
  return out;
}

// Searches one subject from left to right the way Hugging Face's binding of Oniguruma does.
class Searcher {
 public:
  explicit Searcher(const pcre2_code* code)
      : code_(code),
        data_(pcre2_match_data_create_from_pattern(code, nullptr)),
        context_(pcre2_match_context_create(nullptr)),
        stack_(pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr)) {
    pcre2_set_match_limit(context_.get(), kMatchLimit);
    pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
  }

  void start(std::string_view subject) {
    subject_ = subject;
    at_ = 0;
    last_end_ = kNone;
  }

  // The next match; none at the end; kResourceExhausted.
  Result<std::optional<std::pair<std::size_t, std::size_t>>> next() {
    using Match = std::pair<std::size_t, std::size_t>;
    while (at_ <= subject_.size()) {
      const int found = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(subject_.data()), subject_.size(), at_,
                                    PCRE2_NO_UTF_CHECK, data_.get(), context_.get());
      if (found == PCRE2_ERROR_NOMATCH) break;
      if (found < 0) return Status(StatusCode::kResourceExhausted, pcre2_message(found));
      const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(data_.get());
      const Match match{offsets[0], offsets[1]};
      if (match.first >= match.second) {
        // An empty match right behind the last match does not count; look on from the next character.
        if (last_end_ == match.second) {
          do ++at_;
          while (at_ < subject_.size() && (subject_[at_] & 0xC0) == 0x80);
          continue;
        }
      }
      at_ = match.second;
      last_end_ = match.second;
      return std::optional(match);
    }
    return std::optional<Match>();
  }

 private:
  static constexpr auto kNone = static_cast<std::size_t>(-1);

  const pcre2_code* code_;
  MatchData data_;
  MatchContext context_;
  JitStack stack_;
  std::string_view subject_;
  std::size_t at_ = 0;
  std::size_t last_end_ = kNone;  // of the last match
};

struct Part {
  Piece range;
  bool is_match;
};

// Appends the non-empty pieces that `parts`, which cover one piece of the step before, become.
void join_parts(const std::vector<Part>& parts, SplitBehavior behavior, std::vector<Piece>& out) {
  const auto append = [&](Piece piece) {
    if (piece.begin < piece.end) out.push_back(piece);
  };
  Piece open{0, 0};
  bool has_open = false;
  bool previous_match = false;
  const auto flush = [&] {
    if (has_open) append(open);
    has_open = false;
  };
  for (const Part& part : parts) {
    bool glue = false;
    switch (behavior) {
      case SplitBehavior::kIsolated:
        break;
      case SplitBehavior::kRemoved:
        if (part.is_match) continue;
        break;
      case SplitBehavior::kMergedWithPrevious:
        glue = part.is_match && !previous_match;
        break;
      case SplitBehavior::kMergedWithNext:
        glue = has_open && previous_match && !part.is_match;
        break;
      case SplitBehavior::kContiguous:
        glue = part.is_match == previous_match;
        break;
    }
    previous_match = part.is_match;
    if (glue && has_open) {
      open.end = part.range.end;
      continue;
    }
    flush();
    open = part.range;
    has_open = true;
  }
  flush();
}

}  // namespace

struct RegexSplitter::Step {
  SplitRule rule;
  Code code;
};

RegexSplitter::RegexSplitter() = default;
RegexSplitter::~RegexSplitter() = default;

Result<std::unique_ptr<Splitter>> RegexSplitter::create(const std::vector<SplitRule>& rules) {
  std::unique_ptr<RegexSplitter> splitter(new RegexSplitter);
  const CompileContext context(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 100);
  for (const SplitRule& rule : rules) {
    if (rule.pattern.empty() || rule.pattern.size() > kMaxPatternBytes) {
      return unsupported(
          fmt::format("{}.pattern: {} bytes (1..{} are supported)", rule.field, rule.pattern.size(), kMaxPatternBytes));
    }
    std::string pattern = rule.pattern;
    if (!rule.literal) {
      DI_ASSIGN_OR_RETURN(pattern, to_pcre2(rule));
    }
    const std::uint32_t options = rule.literal ? PCRE2_UTF | PCRE2_LITERAL : PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE;
    int error = 0;
    PCRE2_SIZE offset = 0;
    Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, &error, &offset,
                            context.get()));
    if (code == nullptr) {
      return unsupported(
          fmt::format("{}.pattern: {:?} does not compile: {}", rule.field, rule.pattern, pcre2_message(error)));
    }
    // Without just-in-time code (a kernel that forbids writable code) the interpreter gives the same matches.
    pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
    splitter->steps_.push_back({rule, std::move(code)});
  }
  return std::unique_ptr<Splitter>(std::move(splitter));
}

Status RegexSplitter::split(std::string_view text, Sink sink) const {
  if (text.empty()) return {};
  std::vector<Piece> pieces{{0, static_cast<std::uint32_t>(text.size())}};
  std::vector<Piece> cut;
  std::vector<Part> parts;
  for (const Step& step : steps_) {
    Searcher searcher(step.code.get());
    cut.clear();
    for (const Piece piece : pieces) {
      const std::string_view subject = text.substr(piece.begin, piece.end - piece.begin);
      const auto add = [&](std::size_t begin, std::size_t end, bool is_match) {
        parts.push_back(
            {{static_cast<std::uint32_t>(piece.begin + begin), static_cast<std::uint32_t>(piece.begin + end)},
             is_match != step.rule.invert});
      };
      parts.clear();
      searcher.start(subject);
      std::size_t done = 0;
      for (;;) {
        auto match = searcher.next();
        if (!match.ok()) return match.status().with_context(step.rule.field + ".pattern");
        if (!match->has_value()) break;
        const auto [begin, end] = **match;
        if (done < begin) add(done, begin, false);
        add(begin, end, true);
        done = end;
      }
      if (done < subject.size()) add(done, subject.size(), false);
      join_parts(parts, step.rule.behavior, cut);
    }
    pieces.swap(cut);
  }
  sink(pieces);
  return {};
}

std::size_t RegexSplitter::safe_cut(std::string_view text, std::size_t) const {
  return text.size();
}

}  // namespace deepinfer
