#include "engine/speculation/cost_measurement.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

namespace deepinfer {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

// Sequences of a few tokens each, in the first blocks and slots of the engine's memory.
class Probe {
 public:
  Probe(Model& model, CacheMemory& memory) : model_(model), memory_(memory), blocks_(memory.histories()) {
    // Different tokens take different experts, as in an answer.
    const ModelInfo& info = model.info();
    for (int i = 0; i <= std::max(1, info.draft_tokens); ++i) tokens_.push_back((11 + 97 * i) % info.vocabulary);
  }

  // Rows spread over as few sequences as hold them.
  Time verify(int64_t rows) {
    const int64_t each = 1 + model_.info().draft_tokens;
    step_.clear();
    for (int64_t first = 0; first < rows; first += each) {
      StepSequence s = sequence(static_cast<int>(first / each), std::min(each, rows - first));
      step_.push_back(s);
    }
    return timed([&] { model_.forward(step_); });
  }

  Time draft(int sequences) {
    std::vector<DraftSequence> requests;
    for (int i = 0; i < sequences; ++i) {
      const StepSequence s = sequence(i, 1);
      step_.assign(1, s);
      model_.forward(step_);
      DraftSequence request;
      request.cache = s.cache;
      request.token = tokens_[1];
      request.position = 1;
      request.drafts = model_.info().draft_tokens;
      requests.push_back(request);
    }
    return timed([&] { model_.draft(requests); });
  }

 private:
  StepSequence sequence(int slot, int64_t rows) {
    while (static_cast<int64_t>(views_.size()) <= slot) add_sequence();
    StepSequence s;
    const View& view = *views_[static_cast<size_t>(slot)];
    s.cache = {view.histories, memory_.rings(slot)};
    s.tokens = std::span<const int32_t>(tokens_).first(static_cast<size_t>(rows));
    s.rows = rows;
    s.draft_context = true;
    return s;
  }

  void add_sequence() {
    auto view = std::make_unique<View>();
    view->parts.resize(static_cast<size_t>(blocks_));
    view->histories.resize(static_cast<size_t>(blocks_));
    for (int64_t h = 0; h < blocks_; ++h) {
      const auto i = static_cast<size_t>(h);
      view->parts[i] = memory_.history_part(static_cast<BlockId>(views_.size()), h);
      view->histories[i] = memory_.history(h, std::span(&view->parts[i], 1));
    }
    views_.push_back(std::move(view));
  }

  // The middle of three runs after one that warms up.
  template <typename Step>
  Time timed(Step step) {
    step();
    memory_.finish();
    std::array<Time, 3> times;
    for (Time& time : times) {
      const auto start = Clock::now();
      step();
      memory_.finish();
      time = Clock::now() - start;
    }
    std::sort(times.begin(), times.end());
    return times[1];
  }

  struct View {
    std::vector<std::byte*> parts;
    std::vector<BlockList> histories;
  };
  Model& model_;
  CacheMemory& memory_;
  int64_t blocks_;  // full histories
  std::vector<std::unique_ptr<View>> views_;
  std::vector<StepSequence> step_;
  std::vector<int32_t> tokens_;
};

// 1, 2, 3, 4, 6, 8, 12, 16, 24, ... most.
std::vector<int64_t> sizes(int64_t most) {
  std::vector<int64_t> list;
  for (int64_t power = 1; power <= most; power *= 2) {
    list.push_back(power);
    if (power >= 2 && power + power / 2 <= most) list.push_back(power + power / 2);
  }
  if (list.back() != most) list.push_back(most);
  return list;
}

Json to_json(const std::vector<StepCost::Point>& points) {
  Json list = Json::array();
  for (const StepCost::Point& point : points) list.push_back({point.size, point.time.count()});
  return list;
}

std::vector<StepCost::Point> from_json(const Json& list) {
  std::vector<StepCost::Point> points;
  for (const Json& point : list) {
    const StepCost::Point p{point.at(0).get<int64_t>(), Time(point.at(1).get<int64_t>())};
    if (p.size < 1 || p.time.count() < 1) throw Json::other_error::create(501, "a point of the table", nullptr);
    points.push_back(p);
  }
  return points;
}

}  // namespace

StepCost measure_step_cost(Model& model, CacheMemory& memory, const CostMeasurement& what) {
  Probe probe(model, memory);
  std::vector<StepCost::Point> verify, draft;
  const auto start = Clock::now();
  const auto enough = [&] { return Clock::now() - start >= what.budget; };
  for (const int64_t rows : sizes(what.most_rows)) {
    if (enough() && verify.size() >= 2) break;
    verify.push_back({rows, probe.verify(rows)});
  }
  if (model.info().draft_tokens == 0) return {std::move(verify), {}};
  for (const int64_t sequences : sizes(what.most_sequences)) {
    if (enough() && !draft.empty()) break;
    draft.push_back({sequences, probe.draft(static_cast<int>(sequences))});
  }
  return {std::move(verify), std::move(draft)};
}

std::optional<StepCost> load_step_cost(const std::filesystem::path& file, const std::string& key) {
  std::ifstream in(file);
  if (!in) return std::nullopt;
  try {
    const Json table = Json::parse(in);
    if (table.at("key").get<std::string>() != key) return std::nullopt;
    StepCost cost(from_json(table.at("verify_ns")), from_json(table.at("draft_ns")));
    if (!cost.known()) return std::nullopt;
    return cost;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

Status save_step_cost(const std::filesystem::path& file, const std::string& key, const StepCost& cost) {
  const Json table = {
      {"key", key}, {"verify_ns", to_json(cost.verify_points())}, {"draft_ns", to_json(cost.draft_points())}};
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  // Whole or not at all: two engines may start at once.
  const std::filesystem::path fresh = file.string() + "." + std::to_string(getpid());
  {
    std::ofstream out(fresh);
    out << table.dump();
    if (!out.flush()) return io_error(fmt::format("{}: cannot be written", fresh.string()));
  }
  std::filesystem::rename(fresh, file, error);
  if (error) return io_error(fmt::format("{}: cannot be written: {}", file.string(), error.message()));
  return {};
}

}  // namespace deepinfer
