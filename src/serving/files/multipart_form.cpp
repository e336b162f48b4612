#include "serving/files/multipart_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace deepinfer::serving {
namespace {

constexpr std::string_view kLineEnd = "\r\n";

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

void skip_blanks(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
}

bool is_token_character(char c) {
  return c > 0x20 && c < 0x7F && std::string_view("()<>@,;:\\\"/[]?={}").find(c) == std::string_view::npos;
}

// The token at the front, which `text` begins behind afterwards; empty: there is none.
std::string_view take_token(std::string_view& text) {
  const auto end = std::find_if_not(text.begin(), text.end(), is_token_character);
  const std::string_view token = text.substr(0, static_cast<size_t>(end - text.begin()));
  text.remove_prefix(token.size());
  return token;
}

// The value of a parameter: a token or a quoted string, in which a backslash stands before a quote or a backslash.
std::optional<std::string> take_value(std::string_view& text) {
  if (!text.starts_with('"')) {
    const std::string_view token = take_token(text);
    return token.empty() ? std::nullopt : std::optional<std::string>(token);
  }
  std::string value;
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') {
      text.remove_prefix(i + 1);
      return value;
    }
    const bool escape = text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == '"' || text[i + 1] == '\\');
    value += text[escape ? ++i : i];
  }
  return std::nullopt;
}

struct Parameters {
  std::vector<std::pair<std::string, std::string>> list;  // names in lower case
  const std::string* find(std::string_view name) const {
    for (const auto& [key, value] : list)
      if (key == name) return &value;
    return nullptr;
  }
};

// ";name=value" any number of times, each name once.
std::optional<Parameters> read_parameters(std::string_view text) {
  Parameters parameters;
  for (skip_blanks(text); !text.empty(); skip_blanks(text)) {
    if (!text.starts_with(';')) return std::nullopt;
    text.remove_prefix(1);
    skip_blanks(text);
    std::string name(take_token(text));
    std::transform(name.begin(), name.end(), name.begin(), lower);
    if (name.empty() || !text.starts_with('=') || parameters.find(name) != nullptr) return std::nullopt;
    text.remove_prefix(1);
    std::optional<std::string> value = take_value(text);
    if (!value) return std::nullopt;
    parameters.list.emplace_back(std::move(name), *std::move(value));
  }
  return parameters;
}

Result<std::string> read_boundary(std::string_view content_type) {
  constexpr std::string_view kType = "multipart/form-data";
  skip_blanks(content_type);
  if (!equal_ignoring_case(content_type.substr(0, kType.size()), kType))
    return invalid_argument("the body is not multipart/form-data");
  const std::optional<Parameters> parameters = read_parameters(content_type.substr(kType.size()));
  const std::string* boundary = parameters ? parameters->find("boundary") : nullptr;
  if (boundary == nullptr) return invalid_argument("content-type: multipart/form-data needs one boundary");
  const auto allowed = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("'()+_,-./:=? ").find(c) != std::string_view::npos;
  };
  if (boundary->empty() || boundary->size() > 70 || boundary->back() == ' ' ||
      !std::all_of(boundary->begin(), boundary->end(), allowed))
    return invalid_argument("content-type: the boundary has 1 to 70 characters of letters, digits and '()+_,-./:=?");
  return *boundary;
}

bool is_plain_text(std::string_view text) {
  if (text.size() > kMostFormNameBytes) return false;
  while (!text.empty()) {
    const Utf8Prefix prefix = utf8_prefix(text);
    if (prefix.kind != Utf8Prefix::Kind::kCharacter || prefix.code_point < 0x20 || prefix.code_point == 0x7F)
      return false;
    text.remove_prefix(prefix.length);
  }
  return true;
}

