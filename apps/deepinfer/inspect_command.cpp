// `deepinfer inspect`: what a model is made of, and whether its files are what they should be.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "command.h"
#include "json_output.h"
#include "model_location.h"
#include "model_report.h"
#include "model_summary.h"
#include "models/deepseek_v41/tensors.h"
#include "standard_output.h"
#include "tensor/sha256.h"
#include "terminal.h"
#include "text/tokenizer.h"

namespace deepinfer::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  deepinfer inspect                                  the demonstration model
  deepinfer inspect deepseek-ai/DeepSeek-V4.1-Flash
  deepinfer inspect models/DeepSeek-V4.1-Tiny --verify
  deepinfer inspect MODEL --tensors | grep engram
  deepinfer inspect MODEL --json

--verify checks every tensor's name, dtype and shape against config.json and, where the folder has a SHA256SUMS file, the
contents of the files it lists. A folder with a config.json and no weights shows what the config asks for.)";

struct Options {
  std::optional<std::string> model;
  bool tensors = false;
  bool json = false;
  bool verify = false;
};

// What --verify found; an error names the first things that are wrong.
struct Verified {
  int64_t tensors = 0;
  std::optional<size_t> files;  // whose contents match SHA256SUMS; none: there is no such file
};

Result<std::optional<size_t>> verify_contents(const std::string& folder) {
  std::optional<ProgressLine> progress;
  uint64_t before = 0;
  const auto report = verify_checksums(folder, [&](const ChecksumProgress& state) {
    if (!progress) progress.emplace("checking", static_cast<int64_t>(state.bytes_total));
    progress->advance(static_cast<int64_t>(state.bytes_done - before));
    before = state.bytes_done;
    return true;
  });
  if (!report.ok()) {
    if (report.status().code() == StatusCode::kNotFound) return std::optional<size_t>();
    return report.status();
  }
  if (!report->mismatches.empty()) {
    const ChecksumMismatch& first = report->mismatches.front();
    return corrupt_file(fmt::format("{}/SHA256SUMS: {} of {} files differ, first {}: {}", folder,
                                    report->mismatches.size(), report->mismatches.size() + report->verified.size(),
                                    first.file, first.problem));
  }
  return std::optional<size_t>(report->verified.size());
}

Result<Verified> verify(const InspectedModel& model, const Checkpoint& checkpoint) {
  const deepseek_v41::TensorAudit audit = deepseek_v41::audit_tensors(model.config, model.table, checkpoint);
  DI_RETURN_IF_ERROR(audit.status(/*allow_extra=*/false).with_context(model.folder.string()));
  DI_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::load(model.folder / "tokenizer.json"));
  if (tokenizer->vocabulary() > model.config.vocab_size)
    return corrupt_file(fmt::format("{}: token ids up to {}, but vocab_size of config.json is {}",
                                    (model.folder / "tokenizer.json").string(), tokenizer->vocabulary() - 1,
                                    model.config.vocab_size));
  Verified verified{audit.tensors, std::nullopt};
  DI_ASSIGN_OR_RETURN(verified.files, verify_contents(model.folder.string()));
  return verified;
}

std::string verified_text(const Verified& verified) {
  return fmt::format("\nVerified\n  {} tensors have the names, dtypes and shapes that config.json asks for\n  {}\n",
                     verified.tensors,
                     verified.files ? fmt::format("{} files have the contents that SHA256SUMS lists", *verified.files)
                                    : "contents not checked: there is no SHA256SUMS");
}

Result<std::string> inspect(const Options& options) {
  InspectedModel model;
  DI_ASSIGN_OR_RETURN(model.folder, locate_model(options.model));
  DI_ASSIGN_OR_RETURN(model.config, deepseek_v41::load_config(model.folder));
  Result<deepseek_v41::LayerTable> table = deepseek_v41::make_layer_table(model.config);
  if (!table.ok()) return table.status().with_context((model.folder / "config.json").string());
  model.table = std::move(*table);
  const Result<Checkpoint> checkpoint = Checkpoint::open(model.folder.string());
  const bool no_weights = !std::filesystem::exists(model.folder / "model.safetensors.index.json") &&
                          !std::filesystem::exists(model.folder / "model.safetensors");
  if (!checkpoint.ok() && (!no_weights || options.verify)) return checkpoint.status();
  model.tensors = checkpoint.ok() ? tensors_of(*checkpoint) : tensors_of(model.config, model.table);
  model.files = checkpoint.ok() ? checkpoint->shards().size() : 0;
  model.summary = summarize(model.config, model.table, model.tensors);

  std::optional<Verified> verified;
  if (options.verify) {
    DI_ASSIGN_OR_RETURN(verified, verify(model, *checkpoint));
  }
  if (options.json) {
    Json object = report_json(model, options.tensors);
    if (verified)
      object["verified"] = {{"tensors", verified->tensors},
                            {"files", verified->files ? Json(*verified->files) : Json()}};
    return json_line(object);
  }
  if (options.tensors) return tensors_text(model);
  return report_text(model) + (verified ? verified_text(*verified) : "");
}

ExitCode print_inspection(const Options& options) {
  const Result<std::string> text = inspect(options);
  if (!text.ok()) return report_error(text.status());
  StandardOutput out;
  out.write(*text);
  return out.status().ok() ? ExitCode::kOk : report_error(out.status());
}

}  // namespace

void add_inspect_command(CLI::App& program, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App& command = *program.add_subcommand("inspect", "Show what a model is made of, and verify its files");
  command.footer(kExamples);
  auto* model =
      command.add_option("model", options->model, "model folder or repository id (default: the demonstration model)")
          ->type_name("MODEL");
  command.add_option("-m,--model", options->model, "the same")->type_name("MODEL")->excludes(model);
  command.add_flag("--tensors", options->tensors, "list all tensors: name, dtype, shape, bytes, file");
  command.add_flag("--json", options->json, "print one JSON object");
  command.add_flag("--verify", options->verify, "check names, dtypes, shapes and, with SHA256SUMS, contents");
  command.callback([options, &action] { action = [options] { return print_inspection(*options); }; });
}

}  // namespace deepinfer::cli
