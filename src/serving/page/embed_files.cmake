# cmake -DFOLDER=dir -DOUTPUT=file.cpp -DFILES="a;b" -P embed_files.cmake
#   Writes the files' bytes and their SHA-256 as C++: what page_files.h declares.
set(arrays "")
set(table "")
set(index 0)
foreach(file IN LISTS FILES)
  file(READ "${FOLDER}/${file}" hex HEX)
  file(SHA256 "${FOLDER}/${file}" hash)
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  string(APPEND arrays "const unsigned char kFile${index}[] = {\n${hex}};\n")
  string(APPEND table "    {\"${file}\", \"${hash}\", text(kFile${index})},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE "${OUTPUT}" "#include \"serving/page/page_files.h\"

namespace deepinfer::serving {
namespace {

${arrays}
template <size_t kBytes>
std::string_view text(const unsigned char (&bytes)[kBytes]) {
  return {reinterpret_cast<const char*>(bytes), kBytes};
}

}  // namespace

std::span<const PageFile> page_files() {
  static const PageFile kFiles[] = {
${table}  };
  return kFiles;
}

}  // namespace deepinfer::serving
")
