// MaskTable: the token masks of a compiled grammar's states, made when they are asked for.  Included by the library's
// own header of compiled grammars (CMakeLists.txt, change 7); 0.2.2 makes all of them before a grammar is ready.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <unordered_map>

// Uses ParserState, StateHashForCache and AdaptiveTokenMask, which are defined where this file is included.
namespace xgrammar {

// States are added first, by one thread, then masks are made by any number of them.  What a mask is depends on its state
// only, so two threads that make the same one make it twice, and the first to finish has it kept.
class MaskTable {
 public:
  struct Made {
    AdaptiveTokenMask second;
  };
  using Make = std::function<AdaptiveTokenMask(const ParserState& state, bool is_root_rule)>;

  MaskTable() = default;
  MaskTable(const MaskTable&) = delete;
  MaskTable& operator=(const MaskTable&) = delete;
  ~MaskTable() {
    for (Entry& entry : entries_) delete entry.made.load();
  }

  void Add(const ParserState& state, bool is_root_rule) {
    if (!places_.try_emplace(state, entries_.size()).second) return;
    deepinfer_xgrammar_keep(sizeof(Entry) + 64);
    entries_.emplace_back(state, is_root_rule);
  }
  void Start(Make make) { make_ = std::move(make); }

  // As a map's: null where the state is none of the grammar's.
  const Made* find(const ParserState& state) const {
    const auto place = places_.find(state);
    return place == places_.end() ? nullptr : Get(entries_[place->second]);
  }
  const Made* end() const { return nullptr; }
  const Made* cbegin() const { return nullptr; }

  // Makes the next mask in the order of the rules; false once none is left.
  bool MakeNext() const {
    const std::size_t next = next_.fetch_add(1, std::memory_order_relaxed);
    if (next >= entries_.size()) {
      next_.store(entries_.size(), std::memory_order_relaxed);
      return false;
    }
    Get(entries_[next]);
    return true;
  }
  std::size_t Bytes() const {
    return bytes_.load(std::memory_order_relaxed) + entries_.size() * (sizeof(Entry) + 64);
  }

 private:
  struct Entry {
    Entry(const ParserState& state, bool is_root_rule) : state(state), is_root_rule(is_root_rule) {}
    ParserState state;
    bool is_root_rule;
    mutable std::atomic<const Made*> made{nullptr};
  };

  const Made* Get(const Entry& entry) const {
    if (const Made* made = entry.made.load(std::memory_order_acquire)) return made;
    auto* mine = new Made{make_(entry.state, entry.is_root_rule)};
    const Made* first = nullptr;
    if (!entry.made.compare_exchange_strong(first, mine, std::memory_order_acq_rel)) {
      delete mine;
      return first;
    }
    const std::size_t bytes = sizeof(Made) + MemorySize(mine->second);
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
    deepinfer_xgrammar_keep(bytes);
    return mine;
  }

  std::deque<Entry> entries_;
  std::unordered_map<ParserState, std::size_t, StateHashForCache> places_;
  Make make_;
  mutable std::atomic<std::size_t> next_{0};
  mutable std::atomic<std::size_t> bytes_{0};
};

}  // namespace xgrammar
