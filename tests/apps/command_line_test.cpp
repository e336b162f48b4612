// The program's face: help, version, usage errors, exit codes.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "program.h"
#include "temporary_folder.h"

namespace deepinfer::cli {
namespace {

// One line on standard error that begins as every error does, and nothing on standard output.
void expect_error(const ProgramResult& result, int exit_code, const std::vector<std::string>& parts) {
  EXPECT_EQ(result.exit_code, exit_code) << result.errors;
  EXPECT_EQ(result.output, "");
  EXPECT_TRUE(result.errors.starts_with("deepinfer: error: ")) << result.errors;
  EXPECT_EQ(result.errors.find('\n'), result.errors.size() - 1) << result.errors;
  for (const std::string& part : parts)
    EXPECT_NE(result.errors.find(part), std::string::npos) << part << " is not in: " << result.errors;
}

TEST(CommandLine, HelpHasExamplesAndGoesToStandardOutput) {
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{{},
                                                                                       {"run"},
                                                                                       {"chat"},
                                                                                       {"inspect"},
                                                                                       {"tokenize"},
                                                                                       {"batch"},
                                                                                       {"serve"},
                                                                                       {"bench"},
                                                                                       {"bench", "kernels"},
                                                                                       {"bench", "model"},
                                                                                       {"bench", "tokenizer"}}) {
    std::vector<std::string> arguments = command;
    arguments.push_back("--help");
    const ProgramResult result = deepinfer(arguments);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.errors, "");
    EXPECT_NE(result.output.find("Examples:"), std::string::npos) << result.output;
    EXPECT_NE(result.output.find("deepinfer"), std::string::npos);
  }
}

