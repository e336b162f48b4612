// The table of mapped ranges that the SIGBUS handler consults (see mapped_file.h).  Used by MappedFile only.
#pragma once

#include <cstddef>
#include <string_view>

namespace deepinfer {

// Installs the handler on the first call.  Returns the entry, or -1 when the table is full.
int guard_mapped_range(const void* begin, size_t bytes, std::string_view path);
// Called before the range is unmapped, so that whatever is mapped there next is not taken for this file.
void release_mapped_range(int entry);

}  // namespace deepinfer
