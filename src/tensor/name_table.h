// NameTable: from a name to the position of its owner in some list, without a copy of the names.  Used by the
// checkpoint reader.  The hash has a per-process random seed, so that no file can be made whose names all collide.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/function_ref.h"

namespace deepinfer {

class NameTable {
 public:
  using NameOf = FunctionRef<std::string_view(uint32_t position)>;  // the name at a position that was inserted

  // Makes room for this many names; inserting more grows the table.
  explicit NameTable(size_t expected = 0);

  // Adds name at position.  If the name is there already, nothing changes and the position it has is returned.
  std::optional<uint32_t> insert(std::string_view name, uint32_t position, NameOf name_of);
  std::optional<uint32_t> find(std::string_view name, NameOf name_of) const;

 private:
  struct Place {
    uint32_t tag = 0;       // upper half of the hash
    uint32_t position = 0;  // plus one; 0 is free
  };

  void grow(NameOf name_of);

  std::vector<Place> places_;  // a power of two, or none; at most half full
  size_t used_ = 0;
};

}  // namespace deepinfer
