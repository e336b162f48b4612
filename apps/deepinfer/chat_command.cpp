// `deepinfer chat`: a conversation, one line a turn.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "answer.h"
#include "answer_printer.h"
#include "chat_session.h"
#include "command.h"
#include "generation_options.h"
#include "interrupt.h"
#include "line_reader.h"
#include "loaded_model.h"
#include "prompt.h"
#include "standard_output.h"
#include "terminal.h"
#include "text_input.h"

namespace deepinfer::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  deepinfer chat
  deepinfer chat --thinking --system "You are a patient teacher."
  printf 'Hello!\nWhat is 3 + 4?\n/save talk.json\n' | deepinfer chat --temperature 0

Commands: /reset, /system TEXT, /save FILE, /help, /exit. Ctrl-C stops an answer, Ctrl-D leaves. From a pipe every line is
a turn, no prompt is shown, and the first error ends the chat with its exit code.)";

class Chat {
 public:
  Chat(const GenerationOptions& options, LoadedModel model)
      : options_(options),
        model_(std::move(model)),
        session_(options.system, options.thinks(), options.effort.value_or(Effort{})),
        params_(generation_params(options, model_.defaults)),
        interactive_(standard_input_is_terminal()) {}

  ExitCode talk() {
    const auto reader = LineReader::of_standard_input("deepinfer");
    if (interactive_) write_standard_error(fmt::format("{} - /help lists commands, Ctrl-D leaves\n", model_.name));
    while (true) {
      const Result<std::optional<std::string>> line = read_message(*reader);
      if (!line.ok()) return report_error(line.status());
      if (!*line) return ExitCode::kOk;
      const Result<bool> go_on = obey(**line);
      if (!go_on.ok()) {
        const ExitCode code = report_error(go_on.status());
        if (!interactive_) return code;
      } else if (!*go_on) {
        return out_.status().ok() ? ExitCode::kOk : report_error(out_.status());
      }
    }
  }

 private:
  // The next non-empty line, lines that end with a backslash joined with the next.  None: the end of the input.
  Result<std::optional<std::string>> read_message(LineReader& reader) {
    std::string message;
    while (true) {
      const LineReader::Input input = reader.read(message.empty() ? "> " : ". ");
      if (input.event == LineReader::Event::kEnd) {
        return message.empty() ? std::nullopt : std::optional(message);
      }
      if (input.event == LineReader::Event::kError) return read_error("standard input", input.error);
      if (input.event == LineReader::Event::kInterrupt) {
        message.clear();
        continue;
      }
      message += input.line;
      if (message.ends_with('\\')) {
        message.back() = '\n';
        continue;
      }
      if (!message.empty()) return std::optional(message);
    }
  }

  // False: the chat is over.
  Result<bool> obey(const std::string& text) {
    DI_ASSIGN_OR_RETURN(const ChatLine line, parse_chat_line(text));
    switch (line.kind) {
      case ChatLine::Kind::kMessage:
        return answer(line.text);
      case ChatLine::Kind::kReset:
        session_.reset();
        return true;
      case ChatLine::Kind::kSystem:
        session_.set_system(line.text);
        return true;
      case ChatLine::Kind::kSave:
        DI_RETURN_IF_ERROR(session_.save(line.text));
        write_standard_error(fmt::format("saved {}\n", line.text));
        return true;
      case ChatLine::Kind::kHelp:
        write_standard_error(chat_help());
        return true;
      case ChatLine::Kind::kExit:
        return false;
    }
    return true;
  }

  Result<bool> answer(const std::string& text) {
    session_.add_user(text);
    Result<Answer> answer = generate();
    if (!answer.ok()) {
      session_.remove_last_user();
      return answer.status();
    }
    if (options_.verbose) write_standard_error(statistics_line(*answer, params_.seed, model_.load_seconds) + "\n");
    // A stopped answer stays in the conversation as far as it came: the person has read it.
    session_.add_assistant(std::move(answer->content), std::move(answer->reasoning));
    return !out_.reader_gone() && out_.status().ok();
  }

  Result<Answer> generate() {
    DI_ASSIGN_OR_RETURN(const Prompt prompt, chat_prompt(*model_.tokenizer, session_.conversation()));
    AnswerRequest request{prompt.ids, params_, {.start = prompt.start, .stop = options_.stop}};
    if (options_.ignore_end) request.hidden_tokens = model_.defaults.end_tokens;
    AnswerPrinter printer(out_, options_.show_reasoning);
    const InterruptScope scope([](void* generator) { static_cast<Generator*>(generator)->cancel(); },
                               model_.generator.get());
    DI_ASSIGN_OR_RETURN(Answer answer, generate_answer(*model_.generator, *model_.tokenizer, request,
                                                       [&](const AnswerPiece& piece) { return printer.print(piece); }));
    printer.finish(answer);
    return answer;
  }

  const GenerationOptions& options_;
  LoadedModel model_;
  ChatSession session_;
  GenerationParams params_;
  bool interactive_;
  StandardOutput out_;
};

ExitCode chat(const GenerationOptions& options) {
  if (Status status = check_utf8(options.system, "--system"); !status.ok()) return report_error(status);
  Result<LoadedModel> model = load_model(options);
  if (!model.ok()) return report_error(model.status());
  return Chat(options, std::move(*model)).talk();
}

}  // namespace

void add_chat_command(CLI::App& program, Action& action) {
  auto options = std::make_shared<GenerationOptions>();
  CLI::App& command = *program.add_subcommand("chat", "Talk with the model");
  command.footer(kExamples);
  add_generation_options(command, *options);
  command.callback([options, &action] { action = [options] { return chat(*options); }; });
}

}  // namespace deepinfer::cli
