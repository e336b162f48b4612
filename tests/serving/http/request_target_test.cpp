#include "serving/http/request_target.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

namespace deepinfer::serving {
namespace {

std::string path_of(std::string_view target) {
  const auto read = parse_request_target(target);
  return read.ok() ? read->path : "refused";
}

TEST(RequestTarget, OnePathHasOneSpelling) {
  for (const char* spelling :
       {"/v1/models", "//v1/models", "/v1//models", "/v1/models/", "/./v1/models", "/v1/./models", "/v1/../v1/models",
        "/v1/x/../models", "/%76%31/models", "/v1%2Fmodels", "/v1%2fmodels", "/v1/%2e/models", "/v1/x/%2e%2E/models",
        "/v1/x/.%2e/models", "///v1/.//models//.", "http://host/v1/models", "HTTPS://host:80/v1//models"})
    EXPECT_EQ(path_of(spelling), "/v1/models") << spelling;
  for (const char* root : {"/", "//", "/.", "/x/..", "/%2f", "http://host", "http://host/", "http://host?a=b"})
    EXPECT_EQ(path_of(root), "/") << root;
}

TEST(RequestTarget, EscapesAreDecodedOnce) {
  EXPECT_EQ(path_of("/%2565"), "/%65");
  EXPECT_EQ(path_of("/%252e%252e/x"), "/%2e%2e/x");
  EXPECT_EQ(path_of("/a%20b+c"), "/a b+c");
  EXPECT_EQ(path_of("/%E2%82%AC"), "/\xE2\x82\xAC");
  EXPECT_EQ(path_of("/..."), "/...");
}

TEST(RequestTarget, QueryIsAsSent) {
  const auto read = parse_request_target("/v1/x?a=%20/../b?c");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->path, "/v1/x");
  EXPECT_EQ(read->query, "a=%20/../b?c");
}

TEST(RequestTarget, WhatHasTwoReadingsIsRefused) {
  for (const char* target : {"",
                             "*",
                             "v1/models",
                             "host:80",
                             "ftp://host/",
                             "http://",
                             "http:///v1",
                             "http://u@host/",
                             "/..",
                             "/v1/../../x",
                             "/%2e%2e",
                             "/x#y",
                             "/%",
                             "/%4",
                             "/%zz",
                             "/%00",
                             "/a%0d%0ab",
                             "/%7f",
                             "/\x80",
                             "/a b",
                             "/%80",
                             "/%c0%ae",
                             "/%ed%a0%80",
                             "http://host:port/",
                             "http://[::1/"})
    EXPECT_EQ(path_of(target), "refused") << target;
}

TEST(RequestTarget, HostNames) {
  EXPECT_EQ(host_name("LocalHost:8000"), "localhost");
  EXPECT_EQ(host_name("localhost:"), "localhost");
  EXPECT_EQ(host_name("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(host_name("[::1]:80"), "[::1]");
  for (const char* bad : {"", ":80", "a b", "a/b", "u@h", "h:123456", "h:8a", "[]", "[::1", "[::1]x", "[g::1]", "a,b",
                          "h:80:80", "h\\x", "h%00"})
    EXPECT_FALSE(host_name(bad)) << bad;
}

// Any text: what is accepted is in its one form, and that form is read as itself.
TEST(RequestTarget, AcceptedPathsAreNormal) {
  EXPECT_TRUE(rc::check([] {
    const auto pieces = *rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
        "/", "/", "..", ".", "%2e", "%2F", "a", "v1", "%25", "%41", "?", "~", "%e2%82%ac"));
    std::string target = "/";
    for (const std::string& piece : pieces) target += piece;
    const auto read = parse_request_target(target);
    if (!read.ok()) return;
    const std::string& path = read->path;
    RC_ASSERT(path.front() == '/');
    RC_ASSERT(path == "/" || path.back() != '/');
    RC_ASSERT(path.find("//") == path.npos);
    RC_ASSERT((path + "/").find("/../") == path.npos);
    RC_ASSERT((path + "/").find("/./") == path.npos);
    std::string escaped;
    for (const unsigned char c : path) {
      char hex[4];
      std::snprintf(hex, sizeof hex, "%%%02X", c);
      escaped += hex;
    }
    RC_ASSERT(path_of("/" + escaped) == path);
  }));
}

}  // namespace
}  // namespace deepinfer::serving
