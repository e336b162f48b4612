// The routes of the page: what a browser is told, and that the files need nothing from elsewhere.
#include "serving/page/page_routes.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <utility>

#include "serving/http/http_server.h"
#include "serving/http/raw_client.h"
#include "serving/page/page_files.h"

namespace deepinfer::serving {
namespace {

namespace fs = std::filesystem;
using testing::RawClient;
using testing::RawResponse;

constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; frame-ancestors 'none'; form-action 'none'";

class PageRoutes : public ::testing::Test {
 protected:
  void SetUp() override {
    HttpServerOptions options;
    options.listeners.push_back({});
    auto server = HttpServer::open(std::move(options), [](const std::shared_ptr<HttpExchange>& exchange) {
      if (answer_page(*exchange)) return;
      HttpResponse other;
      other.status = 418;
      exchange->respond(other);
    });
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = std::move(*server);
  }

  RawResponse ask(const std::string& method, const std::string& path, const std::string& header = "") {
    RawClient client = RawClient::to_port(server_->ports()[0]);
    client.send(method + " " + path + " HTTP/1.1\r\nHost: h\r\n" + header + "\r\n");
    return client.read_response(method == "HEAD");
  }

  std::unique_ptr<HttpServer> server_;
};

TEST_F(PageRoutes, ServesThePageAtTheRootUnderAStrictPolicy) {
  const RawResponse page = ask("GET", "/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
  EXPECT_EQ(page.headers.at("content-security-policy"), kPolicy);
  EXPECT_EQ(page.headers.at("x-content-type-options"), "nosniff");
  EXPECT_EQ(page.headers.at("referrer-policy"), "no-referrer");
  EXPECT_EQ(page.headers.at("cache-control"), "no-cache");
  EXPECT_TRUE(page.body.starts_with("<!doctype html>"));
  EXPECT_EQ(ask("GET", "/?from=bookmark").body, page.body);
}

TEST_F(PageRoutes, ServesEveryFileOfTheFolderWithItsType) {
  std::set<std::string> embedded;
  for (const PageFile& file : page_files()) embedded.emplace(file.name);
  std::set<std::string> in_folder;
  for (const auto& entry : fs::directory_iterator(DEEPINFER_PAGE_FILES)) in_folder.insert(entry.path().filename());
  EXPECT_EQ(embedded, in_folder);

  const std::map<std::string, std::string> types = {{".html", "text/html; charset=utf-8"},
                                                    {".css", "text/css; charset=utf-8"},
                                                    {".js", "text/javascript; charset=utf-8"},
                                                    {".svg", "image/svg+xml"}};
  for (const std::string& name : in_folder) {
    const RawResponse answer = ask("GET", "/page/" + name);
    EXPECT_EQ(answer.status, 200) << name;
    EXPECT_EQ(answer.headers.at("content-type"), types.at(fs::path(name).extension())) << name;
    EXPECT_EQ(answer.headers.at("content-security-policy"), kPolicy) << name;
    std::ifstream in(fs::path(DEEPINFER_PAGE_FILES) / name, std::ios::binary);
    EXPECT_EQ(answer.body, std::string(std::istreambuf_iterator<char>(in), {})) << name;
  }
}

TEST_F(PageRoutes, AnswersHeadWithoutABody) {
  const RawResponse whole = ask("GET", "/page/main.js");
  const RawResponse head = ask("HEAD", "/page/main.js");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), std::to_string(whole.body.size()));
  EXPECT_EQ(head.headers.at("etag"), whole.headers.at("etag"));
  EXPECT_TRUE(head.body.empty());
}

TEST_F(PageRoutes, SaysNotModifiedToWhoeverHasTheFile) {
  const std::string tag = ask("GET", "/page/main.js").headers.at("etag");
  EXPECT_EQ(tag.size(), 34U);
  for (const std::string& list :
       {tag, "W/" + tag, "\"other\", " + tag, "\"other\" ,\t" + tag + " ", std::string("*")}) {
    const RawResponse answer = ask("GET", "/page/main.js", "If-None-Match: " + list + "\r\n");
    EXPECT_EQ(answer.status, 304) << list;
    EXPECT_TRUE(answer.body.empty()) << list;
    EXPECT_EQ(answer.headers.at("etag"), tag);
  }
  const std::string other = ask("GET", "/page/dom.js").headers.at("etag");
  EXPECT_NE(other, tag);
  for (const std::string& list : {other, std::string("\"\""), tag.substr(1), std::string(",, ,"), "x" + tag}) {
    const RawResponse answer = ask("GET", "/page/main.js", "If-None-Match: " + list + "\r\n");
    EXPECT_EQ(answer.status, 200) << list;
    EXPECT_FALSE(answer.body.empty()) << list;
  }
}

TEST_F(PageRoutes, RefusesOtherFilesAndMethods) {
  for (const char* path : {"/page/none.js", "/page/sub/main.js", "/page/MAIN.JS", "/page/main.js.map"})
    EXPECT_EQ(ask("GET", path).status, 404) << path;
  EXPECT_EQ(ask("GET", "/page/none.js").headers.at("content-security-policy"), kPolicy);
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS"}) {
    const RawResponse answer = ask(method, "/", "Content-Length: 0\r\n");
    EXPECT_EQ(answer.status, 405) << method;
    EXPECT_EQ(answer.headers.at("allow"), "GET, HEAD");
  }
}

