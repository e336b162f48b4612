#include "engine/tiers/prefix_tier.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace deepinfer {
namespace {

// Of one call of the store: questions wait no longer than it takes.
constexpr int64_t kMostBatchBytes = int64_t{8} << 20;

bool serves(const SnapshotRule& rule, const SnapshotInfo& snapshot, int64_t logits_from) {
  if (rule.usable(snapshot, logits_from)) return true;
  SnapshotInfo early_part = snapshot;
  early_part.kind = SnapshotKind::kEarly;
  return snapshot.kind == SnapshotKind::kFull && rule.usable(early_part, logits_from);
}

// Whether a copy on its way to the store is part of what the question asks for.
bool continues(const PrefixQuestion& question, const PrefixCopy& copy) {
  return copy.salt == question.salt && copy.info.position > question.longer_than &&
         copy.tokens.size() <= question.tokens.size() &&
         std::equal(copy.tokens.begin(), copy.tokens.end(), question.tokens.begin());
}

std::span<const int32_t> block_of(const std::vector<int32_t>& tokens, int64_t number, int64_t tokens_per_block) {
  return std::span<const int32_t>(tokens).subspan(static_cast<size_t>(number * tokens_per_block),
                                                  static_cast<size_t>(tokens_per_block));
}

}  // namespace

PrefixTier::PrefixTier(std::unique_ptr<KvStore> store, const PrefixGeometry& geometry, const SnapshotRule& rule,
                       int64_t most_queued_bytes, std::function<void(PrefixAnswer)> on_answer)
    : store_(std::move(store)),
      geometry_(geometry),
      rule_(rule),
      most_queued_bytes_(most_queued_bytes),
      on_answer_(std::move(on_answer)) {
  stats_.writable = store_->writable();
  stats_.store = store_->stats();
  worker_ = std::thread([this] { work(); });
}

PrefixTier::~PrefixTier() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  work_.notify_one();
  worker_.join();
}

bool PrefixTier::has_room(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!stats_.writable) return false;
  if (queued_bytes_ + bytes <= most_queued_bytes_) return true;
  ++stats_.dropped;
  return false;
}

void PrefixTier::keep(PrefixCopy copy) {
  {
    const std::lock_guard lock(mutex_);
    const auto bytes = static_cast<int64_t>(copy.payloads.size());
    copy.number = kept_ + 1;
    copies_.push_back(std::move(copy));
    queued_bytes_ += bytes;
    ++kept_;
  }
  work_.notify_one();
}

void PrefixTier::ask(PrefixQuestion question) {
  {
    const std::lock_guard lock(mutex_);
    for (const PrefixCopy& copy : copies_)
      if (continues(question, copy)) question.after = copy.number;
    questions_.push_back(std::move(question));
  }
  work_.notify_one();
}

int64_t PrefixTier::evictions() const {
  const std::lock_guard lock(mutex_);
  return stats_.store.evictions;
}

PrefixTierStats PrefixTier::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void PrefixTier::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return closing_ || !questions_.empty() || !copies_.empty(); });
    answer_questions(lock);
    if (!copies_.empty()) {
      PrefixCopy& copy = copies_.front();  // stays where it is when others come
      lock.unlock();
      bool failed = false;
      try {
        write(copy);
      } catch (...) {
        failed = true;
      }
      lock.lock();
      if (failed) ++stats_.failures;
      queued_bytes_ -= static_cast<int64_t>(copy.payloads.size());
      written_ = copy.number;
      copies_.pop_front();
      stats_.store = store_->stats();
    } else if (closing_) {
      return;
    }
  }
}

void PrefixTier::answer_questions(std::unique_lock<std::mutex>& lock) {
  while (!closing_) {
    const auto next = std::find_if(questions_.begin(), questions_.end(),
                                   [this](const PrefixQuestion& q) { return q.after <= written_; });
    if (next == questions_.end()) return;
    PrefixQuestion question = std::move(*next);
    questions_.erase(next);
    lock.unlock();
    PrefixAnswer answered;
    try {
      answered = answer(question);
    } catch (...) {
      answered = {};
    }
    answered.ticket = question.ticket;
    const KvStoreStats store = store_->stats();
    const bool found = answered.found;
    const int64_t tokens = found ? answered.info.position : 0;
    on_answer_(std::move(answered));
    lock.lock();
    ++stats_.questions;
    stats_.hits += found ? 1 : 0;
    stats_.hit_tokens += tokens;
    stats_.store = store;
  }
}

PrefixAnswer PrefixTier::answer(PrefixQuestion& question) {
  PrefixAnswer answer;
  answer.salt = question.salt;
  const int64_t most =
      std::min(question.most, static_cast<int64_t>(question.tokens.size())) / geometry_.tokens_per_block;
  std::vector<PrefixChain> chain;
  for (PrefixChain next(question.salt, geometry_.tokens_per_block); static_cast<int64_t>(chain.size()) < most;) {
    next.next(block_of(question.tokens, static_cast<int64_t>(chain.size()), geometry_.tokens_per_block));
    const auto entry = store_->find(block_key(next.key()));
    if (!entry || entry->bytes != geometry_.block_payload()) break;
    chain.push_back(next);
  }
  // A record that turns out to be damaged makes the prefix shorter.
  int64_t usable_blocks = static_cast<int64_t>(chain.size());
  while (!answer.found && usable_blocks * geometry_.tokens_per_block > question.longer_than)
    answer.found = load(question, chain, answer, usable_blocks);
  if (answer.found) {
    question.tokens.resize(static_cast<size_t>(answer.info.position));
    answer.tokens = std::move(question.tokens);
  } else {
    answer.payloads.clear();
  }
  return answer;
}

