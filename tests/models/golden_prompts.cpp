#include "models/golden_prompts.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace deepinfer {
namespace {

const std::string kFolder = std::string(DEEPINFER_TEST_DATA) + "/model/";

std::vector<GreedyGolden> read_lines(const std::string& file) {
  std::vector<GreedyGolden> rows;
  std::ifstream lines(kFolder + file);
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line);
    rows.push_back({row.at("name"), row.at("ids"), row.at("new"), row.value("gaps", std::vector<float>()), {}});
    for (const auto& round : row.value("rounds", nlohmann::json::array()))
      rows.back().rounds.push_back({round.at("anchor"), round.at("draft")});
  }
  return rows;
}

}  // namespace

ForwardGolden::ForwardGolden(const std::string& name)
    : file_(Safetensors::open(kFolder + "forward/" + name + ".safetensors").value()) {}

std::vector<GreedyGolden> greedy_goldens() {
  return read_lines("greedy.jsonl");
}
std::vector<GreedyGolden> dspark_goldens() {
  return read_lines("dspark.jsonl");
}

}  // namespace deepinfer