TEST(CommandLine, VersionNamesCommitAndPaths) {
  const ProgramResult result = deepinfer({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* part : {"deepinfer 0.", "commit", "CPU paths", "avx2"})
    EXPECT_NE(result.output.find(part), std::string::npos) << result.output;
}

// With or without the CUDA backend in the build, with or without a GPU: the field is named, and what to do.
TEST(CommandLine, BackendsAreNamed) {
  for (const char* command : {"run", "batch", "serve", "replay"}) {
    const ProgramResult help = deepinfer({command, "--help"});
    for (const char* option : {"--gpu-memory-utilization", "--expert-placement", "--engram-placement"})
      EXPECT_NE(help.output.find(option), std::string::npos) << command;
  }
  expect_error(deepinfer({"run", "hi", "--backend", "gpu"}), 2, {"--backend", "`gpu`", "cpu, cuda, reference"});
  expect_error(deepinfer({"run", "hi", "--gpu-memory-utilization", "0.5"}), 3,
               {"--gpu-memory-utilization", "--backend is cpu", "allowed: with --backend cuda"});
  expect_error(deepinfer({"run", "hi", "--backend", "cuda", "--gpu-memory-utilization", "1.5"}), 2,
               {"--gpu-memory-utilization", "1.5", "(0, 1]"});
  expect_error(deepinfer({"run", "hi", "--expert-placement", "host"}), 3,
               {"--expert-placement", "--backend is cpu", "allowed: with --backend cuda"});
  expect_error(deepinfer({"run", "hi", "--engram-placement", "device"}), 3,
               {"--engram-placement is device", "--backend is cpu", "allowed: host, disk"});
  expect_error(deepinfer({"run", "hi", "--expert-placement", "disk"}), 2,
               {"--expert-placement", "`disk`", "device, host"});
  expect_error(deepinfer({"run", "hi", "--engram-placement", "gpu"}), 2,
               {"--engram-placement", "`gpu`", "device, host, disk"});
  const ProgramResult cuda = deepinfer({"run", "hi", "--backend", "cuda", "--max-tokens", "1"});
  if (cuda.exit_code != 0) expect_error(cuda, 4, {"--backend", "cuda"});
}

TEST(CommandLine, UsageErrorsAreOneLineAndExitWithTwo) {
  expect_error(deepinfer({}), 2, {"no command given", "run, chat, inspect, tokenize, batch, serve"});
  expect_error(deepinfer({"server"}), 2, {"server"});
  expect_error(deepinfer({"serve", "--port", "70000"}), 2, {"--port"});
  expect_error(deepinfer({"run", "--no-such-option", "x"}), 2, {"--no-such-option", "deepinfer run --help"});
  expect_error(deepinfer({"run", "two", "words"}), 2, {"words"});
  expect_error(deepinfer({"run", "hi", "-f", "file"}), 2, {"--file"});
  expect_error(deepinfer({"run", "hi", "--raw", "--thinking"}), 2, {"--thinking"});
  expect_error(deepinfer({"run", "hi", "--logprobs", "3"}), 2, {"--json"});
}

TEST(CommandLine, OutOfRangeOptionsNameTheOptionAndTheRange) {
  const std::vector<std::vector<std::string>> cases = {{"--temperature", "-1", "at least 0"},
                                                       {"--temperature", "nan", "at least 0"},
                                                       {"--temperature", "1e999", "at least 0"},
                                                       {"--top-p", "0", "(0, 1]"},
                                                       {"--top-p", "1.5", "(0, 1]"},
                                                       {"--min-p", "2", "[0, 1]"},
                                                       {"--top-k", "-1", "at least 0"},
                                                       {"--top-k", "1.5", "at least 0"},
                                                       {"--seed", "-1", "at least 0"},
                                                       {"--max-tokens", "0", "at least 1"},
                                                       {"--threads", "0", "[1, 1024]"},
                                                       {"--presence-penalty", "3", "[-2, 2]"},
                                                       {"--frequency-penalty", "-3", "[-2, 2]"},
                                                       {"--repetition-penalty", "0", "[0.001, 1000]"},
                                                       {"--repetition-penalty", "1e-38", "[0.001, 1000]"},
                                                       {"--prefill-chunk", "0", "[1, 65536]"},
                                                       {"--draft-tokens", "-1", "[0, 64]"},
                                                       {"--logprobs", "21", "[0, 20]"},
                                                       {"--reasoning-effort", "0", "[1, 100]"},
                                                       {"--reasoning-effort", "much", "xhigh"},
                                                       {"--prefill", "half", "bounded-replay"},
                                                       {"--backend", "gpu", "cpu, cuda, reference"}};
  for (const auto& option : cases)
    expect_error(deepinfer({"run", "hi", "--json", option[0], option[1]}), 2, {option[0], option[2]});
}

// A prompt may be any text, also one that is the name of a command.
TEST(CommandLine, APromptMayBeNamedLikeACommand) {
  for (const char* prompt : {"chat", "run", "--help me"}) {
    const ProgramResult result = deepinfer({"run", "--max-tokens", "1", "--", prompt});
    EXPECT_EQ(result.exit_code, 0) << prompt << ": " << result.errors;
  }
  EXPECT_EQ(deepinfer({"run", "chat", "--max-tokens", "1"}).exit_code, 0);
}

TEST(CommandLine, InputErrorsExitWithThree) {
  const TemporaryFolder folder;
  expect_error(deepinfer({"run", "hi", "-m", (folder / "none").string()}), 3, {(folder / "none").string()});
  expect_error(run_program({.arguments = {"run", "hi", "-m", "someone/some-model"},
                            .environment = {{"HF_HOME", folder.path().string()}}}),
               3, {"hf download someone/some-model", folder.path().string()});
  expect_error(
      run_program({.arguments = {"run", "hi"}, .environment = {{"DEEPINFER_MODEL", (folder / "gone").string()}}}), 3,
      {"DEEPINFER_MODEL"});
  expect_error(deepinfer({"run", "-f", (folder / "none.txt").string()}), 3, {"none.txt", "No such file"});
  expect_error(deepinfer({"run", "-f", folder.path().string()}), 3, {"Is a directory"});
  expect_error(deepinfer({"run", "caf\xE9"}), 3, {"the prompt is not valid UTF-8", "0xE9", "offset 3"});
  expect_error(deepinfer({"run"}, "ok \xF0\x9F\x98"), 3, {"standard input is not valid UTF-8", "offset 3"});
  expect_error(deepinfer({"run", "hi", "--system", "\xFF"}), 3, {"--system is not valid UTF-8"});
  const auto file = folder.write("bad.txt", "abc\xC0\x80");
  expect_error(deepinfer({"tokenize", "-f", file.string()}), 3, {file.string(), "0xC0", "offset 3"});
}

// Nothing is nothing, wherever it comes from; a text of spaces is one.
TEST(CommandLine, EmptyPromptsAreRefused) {
  const TemporaryFolder folder;
  const std::string file = folder.write("empty.txt", "\r\n").string();
  expect_error(deepinfer({"run", ""}), 2, {"the prompt is empty", "the argument"});
  expect_error(deepinfer({"run"}, ""), 2, {"the prompt is empty", "standard input"});
  expect_error(deepinfer({"run"}, "\n"), 2, {"the prompt is empty", "standard input"});
  expect_error(deepinfer({"run", "-f", file}), 2, {"the prompt is empty", file});
  expect_error(deepinfer({"run", "--raw", ""}), 2, {"the prompt is empty", "the argument"});
  EXPECT_EQ(deepinfer({"run", " ", "--max-tokens", "1"}).exit_code, 0);
  EXPECT_EQ(deepinfer({"tokenize", "", "--count"}).output, "0\n");
}

TEST(CommandLine, OddFilesAreRefusedUnread) {
  const TemporaryFolder folder;
  const std::string huge = folder.write("huge.txt", "").string();
  std::filesystem::resize_file(huge, uint64_t{1} << 40);  // sparse
  for (const char* command : {"run", "tokenize"})
    expect_error(deepinfer({command, "-f", huge}), 3, {huge, "more than 268435456 bytes"});
  expect_error(deepinfer({"run", "-f", ""}), 3, {"a file name is empty"});
}

// A folder for standard input is no empty conversation, and a closed one is not the next file that is opened.
TEST(CommandLine, StandardInputThatCannotBeReadIsAnError) {
  for (const char* command : {"run", "chat", "tokenize"}) {
    for (const auto& [redirect, reason] :
         {std::pair{"</", "Is a directory"}, std::pair{"<&-", "Bad file descriptor"}}) {
      const ProgramResult result =
          run_program({.arguments = {"-c", std::string("exec \"$0\" \"$1\" ") + redirect, DEEPINFER_PROGRAM, command},
                       .program = "/bin/sh"});
      expect_error(result, std::string(reason) == "Is a directory" ? 3 : 4, {"standard input", reason});
    }
  }
}

}  // namespace
}  // namespace deepinfer::cli
