#include "engine/tiers/segment_record.h"

#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace deepinfer {
namespace {

// As it lies in the file; no padding.
struct Layout {
  uint64_t magic;
  uint32_t version;
  uint32_t kind;
  uint64_t chain_low, chain_high;
  int64_t note[2];
  uint64_t payload_bytes;
  uint64_t payload_checksum;
  uint64_t header_checksum;  // of all before it
};
static_assert(sizeof(Layout) == kRecordHeaderBytes && offsetof(Layout, header_checksum) == 64);

uint64_t header_checksum(const Layout& layout, uint64_t identity) {
  return XXH3_64bits_withSeed(&layout, offsetof(Layout, header_checksum), identity);
}

}  // namespace

uint64_t record_checksum(std::span<const std::byte> payload) {
  return XXH3_64bits(payload.data(), payload.size());
}

uint64_t record_stride(uint64_t payload_bytes) {
  return (kRecordHeaderBytes + payload_bytes + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
}

void encode(const RecordHeader& header, uint64_t identity, std::span<std::byte, kRecordHeaderBytes> out) {
  Layout layout{};
  layout.magic = kRecordMagic;
  layout.version = kRecordVersion;
  layout.kind = static_cast<uint32_t>(header.key.kind);
  layout.chain_low = header.key.chain.low;
  layout.chain_high = header.key.chain.high;
  layout.note[0] = header.note[0];
  layout.note[1] = header.note[1];
  layout.payload_bytes = header.payload_bytes;
  layout.payload_checksum = header.payload_checksum;
  layout.header_checksum = header_checksum(layout, identity);
  std::memcpy(out.data(), &layout, sizeof layout);
}

std::optional<RecordHeader> decode_record_header(std::span<const std::byte, kRecordHeaderBytes> bytes,
                                                 uint64_t identity) {
  Layout layout;
  std::memcpy(&layout, bytes.data(), sizeof layout);
  if (layout.magic != kRecordMagic || layout.version != kRecordVersion ||
      layout.header_checksum != header_checksum(layout, identity) || layout.kind < 1 || layout.kind > 3)
    return std::nullopt;
  RecordHeader header;
  header.key = {static_cast<KvKind>(layout.kind), {layout.chain_low, layout.chain_high}};
  header.note = {layout.note[0], layout.note[1]};
  header.payload_bytes = layout.payload_bytes;
  header.payload_checksum = layout.payload_checksum;
  return header;
}

}  // namespace deepinfer