TEST_F(PageRoutes, LeavesOtherPathsToOthers) {
  for (const char* path : {"/v1/models", "/pages", "/page.html", "/index.html", "/metrics", "/pag"}) {
    EXPECT_FALSE(is_page_path(path)) << path;
    EXPECT_EQ(ask("GET", path).status, 418) << path;
  }
  EXPECT_TRUE(is_page_path("/"));
  EXPECT_TRUE(is_page_path("/page/main.js"));
}

// The name of SVG is a name, not an address; nobody fetches it.
TEST(PageFiles, NameNothingOutsideTheServer) {
  static const std::regex kAddress(R"((https?:)?//[A-Za-z0-9\[])");
  for (const PageFile& file : page_files()) {
    std::string text(file.bytes);
    if (const size_t name = text.find("http://www.w3.org/2000/svg"); name != std::string::npos) text.erase(name, 26);
    std::smatch match;
    EXPECT_FALSE(std::regex_search(text, match, kAddress)) << file.name << ": " << match.str();
  }
}

// Model output meets only textContent and append(): nothing in the page turns text into elements or code.
TEST(PageFiles, NeverParseHtmlOrCode) {
  for (const PageFile& file : page_files()) {
    if (!file.name.ends_with(".js")) continue;
    for (const char* word : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "eval(",
                             "new Function", "createContextualFragment", "setHTML", "srcdoc"})
      EXPECT_EQ(file.bytes.find(word), std::string_view::npos) << file.name << " has " << word;
  }
  for (const PageFile& file : page_files())
    if (file.name == "index.html") {
      static const std::regex kInline(R"(<script(?![^>]* src=)|<style| style=| on[a-z]+=)");
      EXPECT_FALSE(std::regex_search(file.bytes.begin(), file.bytes.end(), kInline));
    }
}

TEST(PageFiles, ImportOnlyEachOther) {
  std::set<std::string> names;
  for (const PageFile& file : page_files()) names.emplace(file.name);
  static const std::regex kImport(R"re((from '\./|"page/)([^'"]*))re");
  std::set<std::string> used = {"index.html"};
  for (const PageFile& file : page_files()) {
    const std::string text(file.bytes);
    for (std::sregex_iterator it(text.begin(), text.end(), kImport); it != std::sregex_iterator(); ++it) {
      EXPECT_TRUE(names.contains((*it)[2])) << file.name << " wants " << (*it)[2];
      used.insert((*it)[2]);
    }
  }
  EXPECT_EQ(used, names);
}

}  // namespace
}  // namespace deepinfer::serving
