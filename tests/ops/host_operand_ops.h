// HostOperandOps: a backend with memory of its own behind operands in the host's memory, so that the suites of this
// folder run on it as they are.  Each operation copies its operands there, runs, and copies back what it may have
// written. Ranges that overlap in the host's memory overlap there too.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "ops/ops.h"
#include "tensor/formats.h"
#include "tensor/memory.h"

namespace deepinfer {

// The operands of one operation.  First all are named, then they are copied, then pointers are moved.
class OperandCopies {
 public:
  OperandCopies(Memory& memory, std::byte* heap, uint64_t heap_bytes)
      : memory_(memory), heap_(heap), heap_bytes_(heap_bytes) {}

  void in(const void* data, int64_t bytes) { add(data, bytes, false); }
  void out(const void* data, int64_t bytes) { add(data, bytes, true); }
  template <typename T>
  void in(const MatrixView<T>& view) {
    in(view.data, bytes_of(view));
  }
  template <typename T>
  void out(const MatrixView<T>& view) {
    out(view.data, bytes_of(view));
  }
  void in(const LinearWeight& weight) {
    if (weight.empty()) return;
    const int64_t rows = (weight.n + 31) / 32, groups = (weight.k + 31) / 32;
    switch (weight.format) {
      case LinearWeight::Format::kFp8:
        in(weight.data, weight.n * weight.k);
        in(weight.scale, rows * groups);
        break;
      case LinearWeight::Format::kFp4:
        in(weight.data, weight.n * weight.k / 2);
        in(weight.scale, weight.n * groups);
        break;
      case LinearWeight::Format::kBf16:
        in(weight.data, weight.n * weight.k * 2);
        break;
    }
  }
  void in(const ExpertWeights& expert) {
    in(expert.w1);
    in(expert.w3);
    in(expert.w2);
  }
  void in(const RopeTable& table) { in(table.frequencies, table.pairs * int64_t{sizeof(float)}); }
  void out(const Ring& ring) { out(ring.data, ring.slots * ring.record_bytes); }
  void out(const BlockList& list) {
    for (int64_t i = 0; i < list.count; ++i) out(list.blocks[i], list.rows_per_block * list.record_bytes);
  }

  void upload() {
    std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
    std::vector<Range> merged;
    for (const Range& range : ranges_) {
      if (!merged.empty() && range.begin < merged.back().end) {
        merged.back().end = std::max(merged.back().end, range.end);
        merged.back().written |= range.written;
      } else {
        merged.push_back(range);
      }
    }
    ranges_ = std::move(merged);
    uint64_t used = 0;
    for (Range& range : ranges_) {
      const auto bytes = static_cast<size_t>(range.end - range.begin);
      range.there = heap_ + used;
      used += (bytes + 511) / 256 * 256;  // a gap behind each
      DI_CHECK(used <= heap_bytes_, "the heap holds an operation's operands");
      memory_.write(range.there, range.begin, bytes);
    }
  }
  void download() {
    for (const Range& range : ranges_)
      if (range.written)
        memory_.read(const_cast<std::byte*>(range.begin), range.there, static_cast<size_t>(range.end - range.begin));
  }

  template <typename T>
  void move(T*& pointer) const {
    if (pointer == nullptr) return;
    const auto* at = reinterpret_cast<const std::byte*>(pointer);
    for (const Range& range : ranges_) {
      if (at < range.begin || at >= range.end) continue;
      pointer = reinterpret_cast<T*>(range.there + (at - range.begin));
      return;
    }
    pointer = nullptr;  // of nothing: a view without rows
  }
  template <typename T>
  void move(MatrixView<T>& view) const {
    move(view.data);
  }
  void move(LinearWeight& weight) const {
    move(weight.data);
    move(weight.scale);
  }
  void move(ExpertWeights& expert) const {
    move(expert.w1);
    move(expert.w3);
    move(expert.w2);
  }
  void move(RopeTable& table) const { move(table.frequencies); }
  void move(Ring& ring) const { move(ring.data); }
  void move(BlockList& list) {
    if (list.count == 0) return;
    auto moved = std::make_unique<std::vector<std::byte*>>(list.blocks, list.blocks + list.count);
    for (std::byte*& block : *moved) move(block);
    list.blocks = moved->data();
    block_lists_.push_back(std::move(moved));
  }

