// The program: reads the command line, runs one sub-command, and turns what happened into an exit code.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "help_format.h"
#include "interrupt.h"
#include "serve/config_arguments.h"
#include "standard_output.h"
#include "version.h"

namespace deepinfer::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  deepinfer run "Hello! Who are you?"        one answer on standard output
  echo "What is 3 + 4?" | deepinfer run --thinking
  deepinfer chat                             a conversation
  deepinfer batch requests.jsonl -o results.jsonl
  deepinfer serve                            an HTTP endpoint for OpenAI's and Anthropic's clients
  deepinfer inspect MODEL --verify           what a model is made of, and whether its files are whole
  deepinfer COMMAND --help                   options and examples of one command

Without -m the demonstration model DeepSeek-V4.1-Tiny answers; see -m of `deepinfer run --help`.
Exit codes: 0 done, 2 wrong options, 3 wrong model, file or prompt, 4 this build or machine cannot, 5 a replayed answer differs, 6
the server ended requests, 7 its engine failed, 74 a model file shrank while in use, 130 interrupted, 1 a bug.)";

// "deepinfer run", the command that was being read when parsing failed.
std::string parsed_command(const CLI::App& program) {
  std::string name = "deepinfer";
  const CLI::App* app = &program;
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    name += " " + app->get_name();
  }
  return name;
}

ExitCode usage_error(const CLI::App& program, std::string message) {
  while (!message.empty() && (message.back() == '\n' || message.back() == '.')) message.pop_back();
  return report_usage_error(fmt::format("{} (see {} --help)", message, parsed_command(program)));
}

ExitCode run_program(int argc, char** argv) {
  CLI::App program("DeepInfer: DeepSeek-V4.1 on this machine's CPU.");
  program.name("deepinfer");
  program.footer(kExamples);
  program.require_subcommand(0, 1);
  program.formatter(std::make_shared<HelpFormat>());
  Action action;
  bool version = false;
  program.set_help_flag("-h,--help", "show this help");
  program.add_flag("--version", version, "show version, commit and CPU paths");
  add_run_command(program, action);
  add_chat_command(program, action);
  add_inspect_command(program, action);
  add_tokenize_command(program, action);
  add_batch_command(program, action);
  add_serve_command(program, action);
  add_replay_command(program, action);
  add_bench_command(program, action);

  StandardOutput out;
  auto arguments = with_config_file({argv + std::min(argc, 1), argv + argc}, *program.get_subcommand("serve"));
  if (!arguments.ok()) return report_error(arguments.status());
  try {
    std::reverse(arguments->begin(), arguments->end());  // as CLI11 takes them
    program.parse(std::move(*arguments));
  } catch (const CLI::CallForHelp&) {
    const CLI::App* app = &program;
    while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
    out.write(app->help());
    return out.status().ok() ? ExitCode::kOk : report_error(out.status());
  } catch (const CLI::ParseError& error) {
    return usage_error(program, error.what());
  }
  if (version) {
    out.write(version_text() + "\n");
    return out.status().ok() ? ExitCode::kOk : report_error(out.status());
  }
  if (!action) return usage_error(program, "no command given: run, chat, inspect, tokenize, batch, serve or bench");
  return action();
}

}  // namespace
}  // namespace deepinfer::cli

int main(int argc, char** argv) {
  using namespace deepinfer::cli;
  keep_standard_descriptors();
  ignore_broken_pipes();
  handle_interrupts();
  try {
    return static_cast<int>(run_program(argc, argv));
  } catch (const std::bad_alloc&) {
    return static_cast<int>(
        report_error(deepinfer::Status(deepinfer::StatusCode::kResourceExhausted, "out of memory")));
  } catch (const std::exception& error) {
    return static_cast<int>(report_error(
        deepinfer::Status(deepinfer::StatusCode::kInternal, std::string("internal error: ") + error.what())));
  }
}
