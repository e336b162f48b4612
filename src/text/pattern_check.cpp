#include "text/pattern_check.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <memory>
#include <string>

namespace deepinfer {

Status check_pattern(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return invalid_argument("longer than " + std::to_string(kMaxPatternBytes) + " bytes");
  }
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  if (!context) return {StatusCode::kResourceExhausted, "out of memory"};
  pcre2_set_max_pattern_length(context.get(), kMaxPatternBytes);
  pcre2_set_parens_nest_limit(context.get(), 100);
  int error = 0;
  PCRE2_SIZE offset = 0;
  // The options that bring PCRE2 closest to ECMA-262 in Unicode mode.
  const uint32_t options = PCRE2_UTF | PCRE2_ALT_BSUX | PCRE2_ALLOW_EMPTY_CLASS | PCRE2_MATCH_UNSET_BACKREF |
                           PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_POSSESS;
  const std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, &error, &offset,
                    context.get()),
      &pcre2_code_free);
  if (code) return {};
  PCRE2_UCHAR message[128] = {};
  pcre2_get_error_message(error, message, sizeof(message));
  return invalid_argument(std::string(reinterpret_cast<const char*>(message)) + " at byte " + std::to_string(offset));
}

}  // namespace deepinfer