 private:
  struct Range {
    const std::byte* begin;
    const std::byte* end;
    bool written;
    std::byte* there;
  };

  template <typename T>
  static int64_t bytes_of(const MatrixView<T>& view) {
    if (view.data == nullptr || view.rows == 0) return 0;
    return ((view.rows - 1) * view.stride + view.columns) * static_cast<int64_t>(sizeof(T));
  }
  void add(const void* data, int64_t bytes, bool written) {
    if (data == nullptr || bytes <= 0) return;
    const auto* begin = static_cast<const std::byte*>(data);
    ranges_.push_back({begin, begin + bytes, written, nullptr});
  }

  Memory& memory_;
  std::byte* heap_;
  uint64_t heap_bytes_;
  std::vector<Range> ranges_;
  std::vector<std::unique_ptr<std::vector<std::byte*>>> block_lists_;
};

class HostOperandOps final : public Ops {
 public:
  static constexpr uint64_t kHeap = uint64_t{1} << 30;

  explicit HostOperandOps(std::unique_ptr<Ops> ops) : ops_(std::move(ops)), memory_(ops_->memory()) {}
  ~HostOperandOps() override {
    if (heap_ != nullptr) memory_.release(heap_, kHeap);
  }

  std::string_view name() const override { return ops_->name(); }
  Status prepare(const OpsLimits& limits) override {
    DI_ASSIGN_OR_RETURN(heap_, memory_.allocate(kHeap));
    return ops_->prepare(limits);
  }

