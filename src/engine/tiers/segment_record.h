// Records as they lie in segment files: a header of kRecordHeaderBytes, then the payload, then zeros up to a multiple
// of kRecordAlignment.  Header and payload have an XXH3 checksum each; that of the header starts from the identity of
// the store (tier_identity.h), so a record that got into another store's folder is none there.  Little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "engine/tiers/kv_store.h"

namespace deepinfer {

inline constexpr size_t kRecordHeaderBytes = 72;
inline constexpr uint64_t kRecordAlignment = 8;
inline constexpr uint64_t kRecordMagic = 0x31564B5245464944;  // "DIFERKV1"
inline constexpr uint32_t kRecordVersion = 1;

struct RecordHeader {
  KvKey key;
  KvNote note{};
  uint64_t payload_bytes = 0;
  uint64_t payload_checksum = 0;
};

uint64_t record_checksum(std::span<const std::byte> payload);
// Bytes from one record to the next.
uint64_t record_stride(uint64_t payload_bytes);

void encode(const RecordHeader& header, uint64_t identity, std::span<std::byte, kRecordHeaderBytes> out);
// Nothing unless every field and the checksum are right.
std::optional<RecordHeader> decode_record_header(std::span<const std::byte, kRecordHeaderBytes> bytes,
                                                 uint64_t identity);

}  // namespace deepinfer
