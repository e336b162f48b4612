// GuardedOps: another backend with memory of its own that faults when anything but its operations looks into it.  What
// runs on it keeps the rules of ops.h on where operands lie, so it can run on a device.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/ops.h"
#include "tensor/buffer.h"

namespace deepinfer {

// Pages that can be neither read nor written while nobody has opened them.
class GuardedMemory final : public Memory {
 public:
  ~GuardedMemory() override { open(1); }

  // Runs work with all pages open.
  template <typename Work>
  void opened(Work work) {
    const Opened opened(*this);
    work();
  }

  bool is_host() const override { return false; }
  Result<std::byte*> allocate(uint64_t bytes) override {
    const std::scoped_lock lock(mutex_);
    // Whole huge pages: their protection is soon changed.
    DI_ASSIGN_OR_RETURN(Buffer buffer, Buffer::allocate(std::max(bytes, uint64_t{Buffer::kLarge})));
    buffers_.push_back(std::move(buffer));
    protect(buffers_.back());
    return buffers_.back().data();
  }
  void release(std::byte* data, uint64_t) noexcept override {
    opened([&] { std::erase_if(buffers_, [&](const Buffer& buffer) { return buffer.data() == data; }); });
  }
  void discard(std::byte* data, uint64_t bytes) override {
    opened([&] { std::memset(data, 0, bytes); });
  }
  void write(void* to, const void* from, size_t bytes) override {
    opened([&] { std::memcpy(to, from, bytes); });
  }
  void read(void* to, const void* from, size_t bytes) override { write(to, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) override { write(to, from, bytes); }
  void finish() override {}

 private:
  struct Opened {
    explicit Opened(GuardedMemory& memory) : memory_(memory) { memory_.open(1); }
    ~Opened() { memory_.open(-1); }
    GuardedMemory& memory_;
  };

  void protect(Buffer& buffer) const {
    const uint64_t bytes = (buffer.size() + Buffer::kHugePage - 1) / Buffer::kHugePage * Buffer::kHugePage;
    mprotect(buffer.data(), bytes, users_ > 0 ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
  void open(int users) {
    const std::scoped_lock lock(mutex_);
    const bool before = users_ > 0;
    users_ += users;
    if (before == (users_ > 0)) return;
    for (Buffer& buffer : buffers_) protect(buffer);
  }

  std::mutex mutex_;
  std::vector<Buffer> buffers_;
  int users_ = 0;
};

class GuardedOps final : public Ops {
 public:
  explicit GuardedOps(std::unique_ptr<Ops> ops) : ops_(std::move(ops)) {}

  std::string_view name() const override { return ops_->name(); }
  Memory& memory() override { return memory_; }
  Status prepare(const OpsLimits& limits) override { return ops_->prepare(limits); }

#define DI_OPENED(method, Operation)           \
  void method(const Operation& op) override {  \
    memory_.opened([&] { ops_->method(op); }); \
  }
  DI_OPENED(embed_tokens, EmbedTokens)
  DI_OPENED(gather_rows, GatherRows)
  DI_OPENED(rms_norm, RmsNorm)
  DI_OPENED(rope, Rope)
  DI_OPENED(quantize_activation, QuantizeActivation)
  DI_OPENED(matmul, Matmul)
  DI_OPENED(grouped_matmul, GroupedMatmul)
  DI_OPENED(hyper_connection_mix, HyperConnectionMix)
  DI_OPENED(hyper_connection_collapse, HyperConnectionCollapse)
  DI_OPENED(hyper_connection_expand, HyperConnectionExpand)
  DI_OPENED(hyper_connection_mean, HyperConnectionMean)
  DI_OPENED(engram_gather, EngramGather)
  DI_OPENED(engram_mix, EngramMix)
  DI_OPENED(make_window_records, MakeWindowRecords)
  DI_OPENED(commit_window, CommitWindow)
  DI_OPENED(compress_pairs, CompressPairs)
  DI_OPENED(store_compressed, StoreCompressed)
  DI_OPENED(store_index_keys, StoreIndexKeys)
  DI_OPENED(make_index_queries, MakeIndexQueries)
  DI_OPENED(index_topk, IndexTopk)
  DI_OPENED(sparse_attention, SparseAttention)
  DI_OPENED(route, Route)
  DI_OPENED(mixture_of_experts, MixtureOfExperts)
  DI_OPENED(add_rows, AddRows)
  DI_OPENED(sample, Sample)
#undef DI_OPENED

 private:
  GuardedMemory memory_;
  std::unique_ptr<Ops> ops_;
};

}  // namespace deepinfer