  void embed_tokens(const EmbedTokens& op) override {
    run(op, &Ops::embed_tokens, [](EmbedTokens& o, auto visit) {
      visit.in(o.table);
      visit.array(o.ids, o.streams.rows);
      visit.out(o.streams);
      visit.out(o.pre);
    });
  }
  void gather_rows(const GatherRows& op) override {
    run(op, &Ops::gather_rows, [](GatherRows& o, auto visit) {
      visit.in(o.x);
      visit.out(o.y);
    });
  }
  void rms_norm(const RmsNorm& op) override {
    run(op, &Ops::rms_norm, [](RmsNorm& o, auto visit) {
      visit.in(o.x);
      visit.array(o.weight, o.x.columns);
      visit.out(o.y);
    });
  }
  void rope(const Rope& op) override {
    run(op, &Ops::rope, [](Rope& o, auto visit) {
      visit.array(o.position, o.x.rows);
      visit.in(o.table);
      visit.out(o.x);
    });
  }
  void quantize_activation(const QuantizeActivation& op) override {
    run(op, &Ops::quantize_activation, [](QuantizeActivation& o, auto visit) {
      visit.in(o.x);
      visit.out(o.y);
    });
  }
  void matmul(const Matmul& op) override {
    run(op, &Ops::matmul, [](Matmul& o, auto visit) {
      visit.in(o.x);
      visit.in(o.weight);
      visit.out(o.y);
      visit.out(o.y32);
    });
  }
  void grouped_matmul(const GroupedMatmul& op) override {
    run(op, &Ops::grouped_matmul, [](GroupedMatmul& o, auto visit) {
      visit.in(o.x);
      visit.in(o.weight);
      visit.out(o.y);
    });
  }
  void hyper_connection_mix(const HyperConnectionMix& op) override {
    run(op, &Ops::hyper_connection_mix, [](HyperConnectionMix& o, auto visit) {
      constexpr int64_t kMixes = 2 * kHyperCopies + kHyperCopies * kHyperCopies;
      visit.in(o.streams);
      visit.array(o.weights.fn, kMixes * o.streams.columns);
      visit.array(o.weights.base, kMixes);
      visit.array(o.weights.scale, 3);
      visit.out(o.pre);
      visit.out(o.post);
      visit.out(o.comb);
    });
  }
  void hyper_connection_collapse(const HyperConnectionCollapse& op) override {
    run(op, &Ops::hyper_connection_collapse, [](HyperConnectionCollapse& o, auto visit) {
      visit.in(o.streams);
      visit.in(o.pre);
      visit.array(o.norm, o.x.columns);
      visit.out(o.x);
      visit.out(o.quantized);
    });
  }
  void hyper_connection_expand(const HyperConnectionExpand& op) override {
    run(op, &Ops::hyper_connection_expand, [](HyperConnectionExpand& o, auto visit) {
      visit.in(o.y);
      visit.in(o.post);
      visit.in(o.comb);
      visit.out(o.streams);
      visit.out(o.next.streams);
      visit.in(o.next.pre);
      visit.array(o.next.norm, o.next.x.columns);
      visit.out(o.next.x);
      visit.out(o.next.quantized);
    });
  }
  void hyper_connection_mean(const HyperConnectionMean& op) override {
    run(op, &Ops::hyper_connection_mean, [](HyperConnectionMean& o, auto visit) {
      visit.in(o.streams);
      visit.out(o.x);
    });
  }
  void engram_gather(const EngramGather& op) override {
    run(op, &Ops::engram_gather, [](EngramGather& o, auto visit) {
      if (o.table.reachable) {
        visit.array(o.table.weight, o.table.rows * o.table.width);
        visit.array(o.table.scale, o.table.rows * (o.table.width / kFp8Group));
      }
      visit.out(o.e);
    });
  }
  void engram_mix(const EngramMix& op) override {
    run(op, &Ops::engram_mix, [](EngramMix& o, auto visit) {
      visit.in(o.kv);
      visit.array(o.query_weight, o.streams.columns);
      visit.array(o.key_weight, o.streams.columns);
      visit.array(o.dead, o.streams.rows);
      visit.out(o.streams);
    });
  }
  void make_window_records(const MakeWindowRecords& op) override {
    run(op, &Ops::make_window_records, [](MakeWindowRecords& o, auto visit) {
      visit.in(o.kv);
      visit.array(o.norm, o.kv.columns);
      visit.array(o.position, o.kv.rows);
      visit.in(o.table);
      visit.out(o.records);
    });
  }
  void commit_window(const CommitWindow& op) override {
    Sequences<WindowCommit> list(op.sequences, op.sequence_count);
    run(op, &Ops::commit_window, [&](CommitWindow& o, auto visit) {
      visit.in(o.records);
      for (WindowCommit& sequence : list.values) visit.out(sequence.ring);
      o.sequences = list.values.data();
    });
  }
  void compress_pairs(const CompressPairs& op) override {
    Sequences<CompressSequence> list(op.sequences, op.sequence_count);
    run(op, &Ops::compress_pairs, [&](CompressPairs& o, auto visit) {
      visit.in(o.value);
      visit.in(o.gate);
      visit.array(o.norm, o.latent.columns);
      for (CompressSequence& sequence : list.values) visit.out(sequence.half_groups);
      visit.out(o.latent);
      o.sequences = list.values.data();
    });
  }
  void store_compressed(const StoreCompressed& op) override {
    Sequences<StoreSequence> list(op.sequences, op.sequence_count);
    run(op, &Ops::store_compressed, [&](StoreCompressed& o, auto visit) {
      visit.in(o.latent);
      visit.in(o.table);
      for (StoreSequence& sequence : list.values) visit.out(sequence.destination);
      o.sequences = list.values.data();
    });
  }
  void store_index_keys(const StoreIndexKeys& op) override {
    Sequences<StoreSequence> list(op.sequences, op.sequence_count);
    run(op, &Ops::store_index_keys, [&](StoreIndexKeys& o, auto visit) {
      visit.in(o.key);
      visit.array(o.norm, o.key.columns);
      visit.in(o.table);
      for (StoreSequence& sequence : list.values) visit.out(sequence.destination);
      o.sequences = list.values.data();
    });
  }
  void make_index_queries(const MakeIndexQueries& op) override {
    run(op, &Ops::make_index_queries, [](MakeIndexQueries& o, auto visit) {
      visit.in(o.q);
      visit.array(o.position, o.q.rows);
      visit.in(o.table);
      visit.out(o.records);
    });
  }
  void index_topk(const IndexTopk& op) override {
    Sequences<IndexSequence> list(op.sequences, op.sequence_count);
    run(op, &Ops::index_topk, [&](IndexTopk& o, auto visit) {
      visit.in(o.queries);
      visit.in(o.weights);
      for (IndexSequence& sequence : list.values) visit.out(sequence.keys);
      visit.out(o.selected);
      visit.out(o.candidates);
      o.sequences = list.values.data();
    });
  }
  void sparse_attention(const SparseAttention& op) override {
    Sequences<AttentionSequence> list(op.sequences, op.sequence_count);
    run(op, &Ops::sparse_attention, [&](SparseAttention& o, auto visit) {
      visit.out(o.q);
      visit.in(o.step_records);
      for (AttentionSequence& sequence : list.values) {
        visit.out(sequence.ring);
        visit.out(sequence.compressed);
      }
      visit.in(o.selected);
      visit.array(o.sink, o.heads);
      visit.out(o.o);
      visit.in(o.table);
      visit.array(o.position, o.position == nullptr ? 0 : o.q.rows);
      o.sequences = list.values.data();
    });
  }
  void route(const Route& op) override {
    run(op, &Ops::route, [](Route& o, auto visit) {
      visit.in(o.x);
      visit.in(o.gate);
      visit.array(o.bias, o.gate.n);
      visit.array(o.bias_image, o.gate.n);
      visit.array(o.image, o.x.rows);
      visit.out(o.expert);
      visit.out(o.weight);
    });
  }
  void mixture_of_experts(const MixtureOfExperts& op) override {
    Sequences<ExpertWeights> experts(op.experts, op.expert_count);
    run(op, &Ops::mixture_of_experts, [&](MixtureOfExperts& o, auto visit) {
      visit.in(o.x);
      visit.in(o.expert);
      visit.in(o.weight);
      for (ExpertWeights& expert : experts.values) visit.in(expert);
      visit.in(o.shared);
      visit.out(o.y);
      o.experts = experts.values.data();
    });
  }
  void add_rows(const AddRows& op) override {
    run(op, &Ops::add_rows, [](AddRows& o, auto visit) {
      visit.in(o.x);
      visit.out(o.y);
    });
  }
  void sample(const Sample& op) override {
    run(op, &Ops::sample, [](Sample& o, auto visit) { visit.out(o.logits); });
  }

