// Forward: one step through the network (specs: v41-model.md section 2), by operations of a backend.  Owned by
// DeepseekV41.  The parts of a layer lie in attention.cpp, compressor.cpp, feed_forward.cpp, engram.cpp; the draft in
// draft.cpp; the order of everything in forward.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/deepseek_v41/activations.h"
#include "models/deepseek_v41/active_rows.h"
#include "models/deepseek_v41/cache_groups.h"
#include "models/deepseek_v41/config.h"
#include "models/deepseek_v41/engram_hash.h"
#include "models/deepseek_v41/layer_table.h"
#include "models/deepseek_v41/row_plan.h"
#include "models/deepseek_v41/weights.h"
#include "models/model.h"
#include "ops/ops.h"

namespace deepinfer::deepseek_v41 {

// Looks into a step from tests: called with the rows under way.  May change what it is given.
class LayerProbe {
 public:
  virtual ~LayerProbe() = default;
  // Before layer `layer`, after its Engram; with layer = num_hidden_layers after the last one.
  virtual void before_layer(int layer, MatrixView<bf16> streams, MatrixView<float> pre) = 0;
  // After layer `layer` has chosen rows; candidates is empty unless it made them.
  virtual void after_selection(int layer, MatrixView<const int32_t> selected, MatrixView<const int32_t> candidates) = 0;
  // Taps of the rows that give draft context.
  virtual void taps(MatrixView<const bf16> taps) = 0;
};

// What the parts of a model are, for the forward pass to refer to; all outlive it.
struct ForwardParts {
  const Config& config;
  const LayerTable& table;
  const CacheGroups& groups;
  const EngramHash& hash;
  const Weights& weights;
  Ops& ops;
};

class Forward {
 public:
  Forward(const ForwardParts& parts, const StepLimits& limits, Activations activations);

  MatrixView<float> run(std::span<const StepSequence> step);
  DraftResult draft(std::span<const DraftSequence> sequences);

  LayerProbe* probe = nullptr;

 private:
  // A rows matrix's part that is under way.
  template <typename T>
  MatrixView<T> active(const MatrixView<T>& m) const {
    return m.rows_from(rows_.begin(), rows_.count());
  }
  template <typename T>
  MatrixView<T> first_rows(const MatrixView<T>& m) const {  // of scratch that does not keep row numbers
    return m.rows_from(0, rows_.count());
  }
  const int64_t* active_positions() const { return active(a_.step.position).data; }
  // To the backend's memory and back.
  template <typename T>
  void write(const MatrixView<T>& to, const MatrixView<T>& from) {
    memory_.write(to.data, from.data, static_cast<size_t>(from.rows * from.columns) * sizeof(T));
  }
  template <typename T>
  void read(const MatrixView<T>& to, const MatrixView<T>& from) {
    memory_.read(to.data, from.data, static_cast<size_t>(to.rows * to.columns) * sizeof(T));
  }

  void embed();  // the rows of HostScratch
  // Drops rows below from(sequence) from all matrices of StepRows.
  void keep_rows(FunctionRef<int64_t(size_t sequence)> from);
  LayerCut cut(size_t sequence, int layer) const { return layer_cut(c_, table_, step_[sequence].rule, layer); }
  void run_layer(int layer);
  MatrixView<float> head();

  // engram.cpp
  void mix_engram(int layer);

  // compressor.cpp: rows and index keys of a KV source, from all arriving rows
  void store_compressed(int layer);
  void compress_pairs(int layer, int64_t groups);
  void store_latents(int layer, int64_t groups);

  // x, and x rounded, of the rows under way from their streams.
  HyperConnectionCollapse sublayer_input(const MatrixView<float>& pre, const bf16* norm) const;
  // The layer's input is made together with the streams that it is made of: nothing comes between.
  bool input_comes_with_streams(int layer) const;

  // attention.cpp
  HyperConnectionCollapse attention_input(int layer) const;
  void window_records(int layer);  // from x of the rows that keep one
  void queries(int layer);
  void choose_rows(int layer);  // of layers that own an index
  void attend(int layer, SparseAttention::Window window);
  void output_projection(int layer);
  void mix_attention(int layer);
  void expand_attention(int layer);  // also makes the feed-forward input
  void commit_window(int layer);
  RopeTable rope_table(int layer) const;

  // feed_forward.cpp
  void feed_forward(int layer);

  // choices.cpp: to the sequences' sinks, of the rows under way
  void tell_routed(int layer, const MatrixView<int32_t>& expert);
  void tell_selected(int layer, const MatrixView<int32_t>& selected);
  template <typename Tell>
  void tell_choices(const MatrixView<int32_t>& chosen, Tell tell);

  // draft.cpp
  void store_draft_context();
  void draft_block(std::span<const DraftSequence> sequences);
  void markov_chain(std::span<const DraftSequence> sequences);

  const Config& c_;
  const LayerTable& table_;
  const CacheGroups& groups_;
  const EngramHash& hash_;
  const Weights& w_;
  Ops& ops_;
  Memory& memory_;  // of ops_
  StepLimits limits_;
  Activations a_;

  // The step under way.
  std::span<const StepSequence> step_;
  std::span<const DraftSequence> drafting_;  // instead of step_ in draft()
  bool tells_choices_ = false;               // some sequence has a sink
  ActiveRows rows_;
  std::vector<RowSpan> record_spans_;  // window records of the layer under way, one a sequence
  // Argument lists of operations, one entry a sequence that has rows; kept for their memory.
  std::vector<AttentionSequence> attention_list_;
  std::vector<IndexSequence> index_list_;
  std::vector<CompressSequence> compress_list_;
  std::vector<StoreSequence> store_list_;
  std::vector<StoreSequence> key_list_;
  std::vector<WindowCommit> commit_list_;
  std::vector<SamplingRow> sampling_;
  std::vector<SampledRow> sampled_;
};

// What a backend must be prepared for.
OpsLimits ops_limits(const Config& config, const StepLimits& limits);

}  // namespace deepinfer::deepseek_v41
