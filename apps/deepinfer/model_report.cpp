#include "model_report.h"

#include <fmt/format.h>

#include <iterator>

#include "terminal.h"

namespace deepinfer::cli {
namespace {

using deepseek_v41::Config;
using deepseek_v41::LayerKind;
using deepseek_v41::LayerSpec;
using deepseek_v41::LayerTable;

std::string parameters_text(uint64_t parameters) {
  const auto value = static_cast<double>(parameters);
  if (value >= 1e9) return fmt::format("{:.2f} B", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.2f} M", value / 1e6);
  return fmt::format("{:.1f} K", value / 1e3);
}

std::string source_text(int layer, int self) {
  if (layer < 0) return "-";
  return layer == self ? "own" : fmt::format("{}", layer);
}

// What is the same for neighbouring layers, so that they share a line.
struct LayerLine {
  std::string kind, kv, rows, notes;
  int ratio = 0;
  bool operator==(const LayerLine&) const = default;
};

LayerLine layer_line(const Config& config, const LayerTable& table, int layer) {
  const LayerSpec& spec = table[layer];
  LayerLine line{std::string(to_string(spec.kind)), source_text(spec.kv_source, layer),
                 source_text(spec.index_source, layer), "", spec.ratio};
  const auto note = [&line](std::string_view text) {
    line.notes += fmt::format("{}{}", line.notes.empty() ? "" : ", ", text);
  };
  if (layer >= config.num_hidden_layers) note("draft stage");
  if (layer == table.first_decoder_layer && layer < config.num_hidden_layers) note("first of the decoder half");
  if (spec.engram >= 0) note("Engram");
  if (spec.makes_candidates) note("makes the candidate pool");
  if (spec.uses_candidates && spec.owns_index()) note("chooses from the pool");
  if (spec.tap >= 0) note("draft tap");
  return line;
}

std::string layers_text(const Config& config, const LayerTable& table) {
  std::string text =
      fmt::format("  {:<8} {:<8} {:>5}  {:<8} {:<9} {}\n", "layers", "kind", "ratio", "KV of", "rows of", "notes");
  const int layers = config.total_layers();
  for (int first = 0; first < layers;) {
    const LayerLine line = layer_line(config, table, first);
    int last = first;
    while (last + 1 < layers && layer_line(config, table, last + 1) == line) ++last;
    text += fmt::format("  {:<8} {:<8} {:>5}  {:<8} {:<9} {}\n",
                        first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last), line.kind,
                        line.ratio == 0 ? "-" : fmt::format("{}", line.ratio), line.kv, line.rows, line.notes);
    first = last + 1;
  }
  return text;
}

std::string parts_text(const ModelSummary& summary) {
  std::string text =
      fmt::format("  {:<24} {:>8} {:>12} {:>12} {:>7}\n", "part", "tensors", "parameters", "bytes", "share");
  const auto line = [&](const ModelPart& part) {
    text += fmt::format(
        "  {:<24} {:>8} {:>12} {:>12} {:>5.1f} %\n", part.name, part.tensors, parameters_text(part.parameters),
        format_bytes(static_cast<int64_t>(part.bytes)),
        100.0 * static_cast<double>(part.bytes) / static_cast<double>(std::max<uint64_t>(summary.total.bytes, 1)));
  };
  for (const ModelPart& part : summary.parts) line(part);
  line(summary.total);
  return text;
}

std::string hardware_text(const ModelSummary& summary) {
  std::string text;
  for (const Hardware& hardware : summary.hardware) {
    const bool own = &hardware == &summary.hardware.front();
    const std::string verdict = !own                   ? fmt::format("{} needed", hardware.needed)
                                : hardware.needed <= 1 ? "holds it"
                                                       : "too small: weights are read from disk again and again";
    text += fmt::format("  {:<24} {:>12}  {}\n", hardware.name,
                        format_bytes(static_cast<int64_t>(hardware.memory_bytes)), verdict);
  }
  return text;
}

}  // namespace

