#include "serving/config/config_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace deepinfer::serving {
namespace {

std::string flat(std::string_view text) {
  const auto entries = parse_config(text, "f.toml");
  if (!entries.ok()) return entries.status().message();
  std::string all;
  for (const ConfigEntry& entry : *entries) {
    all += std::to_string(entry.line) + " " + entry.option + " =";
    for (const std::string& value : entry.values) all += " " + value;
    all += "; ";
  }
  return all;
}

TEST(ConfigFile, NamesAndValuesAsOnTheCommandLine) {
  EXPECT_EQ(flat("# a comment\nport = 8000\nhost = \"::1\"\n\nmax_body_bytes = 1_000\ntemperature = 0.5\n"
                 "check = true\ncors-origin = [\"a\", \"b\"]\n[tls]\ncert = 'x y'\n[a.b]\nc = -1\n"),
            "2 port = 8000; 3 host = ::1; 5 max-body-bytes = 1000; 6 temperature = 0.5; 7 check = true; "
            "8 cors-origin = a b; 10 tls-cert = x y; 12 a-b-c = -1; ");
  EXPECT_EQ(flat(""), "");
  EXPECT_EQ(flat("a = []"), "1 a =; ");
  EXPECT_EQ(flat("a = 1e22"), "1 a = 1e+22; ");
}

TEST(ConfigFile, ErrorsNameTheLine) {
  for (const char* text : {"\na = nan", "\na = 1979-05-27", "\na = [[1]]", "\na = [{b = 1}]", "a-b = 1\na_b = 2",
                           "\na = ", "a = 1\na = 2", "\na = \"x", "\n[a", "\n= 1"})
    EXPECT_TRUE(flat(text).starts_with("f.toml:2: ")) << flat(text);
}

TEST(ConfigFile, Files) {
  const std::string path = ::testing::TempDir() + "deepinfer_config_" + std::to_string(::getpid());
  std::ofstream(path) << "a = 1\n";
  const auto entries = read_config_file(path);
  ASSERT_TRUE(entries.ok());
  EXPECT_EQ(entries->at(0).option, "a");
  ::unlink(path.c_str());
  EXPECT_EQ(read_config_file(path).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace deepinfer::serving
