#include "grammar/schema/string_formats.h"

#include <string>
#include <utility>
#include <vector>

namespace deepinfer {
namespace {

struct Format {
  std::string_view name;
  std::string pattern;
};

std::vector<Format> make_formats() {
  const std::string leap_year = "([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)";
  const std::string date =
      "([0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8])"
      ")|" +
      leap_year + "-02-29)";
  const std::string time =
      "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
  // Labels with hyphens in places 3 and 4 are reserved (and may be invalid Punycode): hyphens stand alone here.
  const std::string plain_label = "[a-zA-Z0-9]{1,30}(-[a-zA-Z0-9]{1,30})?";
  const std::string host = plain_label + "(\\." + plain_label + "){0,3}";
  const std::string byte = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  const std::string ipv4 = byte + "\\." + byte + "\\." + byte + "\\." + byte;
  const std::string group = "[0-9a-fA-F]{1,4}";
  const std::string atom = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]{1,20}";
  const std::string escaped = "%[0-9a-fA-F]{2}";
  const std::string path_character = "([a-zA-Z0-9._~!$&'()*+,;=:@-]|" + escaped + ")";
  const std::string uri_tail =
      "(/" + path_character + "*)*(\\?(" + path_character + "|[/?])*)?(#(" + path_character + "|[/?])*)?";
  const std::string uri = "[a-zA-Z][a-zA-Z0-9+.-]*:(//([a-zA-Z0-9._~-]+@)?" + host + "(:[0-9]{1,4})?" + uri_tail + "|" +
                          path_character + "+" + uri_tail + ")";
  const std::string hex = "[0-9a-fA-F]";
  const std::string pointer = "(/([^/~]|~[01])*)*";
  const std::string count = "[0-9]{1,9}";
  std::vector<Format> formats{
      {"date", date},
      {"time", time},
      {"date-time", date + "T" + time},
      {"duration", "P(" + count + "W|(" + count + "Y(" + count + "M(" + count + "D)?)?|" + count + "M(" + count +
                       "D)?|" + count + "D)(T(" + count + "H(" + count + "M(" + count + "S)?)?|" + count + "M(" +
                       count + "S)?|" + count + "S))?|T(" + count + "H(" + count + "M(" + count + "S)?)?|" + count +
                       "M(" + count + "S)?|" + count + "S))"},
      {"email", atom + "(\\." + atom + "){0,2}@" + host},
      {"hostname", host},
      {"ipv4", ipv4},
      {"ipv6", "((" + group + ":){7}" + group + "|::(" + group + "(:" + group + "){0,5})?|" + group + "::(" + group +
                   "(:" + group + "){0,4})?|" + group + ":" + group + "::(" + group + "(:" + group + "){0,3})?)"},
      {"uuid", hex + "{8}-" + hex + "{4}-" + hex + "{4}-" + hex + "{4}-" + hex + "{12}"},
      {"uri", uri},
      {"json-pointer", pointer},
  };
  return formats;
}

}  // namespace

std::optional<std::string_view> format_pattern(std::string_view format) {
  static const std::vector<Format> kFormats = make_formats();
  for (const Format& known : kFormats)
    if (known.name == format) return known.pattern;
  return std::nullopt;
}

}  // namespace deepinfer