std::string report_text(const InspectedModel& model) {
  const Config& c = model.config;
  const ModelSummary& s = model.summary;
  std::string name = std::filesystem::weakly_canonical(model.folder).filename().string();
  std::string text =
      fmt::format("{}: {}, {} parameters, {} tensors, {} in {} file{}\n", name, deepseek_v41::kModelType,
                  parameters_text(s.total.parameters), s.total.tensors,
                  format_bytes(static_cast<int64_t>(s.total.bytes)), model.files, model.files == 1 ? "" : "s");
  if (model.files == 0)
    text += "There are no weights in this folder: tensors and bytes are what config.json asks for.\n";
  text += fmt::format(
      "\nArchitecture\n"
      "  {} layers: {} encoder, {} decoder; {} draft stages of {} tokens; context {} tokens\n"
      "  hidden {}, vocabulary {}, {} heads of {}, window {}, top {} compressed rows\n"
      "  {} routed experts of width {}, {} a token, and a shared one; draft: {} experts, {} a token\n\n",
      c.num_hidden_layers, model.table.first_decoder_layer, c.num_hidden_layers - model.table.first_decoder_layer,
      c.num_nextn_predict_layers, c.dspark_block_size, c.max_position_embeddings, c.hidden_size, c.vocab_size,
      c.num_attention_heads, c.head_dim, c.sliding_window, c.index_topk, c.n_routed_experts, c.moe_intermediate_size,
      c.num_experts_per_tok, c.dspark_n_routed_experts, c.dspark_num_experts_per_tok);
  text += layers_text(c, model.table);
  text += "\nBytes by part\n" + parts_text(s);
  text += fmt::format(
      "\nMemory of a sequence\n  {} bytes a token, and {} bytes whatever its length ({} at {} tokens)\n",
      s.kv_bytes_per_token, s.bytes_per_sequence,
      format_bytes(s.bytes_per_sequence + s.kv_bytes_per_token * c.max_position_embeddings), c.max_position_embeddings);
  text += fmt::format("\nHardware for the {} that tokens read (Engram tables, {}, are gathered by row from disk)\n",
                      format_bytes(static_cast<int64_t>(s.resident_bytes)),
                      format_bytes(static_cast<int64_t>(s.engram_table_bytes)));
  return text + hardware_text(s);
}

std::string tensors_text(const InspectedModel& model) {
  std::string text;
  for (const TensorEntry& tensor : model.tensors)
    fmt::format_to(std::back_inserter(text), "{}\t{}\t{}\t{}\t{}\n", tensor.name, to_string(tensor.dtype),
                   to_string(tensor.shape), tensor.bytes, tensor.file);
  return text;
}

Json report_json(const InspectedModel& model, bool with_tensors) {
  const Config& c = model.config;
  const ModelSummary& s = model.summary;
  Json layers = Json::array();
  for (int layer = 0; layer < c.total_layers(); ++layer) {
    const LayerSpec& spec = model.table[layer];
    layers.push_back(Json{{"layer", layer},
                          {"kind", to_string(spec.kind)},
                          {"ratio", spec.ratio},
                          {"kv_source", spec.kv_source},
                          {"index_source", spec.index_source},
                          {"engram", spec.engram >= 0},
                          {"draft_stage", layer >= c.num_hidden_layers}});
  }
  Json parts = Json::array();
  for (const ModelPart& part : s.parts)
    parts.push_back(
        Json{{"part", part.name}, {"tensors", part.tensors}, {"parameters", part.parameters}, {"bytes", part.bytes}});
  Json hardware = Json::array();
  for (const Hardware& one : s.hardware)
    hardware.push_back(Json{{"name", one.name}, {"memory_bytes", one.memory_bytes}, {"needed", one.needed}});
  Json object{{"model", std::filesystem::weakly_canonical(model.folder).filename().string()},
              {"folder", model.folder.string()},
              {"model_type", deepseek_v41::kModelType},
              {"files", model.files},
              {"tensor_count", s.total.tensors},
              {"parameters", s.total.parameters},
              {"bytes", s.total.bytes},
              {"hidden_size", c.hidden_size},
              {"vocab_size", c.vocab_size},
              {"num_hidden_layers", c.num_hidden_layers},
              {"first_decoder_layer", model.table.first_decoder_layer},
              {"draft_stages", c.num_nextn_predict_layers},
              {"max_position_embeddings", c.max_position_embeddings},
              {"layers", std::move(layers)},
              {"parts", std::move(parts)},
              {"kv_bytes_per_token", s.kv_bytes_per_token},
              {"bytes_per_sequence", s.bytes_per_sequence},
              {"resident_bytes", s.resident_bytes},
              {"engram_table_bytes", s.engram_table_bytes},
              {"hardware", std::move(hardware)}};
  if (with_tensors) {
    Json tensors = Json::array();
    for (const TensorEntry& tensor : model.tensors)
      tensors.push_back(Json{{"name", tensor.name},
                             {"dtype", to_string(tensor.dtype)},
                             {"shape", tensor.shape.dims()},
                             {"bytes", tensor.bytes},
                             {"file", tensor.file}});
    object["tensors"] = std::move(tensors);
  }
  return object;
}

}  // namespace deepinfer::cli
