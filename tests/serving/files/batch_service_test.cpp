// Batches on an engine whose answers are written down: their lives, ends, interruptions and owners.
#include "serving/files/batch_service.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/temporary_folder.h"
#include "serving/api/api_test_server.h"

namespace deepinfer::serving {
namespace {

namespace fs = std::filesystem;

std::string line(const std::string& id, const std::string& text, const std::string& model = "tiny") {
  return Json{{"custom_id", id},
              {"method", "POST"},
              {"url", "/v1/completions"},
              {"body", {{"model", model}, {"prompt", text}}}}
             .dump() +
         "\n";
}

std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> list;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one);) list.push_back(Json::parse(one));
  return list;
}

// A store, an engine and a service on them, which can be ended and opened again.
class BatchServiceTest : public testing::Test {
 protected:
  void TearDown() override { close(); }

  void open(ScriptedEngine::Script script, int64_t most_submitted = 4) {
    close();
    store_ = FileStore::open(folder_.path() / "store", {}).value();
    engine_ = std::make_unique<ScriptedEngine>(test_tokenizer(), std::move(script));
    BatchServiceOptions options;
    options.requests.tokenizer = &test_tokenizer();
    options.requests.engine = engine_.get();
    options.requests.end_tokens = {test_tokenizer().added_id("<｜end▁of▁sentence｜>").value()};
    options.requests.protocol.models = {"tiny"};
    options.most_submitted = most_submitted;
    options.owner = [](const std::string& name) {
      BatchOwner owner;
      owner.tenant = name.size();
      return name == "gone" ? std::nullopt : std::optional(owner);
    };
    options.clock = [this] { return now_.load(); };
    service_ = BatchService::open(*engine_, *store_, std::move(options)).value();
  }
  void open_answering() {
    open([](const EngineRequest&) { return answer(); });
  }
  // The first requests are answered, the others wait.
  void open_answering(int count) {
    open([left = std::make_shared<std::atomic<int>>(count)](const EngineRequest&) {
      ScriptedAnswer one = answer();
      one.holds = (*left)-- <= 0;
      return one;
    });
  }
  void close() {
    service_.reset();
    engine_.reset();
    store_.reset();
  }

  static ScriptedAnswer answer() { return scripted_text(test_tokenizer(), "ok<｜end▁of▁sentence｜>"); }

