// The whole prompts of tests/data/model: forward/*.safetensors, greedy.jsonl, dspark.jsonl.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensor/safetensors.h"

namespace deepinfer {

// One teacher-forced pass: views of its tensors.
class ForwardGolden {
 public:
  explicit ForwardGolden(const std::string& name);

  bool has(const std::string& tensor) const { return file_.find(tensor).has_value(); }
  template <typename T>
  std::span<const T> get(const std::string& tensor) const {
    const TensorView view = file_.find(tensor).value();
    return {view.as<T>(), static_cast<size_t>(view.shape.elements())};
  }
  Shape shape(const std::string& tensor) const { return file_.find(tensor).value().shape; }
  std::vector<int32_t> ids() const {
    const auto ids = get<int32_t>("ids");
    return {ids.begin(), ids.end()};
  }

 private:
  Safetensors file_;
};

// One round of dspark.jsonl: the drafts that follow `token` at position anchor + 1.
struct DraftGolden {
  int64_t anchor = 0;
  std::vector<int32_t> draft;
};

struct GreedyGolden {
  std::string name;
  std::vector<int32_t> ids;
  std::vector<int32_t> fresh;       // the continuation, `new` in the file
  std::vector<float> gaps;          // between the two best logits at each; empty in dspark.jsonl
  std::vector<DraftGolden> rounds;  // of dspark.jsonl
};

std::vector<GreedyGolden> greedy_goldens();
std::vector<GreedyGolden> dspark_goldens();

}  // namespace deepinfer