// A snapshot at the end of so many blocks that serves the question.
std::optional<SnapshotInfo> PrefixTier::snapshot_at(const PrefixQuestion& question,
                                                    const std::vector<PrefixChain>& chain, int64_t blocks) {
  for (const SnapshotKind kind : {SnapshotKind::kFull, SnapshotKind::kEarly}) {
    const auto entry = store_->find(snapshot_key(chain[static_cast<size_t>(blocks - 1)].key(), kind));
    if (!entry || geometry_.snapshot_bytes(kind) == 0 || entry->bytes != geometry_.snapshot_payload(kind)) continue;
    const SnapshotInfo info = snapshot_info(kind, blocks * geometry_.tokens_per_block, entry->note);
    if (serves(rule_, info, question.logits_from)) return info;
  }
  return std::nullopt;
}

// Reads the longest prefix of at most usable_blocks blocks that has a snapshot; where that fails, usable_blocks is
// less.
bool PrefixTier::load(const PrefixQuestion& question, const std::vector<PrefixChain>& chain, PrefixAnswer& answer,
                      int64_t& usable_blocks) {
  std::optional<SnapshotInfo> snapshot;
  while (usable_blocks > 0 && !(snapshot = snapshot_at(question, chain, usable_blocks))) --usable_blocks;
  const int64_t blocks = usable_blocks;
  if (!snapshot || snapshot->position <= question.longer_than) {
    usable_blocks = 0;
    return false;
  }
  answer.info = *snapshot;

  const auto block_bytes = static_cast<size_t>(geometry_.block_payload());
  const auto count = static_cast<size_t>(blocks);
  answer.payloads.resize(count * block_bytes + static_cast<size_t>(geometry_.snapshot_payload(snapshot->kind)));
  std::vector<KvRead> reads;
  reads.reserve(count + 1);
  const std::span<std::byte> payloads(answer.payloads);
  for (size_t i = 0; i < count; ++i)
    reads.push_back({block_key(chain[i].key()), payloads.subspan(i * block_bytes, block_bytes)});
  reads.push_back({snapshot_key(chain[count - 1].key(), snapshot->kind), payloads.subspan(count * block_bytes)});
  store_->get(reads);
  for (size_t i = 0; i < count; ++i) {
    const auto tokens = block_of(question.tokens, static_cast<int64_t>(i), geometry_.tokens_per_block);
    if (reads[i].found && is_block(chain[i].lineage(), tokens, reads[i].payload)) continue;
    usable_blocks = static_cast<int64_t>(i);
    return false;
  }
  if (reads[count].found && is_snapshot(chain[count - 1].lineage(), *snapshot, reads[count].payload)) return true;
  --usable_blocks;
  return false;
}

void PrefixTier::write(PrefixCopy& copy) {
  std::span<std::byte> payloads(copy.payloads);
  const auto block_bytes = static_cast<size_t>(geometry_.block_payload());
  std::vector<KvWrite> writes;
  int64_t batch = 0;
  PrefixChain chain(copy.salt, geometry_.tokens_per_block);
  auto here = copy.blocks.begin();
  for (int64_t number = 0; number * geometry_.tokens_per_block < copy.info.position; ++number) {
    const auto tokens = block_of(copy.tokens, number, geometry_.tokens_per_block);
    chain.next(tokens);
    if (here == copy.blocks.end() || *here != number) continue;
    ++here;
    const std::span<std::byte> payload = payloads.first(block_bytes);
    payloads = payloads.subspan(block_bytes);
    if (store_->find(block_key(chain.key()))) continue;
    write_block_prefix(chain.lineage(), tokens, payload);
    writes.push_back({block_key(chain.key()), {}, payload});
    batch += geometry_.block_payload();
    if (batch >= kMostBatchBytes) {
      put(writes);
      batch = 0;
    }
  }
  // A prefix has one snapshot of a kind, the one that serves more.
  const KvKey key = snapshot_key(chain.key(), copy.info.kind);
  const KvNote note = snapshot_note(copy.info);
  if (const auto entry = store_->find(key); !entry || note < entry->note) {
    write_snapshot_prefix(chain.lineage(), copy.info, payloads);
    writes.push_back({key, note, payloads});
  }
  put(writes);
}

void PrefixTier::put(std::vector<KvWrite>& writes) {
  const Status status = writes.empty() ? Status() : store_->put(writes);
  writes.clear();
  std::unique_lock lock(mutex_);
  if (!status.ok()) ++stats_.failures;
  answer_questions(lock);
}

}  // namespace deepinfer