Status read_disposition(std::string_view value, FormPart& part) {
  skip_blanks(value);
  const std::string_view kind = take_token(value);
  const std::optional<Parameters> parameters = read_parameters(value);
  const std::string* name = parameters ? parameters->find("name") : nullptr;
  if (!equal_ignoring_case(kind, "form-data") || name == nullptr)
    return invalid_argument("content-disposition: expected form-data with a name");
  const std::string* filename = parameters->find("filename");
  if (name->empty() || !is_plain_text(*name) || (filename != nullptr && !is_plain_text(*filename)))
    return invalid_argument(
        fmt::format("name and filename are UTF-8 without control characters, at most {} bytes", kMostFormNameBytes));
  part.name = *name;
  if (filename != nullptr) part.filename = *filename;
  return {};
}

// The header lines of a part, each with its end.
Status read_head(std::string_view head, FormPart& part) {
  bool named = false;
  while (!head.empty()) {
    const size_t end = head.find(kLineEnd);
    std::string_view line = head.substr(0, end);
    head.remove_prefix(end + kLineEnd.size());
    const std::string_view field = take_token(line);
    if (field.empty() || !line.starts_with(':') || line.find_first_of(std::string_view("\r\n\0", 3)) != line.npos)
      return invalid_argument("a header line is malformed");
    line.remove_prefix(1);
    if (equal_ignoring_case(field, "content-disposition")) {
      if (std::exchange(named, true)) return invalid_argument("content-disposition is there twice");
      DI_RETURN_IF_ERROR(read_disposition(line, part));
    } else if (equal_ignoring_case(field, "content-transfer-encoding")) {
      skip_blanks(line);
      const std::string_view coding = take_token(line);
      if (!equal_ignoring_case(coding, "binary") && !equal_ignoring_case(coding, "8bit") &&
          !equal_ignoring_case(coding, "7bit"))
        return invalid_argument("content-transfer-encoding is binary, 8bit or 7bit");
    }
  }
  return named ? Status() : invalid_argument("there is no content-disposition");
}

Result<std::vector<FormPart>> read_parts(std::string_view body, const std::string& boundary) {
  const std::string first = "--" + boundary, next = "\r\n--" + boundary;
  if (!body.starts_with(first)) return invalid_argument("the body does not begin with its boundary");
  body.remove_prefix(first.size());
  std::vector<FormPart> parts;
  while (!body.starts_with("--")) {
    const auto wrong = [&](const Status& what) {
      return what.with_context(fmt::format("part {} of the form", parts.size() + 1));
    };
    skip_blanks(body);
    if (!body.starts_with(kLineEnd)) return wrong(invalid_argument("a boundary's line does not end behind it"));
    body.remove_prefix(kLineEnd.size());
    if (parts.size() == kMostFormParts)
      return invalid_argument(fmt::format("the form has more than {} parts", kMostFormParts));
    const size_t head = body.substr(0, kMostFormHeadBytes).find("\r\n\r\n");
    if (head == std::string_view::npos)
      return wrong(invalid_argument(fmt::format("its header does not end within {} bytes", kMostFormHeadBytes)));
    FormPart part;
    if (const Status status = read_head(body.substr(0, head + kLineEnd.size()), part); !status.ok())
      return wrong(status);
    // The line end before a boundary belongs to it, also that of an empty header.
    body.remove_prefix(head + 2 * kLineEnd.size());
    const size_t end = body.starts_with(first) ? std::string_view::npos : body.find(next);
    if (end == std::string_view::npos) return wrong(invalid_argument("the boundary behind it is missing"));
    part.content = body.substr(0, end);
    body.remove_prefix(end + next.size());
    if (std::any_of(parts.begin(), parts.end(), [&](const FormPart& other) { return other.name == part.name; }))
      return wrong(invalid_argument(fmt::format("`{}` is there twice", part.name)));
    parts.push_back(std::move(part));
  }
  body.remove_prefix(2);
  skip_blanks(body);
  if (!body.empty() && body != kLineEnd) return invalid_argument("there are bytes behind the end of the form");
  return parts;
}

}  // namespace

Result<std::vector<FormPart>> parse_multipart_form(std::string_view content_type, std::string_view body) {
  DI_ASSIGN_OR_RETURN(const std::string boundary, read_boundary(content_type));
  return read_parts(body, boundary);
}

}  // namespace deepinfer::serving