 private:
  template <typename T>
  struct Sequences {
    Sequences(const T* from, int count) : values(from, from + count) {}
    std::vector<T> values;
  };

  // Names operands, or moves pointers to them: each operation is written once for both.
  struct Naming {
    OperandCopies* copies;
    template <typename T>
    void in(const T& operand) {
      copies->in(operand);
    }
    template <typename T>
    void out(const T& operand) {
      copies->out(operand);
    }
    template <typename T>
    void array(const T* data, int64_t count) {
      copies->in(data, count * static_cast<int64_t>(sizeof(T)));
    }
  };
  struct Moving {
    OperandCopies* copies;
    template <typename T>
    void in(T& operand) {
      copies->move(operand);
    }
    template <typename T>
    void out(T& operand) {
      copies->move(operand);
    }
    template <typename T>
    void array(T*& data, int64_t) {
      copies->move(data);
    }
  };

  template <typename Op, typename Operands>
  void run(const Op& op, void (Ops::*method)(const Op&), Operands operands) {
    OperandCopies copies(memory_, heap_, kHeap);
    Op there = op;
    operands(there, Naming{&copies});
    copies.upload();
    operands(there, Moving{&copies});
    (ops_.get()->*method)(there);
    DI_CHECK(ops_->health().ok(), ops_->health().message());
    copies.download();
  }

  std::unique_ptr<Ops> ops_;
  Memory& memory_;
  std::byte* heap_ = nullptr;
};

}  // namespace deepinfer
