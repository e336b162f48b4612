#include "ops/sampling_cases.h"

#include <bit>
#include <cmath>
#include <fstream>

#include "base/check.h"
#include "base/philox.h"
#include "tensor/safetensors.h"

namespace deepinfer {
namespace {

std::vector<float> recorded_logits(const std::string& file) {
  const Safetensors tensors = Safetensors::open(DEEPINFER_TEST_DATA "/model/" + file).value();
  const TensorView logits = tensors.find("logits").value();
  return {logits.as<float>(), logits.as<float>() + logits.shape.elements()};
}

}  // namespace

std::vector<nlohmann::json> sampling_lines(const std::string& kind) {
  std::ifstream file(DEEPINFER_TEST_DATA "/model/sampling.jsonl");
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) {
    auto json = nlohmann::json::parse(line);
    if (json["kind"] == kind) lines.push_back(std::move(json));
  }
  DI_CHECK(!lines.empty(), "sampling.jsonl has lines of every kind");
  return lines;
}

std::vector<float> made_up_logits(const std::string& kind, int64_t vocabulary, uint64_t number) {
  std::vector<float> logits;
  for (int64_t v = 0; v < vocabulary; ++v) {
    const uint32_t word = philox4x32({static_cast<uint32_t>(v / 4), 0, 0xFFFFFFFFu, 0},
                                     {static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32)})[v % 4];
    const float x = (static_cast<float>(word >> 8) - 0x1p23f) * 0x1p-20f;
    if (kind == "flat") logits.push_back(x);
    if (kind == "peaked") logits.push_back(x * x * x * 0x1p-4f);
    if (kind == "ties") logits.push_back(std::floor(x * 2) * 0.5f);
    if (kind == "equal") logits.push_back(x * 0);
  }
  DI_CHECK(static_cast<int64_t>(logits.size()) == vocabulary, "no logits of kind " + kind);
  return logits;
}

std::vector<SamplingCase> sampling_choices() {
  std::vector<SamplingCase> cases;
  for (const auto& line : sampling_lines("choice")) {
    SamplingCase made;
    const std::string kind = line["logits"];
    const int64_t vocabulary = line["vocab"];
    made.logits = kind.ends_with(".safetensors") ? recorded_logits(kind)
                                                 : made_up_logits(kind, vocabulary, line["number"].get<uint64_t>());
    if (!line["mask"].is_null()) {
      made.allowed.assign(static_cast<size_t>((vocabulary + 31) / 32), 0);
      for (int64_t v = line["mask"][1]; v < vocabulary; v += line["mask"][0].get<int64_t>()) {
        made.allowed[v / 32] |= 1u << (v % 32);
      }
    }
    made.row.temperature = line["temperature"];
    made.row.top_k = line["top_k"];
    made.row.top_p = line["top_p"];
    made.row.min_p = line["min_p"];
    made.row.seed = std::stoull(line["seed"].get<std::string>());
    made.row.position = line["position"];
    made.token = line["token"];
    made.kept = line["kept"];
    made.key_bits = line["key"];
    cases.push_back(std::move(made));
  }
  return cases;
}

}  // namespace deepinfer
