#include "engine/tiers/prefix_records.h"

#include <array>
#include <cstring>

namespace deepinfer {
namespace {

using SnapshotPrefix = std::array<std::byte, static_cast<size_t>(PrefixGeometry::kSnapshotPrefix)>;

SnapshotPrefix snapshot_prefix(const Sha256::Digest& lineage, const SnapshotInfo& info) {
  SnapshotPrefix prefix;
  const std::array<int64_t, 3> numbers{info.position, info.exact_from, info.draft_context_from};
  static_assert(sizeof numbers + sizeof lineage == sizeof prefix);
  std::memcpy(prefix.data(), lineage.data(), lineage.size());
  std::memcpy(prefix.data() + lineage.size(), numbers.data(), sizeof numbers);
  return prefix;
}

}  // namespace

PrefixChain::PrefixChain(uint64_t salt, int64_t tokens_per_block) : key_(chain_root(salt)) {
  Sha256 root;
  const std::array<uint64_t, 2> numbers{salt, static_cast<uint64_t>(tokens_per_block)};
  root.update(std::as_bytes(std::span(numbers)));
  lineage_ = root.finish();
}

void PrefixChain::next(std::span<const int32_t> tokens) {
  key_ = chain_hash(key_, tokens);
  Sha256 sha;
  sha.update(std::as_bytes(std::span(lineage_)));
  sha.update(std::as_bytes(tokens));
  lineage_ = sha.finish();
}

KvKey block_key(ChainKey chain) {
  return {KvKind::kBlock, chain};
}

KvKey snapshot_key(ChainKey chain, SnapshotKind kind) {
  return {kind == SnapshotKind::kFull ? KvKind::kFullSnapshot : KvKind::kEarlySnapshot, chain};
}

KvNote snapshot_note(const SnapshotInfo& info) {
  return {info.exact_from, info.draft_context_from};
}

SnapshotInfo snapshot_info(SnapshotKind kind, int64_t position, const KvNote& note) {
  return {kind, position, note[0], note[1]};
}

void write_block_prefix(const Sha256::Digest& lineage, std::span<const int32_t> tokens, std::span<std::byte> payload) {
  std::memcpy(payload.data(), lineage.data(), lineage.size());
  std::memcpy(payload.data() + lineage.size(), tokens.data(), tokens.size_bytes());
}

void write_snapshot_prefix(const Sha256::Digest& lineage, const SnapshotInfo& info, std::span<std::byte> payload) {
  const SnapshotPrefix prefix = snapshot_prefix(lineage, info);
  std::memcpy(payload.data(), prefix.data(), prefix.size());
}

bool is_block(const Sha256::Digest& lineage, std::span<const int32_t> tokens, std::span<const std::byte> payload) {
  return payload.size() >= lineage.size() + tokens.size_bytes() &&
         std::memcmp(payload.data(), lineage.data(), lineage.size()) == 0 &&
         std::memcmp(payload.data() + lineage.size(), tokens.data(), tokens.size_bytes()) == 0;
}

bool is_snapshot(const Sha256::Digest& lineage, const SnapshotInfo& info, std::span<const std::byte> payload) {
  const SnapshotPrefix prefix = snapshot_prefix(lineage, info);
  return payload.size() >= prefix.size() && std::memcmp(payload.data(), prefix.data(), prefix.size()) == 0;
}

}  // namespace deepinfer
