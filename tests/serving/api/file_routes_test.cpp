// /v1/files and /v1/batches as clients see them.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "apps/temporary_folder.h"
#include "serving/api/api_test_server.h"

namespace deepinfer::serving {
namespace {

const std::string kLine =
    R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":{"model":"tiny","prompt":"x"}})";

class FileServer {
 public:
  explicit FileServer(bool with_keys = false)
      : server_([](const EngineRequest&) { return scripted_text(test_tokenizer(), "ok<｜end▁of▁sentence｜>"); },
                Profile::kExtended,
                with_keys ? ApiKeys::parse("ann\nbob tokens-per-minute=100\n", "keys").value() : nullptr, 4096,
                [this](ApiOptions& options, Engine& engine) {
                  options.files = FileStore::open(folder_.path(), {.bytes = 100'000, .files = 5}).value();
                  BatchServiceOptions batches;
                  batches.requests = options.requests;
                  batches.owner = batch_owners(options.keys.get());
                  batches.clock = [] { return int64_t{1000}; };
                  options.batches = BatchService::open(engine, *options.files, std::move(batches)).value();
                }) {}

  std::shared_ptr<RecordedExchange> send(HttpRequest request, const std::string& key = {}) {
    if (!key.empty()) request.headers.emplace_back("x-api-key", key);
    return server_.send(std::move(request));
  }
  std::shared_ptr<RecordedExchange> upload(const std::string& content, const std::string& key = {},
                                           const std::string& purpose = "batch", const std::string& more = {}) {
    HttpRequest request =
        post("/v1/files", "--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n" + purpose + "\r\n" + more +
                              "--B\r\nContent-Disposition: form-data; name=\"file\"; "
                              "filename=\"in.jsonl\"\r\n\r\n" +
                              content + "\r\n--B--\r\n");
    std::erase_if(request.headers, [](const auto& header) { return header.first == "content-type"; });
    request.headers.emplace_back("content-type", "multipart/form-data; boundary=B");
    return send(std::move(request), key);
  }
  std::string batch(const std::string& file, const std::string& more = {}) {
    return R"({"input_file_id":")" + file + R"(","endpoint":"/v1/completions","completion_window":"24h")" + more + "}";
  }
  Json wait(const std::string& id, const std::string& status, const std::string& key = {}) {
    for (int i = 0; i < 3000; ++i) {
      const Json object = send(get("/v1/batches/" + id), key)->json();
      if (object["status"] == status) return object;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << send(get("/v1/batches/" + id), key)->body();
    return {};
  }
  ApiTestServer& server() { return server_; }

 private:
  cli::TemporaryFolder folder_;
  ApiTestServer server_;
};

HttpRequest removal(const std::string& path) {
  HttpRequest request = get(path);
  request.method = "DELETE";
  return request;
}

HttpRequest with_query(HttpRequest request, const std::string& query) {
  request.query = query;
  return request;
}

TEST(Files, UploadListReadDelete) {
  FileServer server;
  const auto uploaded = server.upload("content\n");
  ASSERT_EQ(uploaded->status(), 200) << uploaded->body();
  const Json file = uploaded->json();
  EXPECT_EQ(file["object"], "file");
  EXPECT_EQ(file["bytes"], 8);
  EXPECT_EQ(file["filename"], "in.jsonl");
  EXPECT_EQ(file["purpose"], "batch");
  EXPECT_EQ(file["status"], "processed");
  const std::string id = file["id"], path = "/v1/files/" + id;
  EXPECT_EQ(server.send(get(path))->json(), file);
  EXPECT_EQ(server.send(get(path + "/content"))->body(), "content\n");
  const std::string second = server.upload("")->json()["id"];
  EXPECT_EQ(server.send(get("/v1/files/" + second + "/content"))->body(), "");
  const Json list = server.send(get("/v1/files"))->json();
  EXPECT_EQ(list["data"].size(), 2u);
  EXPECT_EQ(list["has_more"], false);
  const Json page = server.send(with_query(get("/v1/files"), "limit=1&order=asc&purpose=batch"))->json();
  EXPECT_EQ(page["data"].size(), 1u);
  EXPECT_EQ(page["has_more"], true);
  const Json next =
      server.send(with_query(get("/v1/files"), "order=asc&after=" + page["last_id"].get<std::string>()))->json();
  EXPECT_EQ(next["data"].size(), 1u);
  EXPECT_NE(next["data"][0]["id"], page["data"][0]["id"]);
  EXPECT_TRUE(server.send(with_query(get("/v1/files"), "purpose=other"))->json()["data"].empty());
  for (const char* query : {"limit=0", "limit=x", "limit=10001", "order=up", "after=nothing", "a=%4", "a=1&a=2"})
    EXPECT_EQ(server.send(with_query(get("/v1/files"), query))->status(), 400) << query;
  EXPECT_EQ(server.send(removal(path))->json()["deleted"], true);
  for (const HttpRequest& gone : {get(path), get(path + "/content"), removal(path)})
    EXPECT_EQ(server.send(gone)->status(), 404);
}

TEST(Files, Ranges) {
  FileServer server;
  const std::string path = "/v1/files/" + server.upload("0123456789")->json()["id"].get<std::string>() + "/content";
  const auto part = [&](const std::string& range) {
    HttpRequest request = get(path);
    request.headers.emplace_back("range", range);
    return server.send(request);
  };
  EXPECT_EQ(part("bytes=2-4")->status(), 206);
  EXPECT_EQ(part("bytes=2-4")->body(), "234");
  EXPECT_EQ(part("bytes=2-4")->header("content-range"), "bytes 2-4/10");
  EXPECT_EQ(part("bytes=8-")->body(), "89");
  EXPECT_EQ(part("bytes=8-99999")->body(), "89");
  for (const char* none :
       {"bytes=10-", "bytes=4-2", "bytes=-3", "bytes=1-2,4-5", "lines=1-2", "bytes=99999999999999999999-"})
    EXPECT_EQ(part(none)->body(), "0123456789") << none;
}

TEST(Files, RefusedUploads) {
  FileServer server;
  EXPECT_EQ(server.upload("x", "", "fine-tune")->status(), 400);
  HttpRequest plain = post("/v1/files", "{}");
  plain.headers.emplace_back("content-type", "application/json");
  EXPECT_EQ(server.send(plain)->status(), 415);
  EXPECT_EQ(server.send(post("/v1/files", ""))->status(), 415);
  HttpRequest torn = post("/v1/files", "--B\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx");
  torn.headers.emplace_back("content-type", "multipart/form-data; boundary=B");
  EXPECT_EQ(server.send(torn)->status(), 400);
  EXPECT_EQ(server.upload(std::string(100'001, 'x'))->status(), 400);
  const auto more = server.upload("x", "", "batch",
                                  "--B\r\nContent-Disposition: form-data; name=\"expires_after[anchor]\"\r\n\r\nx\r\n");
  EXPECT_EQ(more->header("deepinfer-ignored"), "expires_after_anchor_");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(server.upload("x")->status(), 200);
  EXPECT_EQ(server.upload("x")->status(), 400) << "as many as there may be";
}

TEST(Batches, FromUploadToOutput) {
  FileServer server;
  const std::string file = server.upload(kLine + "\n")->json()["id"];
  const auto made =
      server.send(post("/v1/batches", server.batch(file, R"(,"metadata":{"a":"b"},"output_expires_after":{})")));
  ASSERT_EQ(made->status(), 200) << made->body();
  EXPECT_EQ(made->json()["object"], "batch");
  EXPECT_EQ(made->json()["metadata"]["a"], "b");
  EXPECT_EQ(made->json()["expires_at"], 1000 + 86400);
  EXPECT_EQ(made->header("deepinfer-ignored"), "output_expires_after");
  const std::string id = made->json()["id"];
  const Json done = server.wait(id, "completed");
  EXPECT_EQ(done["request_counts"], (Json{{"total", 1}, {"completed", 1}, {"failed", 0}}));
  EXPECT_TRUE(done["error_file_id"].is_null());
  const std::string output =
      server.send(get("/v1/files/" + done["output_file_id"].get<std::string>() + "/content"))->body();
  EXPECT_EQ(Json::parse(output)["response"]["body"]["choices"][0]["text"], "ok");
  EXPECT_EQ(server.send(get("/v1/batches"))->json()["data"][0], done);
  EXPECT_EQ(server.send(post("/v1/batches/" + id + "/cancel", ""))->status(), 400);
}

TEST(Batches, Refused) {
  FileServer server;
  const std::string file = server.upload(kLine)->json()["id"];
  for (const std::string& body :
       {std::string("{"), std::string("[]"), std::string("{}"), server.batch("file-x"),
        R"({"input_file_id":")" + file + R"(","endpoint":"/v1/embeddings","completion_window":"24h"})",
        R"({"input_file_id":")" + file + R"(","endpoint":"/v1/completions","completion_window":"1h"})",
        R"({"input_file_id":")" + file + R"(","endpoint":"/v1/completions"})",
        server.batch(file, R"(,"metadata":{"a":1})"), server.batch(file, R"(,"metadata":[])")})
    EXPECT_EQ(server.send(post("/v1/batches", body))->status(), 400) << body;
  for (const HttpRequest& request : {get("/v1/batches/x"), post("/v1/batches/x/cancel", ""), get("/v1/batches/x/y"),
                                     post("/v1/files/x/y/content", ""), get("/v1/files/")})
    EXPECT_EQ(server.send(request)->status(), 404) << request.path;
  EXPECT_EQ(server.send(removal("/v1/batches"))->header("allow"), "POST, GET, HEAD");
  EXPECT_EQ(server.send(post("/v1/files/x", ""))->header("allow"), "GET, HEAD, DELETE");
}

TEST(Batches, KeysSeeTheirOwn) {
  FileServer server(true);
  const std::string file = server.upload(kLine, "ann")->json()["id"];
  EXPECT_EQ(server.send(get("/v1/files/" + file), "ann")->status(), 200);
  for (const HttpRequest& request :
       {get("/v1/files/" + file), get("/v1/files/" + file + "/content"), removal("/v1/files/" + file)})
    EXPECT_EQ(server.send(request, "bob")->status(), 404);
  EXPECT_TRUE(server.send(get("/v1/files"), "bob")->json()["data"].empty());
  EXPECT_EQ(server.send(post("/v1/batches", server.batch(file)), "bob")->status(), 400);
  EXPECT_EQ(server.upload(kLine)->status(), 401);
  const std::string id = server.send(post("/v1/batches", server.batch(file)), "ann")->json()["id"];
  EXPECT_EQ(server.send(get("/v1/batches/" + id), "bob")->status(), 404);
  EXPECT_EQ(server.send(post("/v1/batches/" + id + "/cancel", ""), "bob")->status(), 404);
  server.wait(id, "completed", "ann");
  EXPECT_EQ(server.send(removal("/v1/files/" + file), "ann")->status(), 200);
}

TEST(Batches, NoFilesNoPaths) {
  ApiTestServer server("ok");
  EXPECT_EQ(server.send(get("/v1/files"))->status(), 404);
  EXPECT_EQ(server.send(post("/v1/batches", "{}"))->status(), 404);
}

}  // namespace
}  // namespace deepinfer::serving
