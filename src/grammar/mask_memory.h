// MaskMemory: masks by the grammar and the state of the parser that they follow from.  Most rows of an answer stand in
// a handful of states (inside a string, behind a comma), and so do those of the next request with the same schema.
// One for each GrammarCompiler; filled and asked by GrammarMatcher, from any thread.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace deepinfer {

class MaskMemory {
 public:
  // The least recently used masks go when all together take more than `bytes`.
  explicit MaskMemory(int64_t bytes) : most_bytes_(bytes) {}

  // Copies the mask of `key` into `mask`, which has its size.  False: it is not known.
  bool find(std::span<const int32_t> key, std::span<uint32_t> mask);
  void keep(std::span<const int32_t> key, std::span<const uint32_t> mask);

  struct Stats {
    int64_t hits = 0;
    int64_t misses = 0;
    int64_t masks = 0;
    int64_t bytes = 0;
  };
  Stats stats() const;

 private:
  // Where the grammar wants something certain almost all words of a mask are zero: the others are kept, with their
  // places.  Otherwise `places` is empty and there is every word.
  struct Words {
    std::vector<uint16_t> places;
    std::vector<uint32_t> words;
    explicit Words(std::span<const uint32_t> mask);
    void copy_to(std::span<uint32_t> mask) const;
  };
  struct Entry {
    std::string key;
    std::shared_ptr<const Words> mask;  // copied from without the lock
    int64_t bytes() const {
      return static_cast<int64_t>(key.size() + mask->words.size() * 4 + mask->places.size() * 2 + 320);
    }
  };

  const int64_t most_bytes_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> places_;
  Stats stats_;
};

}  // namespace deepinfer
