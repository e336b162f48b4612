#include "engine/tiered_prefixes.h"

#include <algorithm>
#include <new>
#include <utility>

namespace deepinfer {
namespace {

// Keys of 128 tokens each; forgetting them costs questions to the store.
constexpr size_t kMostKeptKeys = size_t{1} << 20;

PrefixGeometry geometry_of(const CacheLayout& layout) {
  return {layout.tokens_per_block, layout.bytes_per_block(), CacheMemory::snapshot_blocks(layout, SnapshotKind::kFull),
          CacheMemory::snapshot_blocks(layout, SnapshotKind::kEarly)};
}

}  // namespace

int64_t TieredPrefixes::record_bytes(const CacheLayout& layout) {
  const PrefixGeometry geometry = geometry_of(layout);
  return geometry.snapshot_payload(SnapshotKind::kFull) + geometry.block_payload();
}

TieredPrefixes::TieredPrefixes(Scheduler& scheduler, CacheMemory& memory, std::unique_ptr<KvStore> store,
                               const SnapshotRule& rule, const Options& options, std::function<void()> wake)
    : scheduler_(scheduler),
      memory_(memory),
      rule_(rule),
      options_(options),
      geometry_(geometry_of(memory.layout())),
      tier_(std::make_unique<PrefixTier>(std::move(store), geometry_, rule_, options.most_queued_bytes,
                                         [this, wake = std::move(wake)](PrefixAnswer answer) {
                                           {
                                             const std::lock_guard lock(mutex_);
                                             answers_.push_back(std::move(answer));
                                           }
                                           wake();
                                         })) {
  scheduler_.set_tier(this);
}

TieredPrefixes::~TieredPrefixes() {
  scheduler_.set_tier(nullptr);
}

bool TieredPrefixes::ask(const Request& request, Time now) {
  if (!request.reuse_prefix || !overdue_.empty()) return false;
  const int64_t last = static_cast<int64_t>(request.prompt.size()) - 1;
  PrefixQuestion question;
  question.ticket = request.id;
  question.salt = request.salt;
  question.logits_from = request.reused_below(request.logits_from < 0 ? last : request.logits_from);
  question.most = std::min(last, question.logits_from);
  question.longer_than = scheduler_.cached_prefix(request);
  if (question.most / geometry_.tokens_per_block <= question.longer_than / geometry_.tokens_per_block) return false;
  return ask(std::move(question), request.prompt, now, request.deadline);
}

bool TieredPrefixes::bring_back(const LostPrefix& lost, Time now) {
  if (!overdue_.empty()) return false;
  const int64_t blocks = lost.written / geometry_.tokens_per_block;
  const int64_t bytes = blocks * geometry_.block_payload() + geometry_.snapshot_payload(SnapshotKind::kFull);
  if (!cost_.pays(bytes, blocks * geometry_.tokens_per_block - lost.cached)) return false;
  PrefixQuestion question;
  question.ticket = lost.request;
  question.salt = lost.salt;
  question.logits_from = lost.logits_from;
  question.most = std::min(static_cast<int64_t>(lost.tokens.size()) - 1, lost.logits_from);
  question.longer_than = lost.cached;
  return ask(std::move(question), lost.tokens, now, lost.deadline);
}

bool TieredPrefixes::ask(PrefixQuestion question, std::span<const int32_t> tokens, Time now, Time deadline) {
  const RequestId id = question.ticket;
  try {
    taken_.reserve(unanswered_ + 1);
    {
      const std::lock_guard lock(mutex_);
      answers_.reserve(unanswered_ + 1);
    }
    waiting_[id] = {now, std::min(now + options_.patience, deadline), question.longer_than};
    question.tokens.assign(tokens.begin(), tokens.end());
    tier_->ask(std::move(question));
    ++unanswered_;
    return true;
  } catch (const std::bad_alloc&) {
    waiting_.erase(id);
    return false;
  }
}

void TieredPrefixes::take_ready(Time now, std::vector<Ready>& out) {
  {
    const std::lock_guard lock(mutex_);
    taken_.swap(answers_);
  }
  for (const PrefixAnswer& answer : taken_) {
    --unanswered_;
    overdue_.erase(answer.ticket);
    const auto wait = waiting_.find(answer.ticket);
    if (wait == waiting_.end()) continue;  // nobody waits for it any more
    const bool adopted = answer.found && adopt(answer);
    const int64_t cached = wait->second.cached;
    if (adopted) cost_.observe_read(static_cast<int64_t>(answer.payloads.size()), now - wait->second.asked);
    out.push_back({answer.ticket, cached, adopted ? answer.info.position : cached});
    waiting_.erase(wait);
  }
  taken_.clear();
  for (auto wait = waiting_.begin(); wait != waiting_.end();) {
    if (now < wait->second.until) {
      ++wait;
      continue;
    }
    overdue_.insert(wait->first);
    out.push_back({wait->first, 0, 0});
    wait = waiting_.erase(wait);
  }
  // In the order of submission.
  std::sort(out.begin(), out.end(), [](const Ready& a, const Ready& b) { return a.request < b.request; });
}

Time TieredPrefixes::next_deadline() const {
  Time next = kNever;
  for (const auto& [id, wait] : waiting_) next = std::min(next, wait.until);
  return next;
}

bool TieredPrefixes::adopt(const PrefixAnswer& answer) {
  const std::byte* payload = answer.payloads.data();
  const auto block_bytes = static_cast<size_t>(geometry_.block_bytes);
  const bool adopted =
      scheduler_.adopt_prefix(answer.salt, answer.tokens, answer.info,
                              [&](std::span<const BlockId> blocks, std::span<const BlockId> snapshot_blocks) {
                                for (const BlockId block : blocks) {
                                  memory_.write_block(block, payload + geometry_.block_prefix());
                                  payload += geometry_.block_payload();
                                }
                                payload += PrefixGeometry::kSnapshotPrefix;
                                for (const BlockId block : snapshot_blocks) {
                                  memory_.write_block(block, payload);
                                  payload += block_bytes;
                                }
                              });
  if (!adopted) return false;
  ChainKey key = chain_root(answer.salt);
  const auto tokens = std::span<const int32_t>(answer.tokens);
  const auto step = static_cast<size_t>(geometry_.tokens_per_block);
  for (size_t at = 0; at < tokens.size(); at += step) {
    key = chain_hash(key, tokens.subspan(at, step));
    kept_.insert(key);
  }
  return true;
}

void TieredPrefixes::published(uint64_t salt, std::span<const int32_t> tokens, std::span<const BlockId> blocks,
                               const SnapshotInfo& info, std::span<const BlockId> snapshot_blocks) {
  try {
    keep(salt, tokens, blocks, info, snapshot_blocks);
  } catch (const std::bad_alloc&) {
  }
}

// Copied here and now: at this moment nothing writes to the blocks, and a slow disk holds none of them.
void TieredPrefixes::keep(uint64_t salt, std::span<const int32_t> tokens, std::span<const BlockId> blocks,
                          const SnapshotInfo& info, std::span<const BlockId> snapshot_blocks) {
  if (const int64_t evictions = tier_->evictions(); evictions != evictions_ || kept_.size() > kMostKeptKeys) {
    evictions_ = evictions;
    kept_.clear();
  }
  PrefixCopy copy;
  std::vector<ChainKey> keys;
  const auto step = static_cast<size_t>(geometry_.tokens_per_block);
  ChainKey key = chain_root(salt);
  for (size_t i = 0; i < blocks.size(); ++i) {
    key = chain_hash(key, tokens.subspan(i * step, step));
    if (kept_.contains(key)) continue;
    keys.push_back(key);
    copy.blocks.push_back(static_cast<int64_t>(i));
  }
  const int64_t bytes =
      static_cast<int64_t>(keys.size()) * geometry_.block_payload() + geometry_.snapshot_payload(info.kind);
  if (!tier_->has_room(bytes)) return;
  copy.salt = salt;
  copy.tokens.assign(tokens.begin(), tokens.end());
  copy.info = info;
  copy.payloads.resize(static_cast<size_t>(bytes));
  std::byte* payload = copy.payloads.data();
  const auto block_bytes = static_cast<size_t>(geometry_.block_bytes);
  for (const int64_t number : copy.blocks) {
    memory_.read_block(blocks[static_cast<size_t>(number)], payload + geometry_.block_prefix());
    payload += geometry_.block_payload();
  }
  payload += PrefixGeometry::kSnapshotPrefix;
  for (const BlockId block : snapshot_blocks) {
    memory_.read_block(block, payload);
    payload += block_bytes;
  }
  tier_->keep(std::move(copy));
  kept_.insert(keys.begin(), keys.end());
}

}  // namespace deepinfer
