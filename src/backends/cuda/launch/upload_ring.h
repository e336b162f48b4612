// UploadRing: the way of small host lists to kernels: pinned memory and device memory of the same layout, used round
// and round.  A list may change once it has been put here.
//
//   DI_RETURN_IF_ERROR(ring.begin(UploadRing::room<Entry>(count)));
//   const Entry* on_device = ring.put(entries, count);
//   DI_RETURN_IF_ERROR(ring.send());   // what was put is there for kernels that are launched from now on
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backends/cuda/launch/device_buffer.h"
#include "backends/cuda/launch/stream.h"
#include "base/status.h"

struct CUevent_st;

namespace deepinfer::cuda {

class UploadRing {
 public:
  UploadRing() = default;
  UploadRing(const UploadRing&) = delete;
  UploadRing& operator=(const UploadRing&) = delete;
  ~UploadRing();

  // Once, before everything else.  A parcel may have up to parcel_bytes.
  Status prepare(int64_t parcel_bytes, Stream stream);
  int64_t parcel_bytes() const { return parcel_bytes_; }

  // Bytes that `count` values take in a parcel.
  template <typename T>
  static int64_t room(int64_t count) {
    return (count * static_cast<int64_t>(sizeof(T)) + kAlignment - 1) / kAlignment * kAlignment;
  }

  // A parcel of at most so many bytes.  Waits while the device still copies from the place.
  Status begin(int64_t bytes);
  // Room for `count` values, to be written through *host before send().  Returns their place on the device.
  template <typename T>
  T* place(int64_t count, T** host) {
    std::byte* const on_host = pinned_ + at_;
    std::byte* const on_device = device_.data() + at_;
    advance(room<T>(count));
    *host = reinterpret_cast<T*>(on_host);
    return reinterpret_cast<T*>(on_device);
  }
  template <typename T>
  const T* put(const T* from, int64_t count) {
    T* host = nullptr;
    T* device = place(count, &host);
    if (count > 0) std::memcpy(host, from, static_cast<size_t>(count) * sizeof(T));
    return device;
  }
  Status send();

  // Copies to device memory of the caller's, of at most a parcel.
  Status send_to(void* to, const void* from, int64_t bytes);

 private:
  static constexpr int64_t kAlignment = 16;
  static constexpr int kParts = 4;  // each as large as the largest parcel

  void advance(int64_t bytes);

  int64_t parcel_bytes_ = 0;
  Stream stream_ = nullptr;
  std::byte* pinned_ = nullptr;
  DeviceBuffer device_;
  std::array<CUevent_st*, kParts> copied_{};  // everything that was sent from a part
  std::array<bool, kParts> used_{};
  int part_ = 0;
  int64_t at_ = 0, begin_ = 0, end_ = 0;  // of both memories: the next free byte, the parcel's first and its limit
};

}  // namespace deepinfer::cuda
