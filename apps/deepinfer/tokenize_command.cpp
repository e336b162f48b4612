// `deepinfer tokenize`: text to token ids and pieces, and back.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "json_output.h"
#include "model_location.h"
#include "number_option.h"
#include "standard_output.h"
#include "text/tokenizer.h"
#include "text/utf8.h"
#include "text_input.h"

namespace deepinfer::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  deepinfer tokenize "rfid501.go"
  deepinfer tokenize --plain "<think>"         as a user's text: no control tokens
  deepinfer tokenize -f book.txt --count
  deepinfer tokenize --decode "0 4 2295 23"    ids back to text ("-": from standard input)

Nothing is added to the text, no begin-of-sentence token either. One final line break of a file or of standard input is
removed. Without --plain the spellings of control tokens become these tokens, as in a prompt of `run --raw`.)";

struct Options {
  std::optional<std::string> text;
  std::optional<std::string> file;
  std::optional<std::string> model;
  std::optional<std::string> decode;
  std::optional<int32_t> threads;
  bool plain = false;
  bool json = false;
  bool count = false;
};

// A token's bytes for people: quotes and control characters escaped, bytes that are no whole character as \xNN.
std::string quoted(std::string_view bytes) {
  const bool whole = is_valid_utf8(bytes);
  std::string out = "\"";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (byte < 0x20 || byte == 0x7F || (byte >= 0x80 && !whole)) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

Result<std::vector<int32_t>> parse_ids(std::string_view text, int32_t vocabulary) {
  std::vector<int32_t> ids;
  const auto is_separator = [](char c) {
    return c == ' ' || c == ',' || c == '\n' || c == '\r' || c == '\t' || c == '[' || c == ']';
  };
  size_t at = 0;
  while (true) {
    while (at < text.size() && is_separator(text[at])) ++at;
    if (at == text.size()) return ids;
    size_t end = at;
    while (end < text.size() && !is_separator(text[end])) ++end;
    const std::string_view word = text.substr(at, end - at);
    Result<int32_t> id = parse_number<int32_t>(word, {.lowest = 0, .highest = vocabulary - 1});
    if (!id.ok()) return id.status().with_context(fmt::format("--decode: token id {}", ids.size() + 1));
    ids.push_back(*id);
    at = end;
  }
}

Result<std::string> decoded(const Tokenizer& tokenizer, const Options& options) {
  std::string text = *options.decode;
  if (text == "-") {
    DI_ASSIGN_OR_RETURN(text, read_bytes("-"));
  }
  DI_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, parse_ids(text, tokenizer.vocabulary()));
  const std::string result = tokenizer.decode(ids);
  if (options.json) return json_line(Json{{"count", ids.size()}, {"text", result}});
  return result + "\n";
}

Result<std::string> encoded(const Tokenizer& tokenizer, const Options& options) {
  DI_ASSIGN_OR_RETURN(const std::string text, read_text(options.text, options.file, "text"));
  std::vector<int32_t> ids;
  const int threads = options.threads.value_or(1);
  DI_RETURN_IF_ERROR(options.plain ? tokenizer.encode_plain(text, ids, threads) : tokenizer.encode(text, ids, threads));
  if (options.json) {
    Json object{{"count", ids.size()}};
    if (!options.count) {
      Json tokens = Json::array();
      for (const int32_t id : ids) {
        const std::string_view bytes = tokenizer.bytes(id);
        Json token{{"id", id}, {"text", std::string(bytes)}};
        if (!is_valid_utf8(bytes)) token["bytes"] = std::vector<uint8_t>(bytes.begin(), bytes.end());
        if (tokenizer.is_added(id)) token["control"] = true;
        tokens.push_back(std::move(token));
      }
      object["ids"] = ids;
      object["tokens"] = std::move(tokens);
    }
    return json_line(object);
  }
  if (options.count) return fmt::format("{}\n", ids.size());
  std::string lines;
  for (const int32_t id : ids)
    fmt::format_to(std::back_inserter(lines), "{:>7}  {}{}\n", id, quoted(tokenizer.bytes(id)),
                   tokenizer.is_added(id) ? "  control" : "");
  return lines;
}

ExitCode tokenize(const Options& options) {
  if (!options.decode && !text_is_given(options.text, options.file))
    return report_usage_error("no text: give it as an argument, with -f FILE, or on standard input");
  const Result<std::filesystem::path> model = locate_model(options.model);
  if (!model.ok()) return report_error(model.status());
  const auto tokenizer = Tokenizer::load(*model / "tokenizer.json");
  if (!tokenizer.ok()) return report_error(tokenizer.status());
  const Result<std::string> text = options.decode ? decoded(**tokenizer, options) : encoded(**tokenizer, options);
  if (!text.ok()) return report_error(text.status());
  StandardOutput out;
  out.write(*text);
  return out.status().ok() ? ExitCode::kOk : report_error(out.status());
}

}  // namespace

void add_tokenize_command(CLI::App& program, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App& command = *program.add_subcommand("tokenize", "Show the tokens of a text, or the text of tokens");
  command.footer(kExamples);
  auto* text = command.add_option("text", options->text, "the text")->type_name("TEXT");
  auto* file =
      command.add_option("-f,--file", options->file, "read the text from FILE (-: standard input)")->type_name("FILE");
  auto* decode = command.add_option("--decode", options->decode, "print the text of these token ids")->type_name("IDS");
  command.add_option("-m,--model", options->model, "model folder or repository id (default: the demonstration model)")
      ->type_name("MODEL");
  auto* plain = command.add_flag("--plain", options->plain, "no control tokens: their spellings are ordinary text");
  auto* count = command.add_flag("--count", options->count, "print the number of tokens only");
  command.add_flag("--json", options->json, "print one JSON object");
  add_number<int32_t>(command, "--threads", options->threads, {.lowest = 1, .highest = 1024},
                      "threads for long texts (default 1)");
  text->excludes(file)->excludes(decode);
  file->excludes(decode);
  decode->excludes(plain)->excludes(count);
  command.callback([options, &action] { action = [options] { return tokenize(*options); }; });
}

}  // namespace deepinfer::cli