  std::string upload(const std::string& text, const std::string& owner = "ann") {
    const std::string id = "file-" + std::to_string(++files_);
    EXPECT_TRUE(store_->add({id, owner, "in.jsonl", "batch", 0, 1}, text).ok());
    return id;
  }
  std::string create(const std::string& file, const std::string& owner = "ann") {
    const auto made = service_->create(owner, {file, "/v1/completions", nullptr});
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made->id;
  }
  BatchRecord wait_for(const std::string& id, BatchStatus status, const std::string& owner = "ann") {
    return wait_until(
        id, [&](const BatchRecord& record) { return record.status == status; }, owner);
  }
  template <typename Done>
  BatchRecord wait_until(const std::string& id, Done done, const std::string& owner = "ann") {
    for (int i = 0;; ++i) {
      const BatchRecord record = service_->find(owner, id).value();
      if (done(record)) return record;
      if (i >= 3000) {
        ADD_FAILURE() << record.text();
        return record;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  std::vector<Json> lines_of(const std::string& file, const std::string& owner = "ann") {
    if (!store_->find(owner, file)) return {};
    return json_lines(cli::read_file(store_->content(file)));
  }

  cli::TemporaryFolder folder_;
  std::atomic<int64_t> now_{1000};
  int files_ = 0;
  std::unique_ptr<FileStore> store_;
  std::unique_ptr<ScriptedEngine> engine_;
  std::unique_ptr<BatchService> service_;
};

TEST_F(BatchServiceTest, Completed) {
  open_answering();
  const std::string id =
      create(upload(line("a", "1") + "\n" + line("bad", "2", "other") + line("b", "3") + line("c", "4")));
  const BatchRecord record = wait_for(id, BatchStatus::kCompleted);
  EXPECT_EQ(record.total, 4);
  EXPECT_EQ(record.completed, 3);
  EXPECT_EQ(record.failed, 1);
  for (const BatchStatus passed : {BatchStatus::kValidating, BatchStatus::kInProgress, BatchStatus::kFinalizing})
    EXPECT_EQ(record.time(passed), 1000) << to_string(passed);
  const auto output = lines_of(record.output_file_id), errors = lines_of(record.error_file_id);
  ASSERT_EQ(output.size(), 3u);
  EXPECT_EQ(output[0]["custom_id"], "a");
  EXPECT_EQ(output[2]["custom_id"], "c");
  EXPECT_EQ(output[1]["response"]["body"]["choices"][0]["text"], "ok");
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0]["response"]["status_code"], 400);
  EXPECT_EQ(store_->find("ann", record.output_file_id)->purpose, "batch_output");
  for (const EngineRequest& request : engine_->seen()) {
    EXPECT_EQ(request.priority, kBatchPriority);
    EXPECT_EQ(request.cache_salt, 3u);
  }
  EXPECT_EQ(service_->unfinished(), 0);
}

TEST_F(BatchServiceTest, NoErrorFileWithoutErrors) {
  open_answering();
  const BatchRecord record = wait_for(create(upload(line("a", "1"))), BatchStatus::kCompleted);
  EXPECT_EQ(record.error_file_id, "");
  EXPECT_TRUE(record.object()["error_file_id"].is_null());
}

TEST_F(BatchServiceTest, FailedByItsInput) {
  open_answering();
  const BatchRecord record = wait_for(create(upload(line("a", "1") + "{")), BatchStatus::kFailed);
  ASSERT_EQ(record.errors.size(), 1u);
  EXPECT_EQ(record.errors[0]["code"], "invalid_json");
  EXPECT_EQ(record.errors[0]["line"], 2);
  EXPECT_TRUE(engine_->seen().empty());
  EXPECT_FALSE(service_->create("ann", {"file-99", "/v1/completions", nullptr}).ok());
}

TEST_F(BatchServiceTest, Cancelled) {
  open_answering(2);
  const std::string file = upload(line("a", "1") + line("b", "2") + line("c", "3") + line("d", "4") + line("e", "5"));
  const std::string id = create(file);
  wait_until(id, [](const BatchRecord& record) { return record.completed == 2; });
  EXPECT_EQ(service_->user_of(file), id);
  EXPECT_EQ(service_->cancel("ann", id)->status, BatchStatus::kCancelling);
  const BatchRecord record = wait_for(id, BatchStatus::kCancelled);
  EXPECT_EQ(record.completed, 2);
  EXPECT_TRUE(record.time(BatchStatus::kCancelling));
  EXPECT_EQ(lines_of(record.output_file_id).size(), 2u);
  EXPECT_EQ(record.error_file_id, "");
  EXPECT_EQ(service_->cancel("ann", id).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(service_->cancel("ann", "batch_x").status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(service_->user_of(file));
}

TEST_F(BatchServiceTest, ExpiredRequestsSaySo) {
  open_answering(1);
  const std::string id = create(upload(line("a", "1") + line("b", "2") + line("c", "3")));
  wait_until(id, [](const BatchRecord& record) { return record.completed == 1; });
  now_ = 1000 + 86400;
  const BatchRecord record = wait_for(id, BatchStatus::kExpired);
  EXPECT_EQ(record.completed, 1);
  EXPECT_EQ(record.failed, 2);
  const auto errors = lines_of(record.error_file_id);
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0]["custom_id"], "b");
  EXPECT_EQ(errors[1]["error"]["code"], "batch_expired");
}

TEST_F(BatchServiceTest, AnotherServiceGoesOn) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += line("id" + std::to_string(i), std::to_string(i));
  open_answering(7);
  const std::string id = create(upload(text));
  wait_until(id, [](const BatchRecord& record) { return record.completed == 7; });
  close();
  // As after a loss of power: half a line, and a file that nobody knows.
  const fs::path batches = folder_.path() / "store" / "batches";
  std::string results = cli::read_file(batches / (id + ".results"));
  std::ofstream(batches / (id + ".results"), std::ios::binary) << results.substr(0, results.size() - 10);
  std::ofstream(batches / (id + ".answers")) << "half";
  open_answering();
  const BatchRecord record = wait_for(id, BatchStatus::kCompleted);
  EXPECT_EQ(record.completed, 20);
  EXPECT_EQ(engine_->seen().size(), 14u) << "the six that were whole are not run again";
  const auto output = lines_of(record.output_file_id);
  ASSERT_EQ(output.size(), 20u);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(output[static_cast<size_t>(i)]["custom_id"], "id" + std::to_string(i));
  close();
  EXPECT_EQ(std::distance(fs::directory_iterator(batches), fs::directory_iterator()), 1);
  // Ended batches and their files stay.
  open_answering();
  EXPECT_EQ(service_->find("ann", id)->object(), record.object());
  EXPECT_EQ(lines_of(record.output_file_id).size(), 20u);
}

