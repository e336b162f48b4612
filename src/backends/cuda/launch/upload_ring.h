// UploadRing: the way of host lists to recorded kernels.  The lists of a step are put one after the other into a pinned
// parcel, which goes to the device in one piece in front of the kernels (LaunchList::flush).  A list may change once it
// has been put here.
//
//   DI_RETURN_IF_ERROR(ring.begin(UploadRing::room<Entry>(count)));
//   const Entry* on_device = ring.put(entries, count);
//   DI_RETURN_IF_ERROR(ring.send());   // what was put is there for kernels that are launched from now on
//
// begin() may take the place of lists that were begun before: they are for the kernels launched in between.  The first
// list behind a flush always lies at the same place on the device, and a list that is somewhat longer takes the same
// room, so that steps that are alike have the same arguments; pinned parcels take turns.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>

#include "backends/cuda/launch/device_buffer.h"
#include "base/status.h"

struct CUstream_st;
struct CUevent_st;

namespace deepinfer::cuda {

class LaunchList;

class UploadRing {
 public:
  UploadRing() = default;
  UploadRing(const UploadRing&) = delete;
  UploadRing& operator=(const UploadRing&) = delete;
  ~UploadRing();

  // Once, before everything else.  The lists between begin() and send() may have up to parcel_bytes.
  Status prepare(int64_t parcel_bytes, LaunchList& launches);
  int64_t parcel_bytes() const { return parcel_bytes_; }

  // Bytes that `count` values take in a parcel.
  template <typename T>
  static int64_t room(int64_t count) {
    return (count * static_cast<int64_t>(sizeof(T)) + kAlignment - 1) / kAlignment * kAlignment;
  }

  // Lists of at most so many bytes.  Where they find no room, or are so many that the host is busy for long, what was
  // recorded before goes to the device first.
  Status begin(int64_t bytes);
  // Room for `count` values, to be written through *host before send().  Returns their place on the device.
  template <typename T>
  T* place(int64_t count, T** host) {
    std::byte* const on_host = pinned_ + part_ * parcel_bytes_ + at_;
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

 private:
  friend class LaunchList;
  static constexpr int64_t kAlignment = 16;
  static constexpr int64_t kLeastRoom = 512;  // of begin(); powers of two above
  static constexpr int64_t kManyBytes = int64_t{1} << 20;
  static constexpr int kParts = 4;  // pinned parcels

  void advance(int64_t bytes);
  // By flush(), as upload(), before it.  Where it is called by the thread that puts lists, it is called between two
  // operations: no kernel that is recorded from now on reads what was put before, and the next begin() may start anew.
  void restart();
  // Copies what has been sent and is not on the device yet.  By flush(), on any thread, with the mutex of the list.
  Status upload();

  int64_t parcel_bytes_ = 0;
  LaunchList* launches_ = nullptr;
  std::byte* pinned_ = nullptr;
  DeviceBuffer device_;                       // one parcel: a stream has its order
  std::array<CUevent_st*, kParts> copied_{};  // what was uploaded from a part
  int part_ = 0;
  int64_t at_ = 0, end_ = 0;       // next free byte of the parcel, and the limit that begin() was told
  int64_t next_ = 0;               // where the lists of the next begin() lie
  std::atomic<int64_t> sent_ = 0;  // bytes that may be uploaded
  int64_t uploaded_ = 0;
  bool restarts_ = false;
  std::thread::id owner_;  // who calls begin()
};

}  // namespace deepinfer::cuda
