// The files of the page, as the build embeds them (embed_files.cmake).  Read by page_routes.cpp.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace deepinfer::serving {

struct PageFile {
  std::string_view name;    // within files/: "index.html"
  std::string_view sha256;  // of the bytes, in hex
  std::string_view bytes;
};

std::span<const PageFile> page_files();

}  // namespace deepinfer::serving