// Killed at each moment between the last result and the end: the files are the same.
TEST_F(BatchServiceTest, FilesAreMadeAgain) {
  open_answering();
  const std::string id = create(upload(line("a", "1") + line("bad", "2", "other")));
  BatchRecord record = wait_for(id, BatchStatus::kCompleted);
  const std::string output = cli::read_file(store_->content(record.output_file_id));
  const std::string errors = cli::read_file(store_->content(record.error_file_id));
  close();
  const fs::path batches = folder_.path() / "store" / "batches", files = folder_.path() / "store" / "files";
  for (const bool made : {true, false}) {
    if (!made)
      for (const std::string& file : {record.output_file_id, record.error_file_id})
        fs::remove(files / (file + ".json"));
    std::ofstream(batches / (id + ".results"), std::ios::binary) << output << errors;
    record.status = BatchStatus::kFinalizing;
    std::ofstream(batches / (id + ".json"), std::ios::binary) << record.text();
    open_answering();
    const BatchRecord again = wait_for(id, BatchStatus::kCompleted);
    EXPECT_EQ(again.output_file_id, record.output_file_id);
    EXPECT_EQ(cli::read_file(store_->content(record.output_file_id)), output);
    EXPECT_EQ(cli::read_file(store_->content(record.error_file_id)), errors);
    EXPECT_EQ(again.completed, 1);
    EXPECT_EQ(again.failed, 1);
    close();
  }
}

TEST_F(BatchServiceTest, OwnersSeeTheirOwn) {
  open_answering();
  const std::string file = upload(line("a", "1"));
  const std::string id = create(file);
  EXPECT_FALSE(service_->find("bob", id));
  EXPECT_TRUE(service_->list("bob").empty());
  EXPECT_EQ(service_->cancel("bob", id).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(service_->create("bob", {file, "/v1/completions", nullptr}).ok());
  const BatchRecord record = wait_for(id, BatchStatus::kCompleted);
  EXPECT_FALSE(store_->find("bob", record.output_file_id));
  // Of a key that is no more: it rests.
  const std::string resting = create(upload(line("a", "1"), "gone"), "gone");
  wait_for(create(upload(line("b", "1"))), BatchStatus::kCompleted);
  EXPECT_EQ(service_->find("gone", resting)->status, BatchStatus::kValidating);
}

TEST_F(BatchServiceTest, BatchesShareTheirPlaces) {
  std::string text;
  for (int i = 0; i < 30; ++i) text += line(std::to_string(i), "x");
  open_answering(0);  // all wait
  const std::string first = create(upload(text));
  while (engine_->seen().size() < 4) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  // A second one gets places of its own although the first has them all, and there are never many more.
  const std::string second = create(upload(text, "bob"), "bob");
  wait_for(second, BatchStatus::kInProgress, "bob");
  while (engine_->seen().size() < 6) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(engine_->seen().size(), 6u);
}

}  // namespace
}  // namespace deepinfer::serving
