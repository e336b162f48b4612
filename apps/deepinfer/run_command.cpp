// `deepinfer run`: one prompt, one answer.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "answer.h"
#include "answer_form.h"
#include "answer_json.h"
#include "answer_printer.h"
#include "command.h"
#include "engine/output_grammar.h"
#include "generation_options.h"
#include "interrupt.h"
#include "json_output.h"
#include "loaded_model.h"
#include "number_option.h"
#include "prompt.h"
#include "standard_output.h"
#include "terminal.h"
#include "text_input.h"

namespace deepinfer::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  deepinfer run "Hello! Who are you?"
  deepinfer run "What is 27 + 45?" --thinking --verbose
  deepinfer run -f question.txt --json
  deepinfer run "How warm is it in Paris?" --tools tools.json --tool-choice required --json
  echo "Repeat after me: blue 42" | deepinfer run --temperature 0
  deepinfer run --kv-cache ~/.cache/deepinfer/kv -f long_document.txt
  deepinfer run --raw "Once upon a time" --max-tokens 40 --seed 7
  deepinfer run -m deepseek-ai/DeepSeek-V4.1-Flash --system "Be brief." "Why is the sky blue?"

The prompt is the argument, or FILE, or standard input (one final line break is removed); it must not be empty. Standard
output gets the answer and nothing else; reasoning goes to standard error. Ctrl-C ends the answer: what there is stays, exit code 130.
--raw sends the text as it is, control tokens included, behind exactly one begin-of-sentence token.)";

struct Options {
  GenerationOptions generation;
  std::optional<std::string> prompt;
  std::optional<std::string> file;
  AnswerFormOptions form;
  std::optional<int32_t> logprobs;
  bool raw = false;
  bool json = false;
};

Result<Prompt> make_prompt(const Tokenizer& tokenizer, const Options& options, std::string text,
                           Conversation& conversation) {
  if (options.raw) return raw_prompt(tokenizer, text);
  conversation.thinking = options.generation.thinks();
  conversation.effort = options.generation.effort.value_or(Effort{});
  conversation.messages.clear();
  if (!options.generation.system.empty()) conversation.messages.push_back({Role::kSystem, options.generation.system});
  conversation.messages.push_back({Role::kUser, std::move(text)});
  return chat_prompt(tokenizer, conversation);
}

ExitCode run(const Options& options) {
  // Everything that can be wrong without the model is looked at before the model is opened.
  if (!text_is_given(options.prompt, options.file))
    return report_usage_error("no prompt: give it as an argument, with -f FILE, or on standard input");
  Result<std::string> text = read_text(options.prompt, options.file, "prompt");
  if (!text.ok()) return report_error(text.status());
  if (text->empty())
    return report_usage_error(
        fmt::format("the prompt is empty: {} holds no text", source_of(options.prompt, options.file)));
  if (Status status = check_utf8(options.generation.system, "--system"); !status.ok()) return report_error(status);
  for (const std::string& stop : options.generation.stop)
    if (Status status = check_utf8(stop, "--stop"); !status.ok()) return report_error(status);

  Result<InferenceRequest> form = read_answer_form(options.form, options.generation.thinks());
  if (!form.ok()) return report_error(form.status());

  Result<LoadedModel> model = load_model(options.generation);
  if (!model.ok()) return report_error(model.status());
  const Result<Prompt> prompt = make_prompt(*model->tokenizer, options, std::move(*text), form->conversation);
  if (!prompt.ok()) return report_error(prompt.status());
  Result<std::optional<GrammarSpec>> grammar = output_grammar(*form, prompt->start, *model->tokenizer);
  if (!grammar.ok()) return report_error(grammar.status());

  AnswerRequest request;
  request.prompt = prompt->ids;
  request.params = generation_params(options.generation, model->defaults);
  if (options.generation.ignore_end) request.hidden_tokens = model->defaults.end_tokens;
  request.params.logprobs = options.logprobs.value_or(-1);
  request.parser = form->parser_options(prompt->start);
  request.parser.stop = options.generation.stop;
  request.grammar = std::move(grammar).value();

  StandardOutput out;
  AnswerPrinter printer(out, options.generation.show_reasoning);
  const auto show = [&](const AnswerPiece& piece) { return options.json || printer.print(piece); };
  bool interrupted = false;
  Result<Answer> answer = [&] {
    const InterruptScope scope([](void* generator) { static_cast<Generator*>(generator)->cancel(); },
                               model->generator.get());
    Result<Answer> made = generate_answer(*model->generator, *model->tokenizer, request, show);
    interrupted = scope.interrupted();
    return made;
  }();
  if (!answer.ok()) return report_error(answer.status());
  if (options.json) {
    out.write(json_line(answer_json(*answer, *model, request.params)));
  } else {
    printer.finish(*answer);
  }
  if (options.generation.verbose)
    write_standard_error(statistics_line(*answer, request.params.seed, model->load_seconds) + "\n");
  if (!out.status().ok()) return report_error(out.status());
  return interrupted ? ExitCode::kInterrupted : ExitCode::kOk;
}

}  // namespace

void add_run_command(CLI::App& program, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App& command = *program.add_subcommand("run", "Answer one prompt");
  command.footer(kExamples);
  auto* prompt = command.add_option("prompt", options->prompt, "the prompt (quote it)")->type_name("PROMPT");
  auto* file = command.add_option("-f,--file", options->file, "read the prompt from FILE (-: standard input)")
                   ->type_name("FILE");
  prompt->excludes(file);
  auto* json =
      command.add_flag("--json", options->json,
                       "print one JSON object: content, reasoning, tool_calls, finish_reason, usage, seed, timings");
  auto* raw = command.add_flag("--raw", options->raw, "the prompt is no chat turn: send it as it is");
  add_number<int32_t>(
      command, "--logprobs", options->logprobs, {.lowest = 0, .highest = 20},
      "with --json: log-probability of each token and of the N most likely ones, after temperature and filters")
      ->needs(json);
  add_answer_form_options(command, options->form, *raw);
  add_generation_options(command, options->generation);
  for (const char* chat_only : {"--system", "--thinking", "--reasoning-effort"}) raw->excludes(chat_only);
  // An answer in a form is at its end where its form is.
  for (const char* form : {"--tools", "--json-schema", "--regex"}) command.get_option("--ignore-end")->excludes(form);
  command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace deepinfer::cli
