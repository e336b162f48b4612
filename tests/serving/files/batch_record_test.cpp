// Records of batches as they are kept, results files taken apart, and the check of inputs.
#include "serving/files/batch_record.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <atomic>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "apps/temporary_folder.h"
#include "serving/batch/result_line.h"
#include "serving/batch/result_split.h"
#include "serving/files/batch_check.h"

namespace deepinfer::serving {
namespace {

BatchRecord sample() {
  BatchRecord record;
  record.id = "batch_1";
  record.owner = "ann";
  record.endpoint = "/v1/completions";
  record.input_file_id = "file-1";
  record.enter(BatchStatus::kValidating, 100);
  record.enter(BatchStatus::kInProgress, 110);
  record.expires = 86500;
  record.total = 3;
  record.metadata = Json{{"a", "b"}};
  record.seed = UINT64_MAX;
  return record;
}

TEST(BatchRecord, IsKept) {
  BatchRecord record = sample();
  record.output_file_id = "file-2";
  const BatchRecord back = BatchRecord::parse(record.text()).value();
  EXPECT_EQ(back.text(), record.text());
  EXPECT_EQ(back.object(), record.object());
  EXPECT_EQ(back.seed, UINT64_MAX);
  EXPECT_EQ(back.output_file_id, "file-2");
  const std::string text = record.text();
  for (size_t cut = 0; cut < text.size(); ++cut) EXPECT_FALSE(BatchRecord::parse(text.substr(0, cut)).ok()) << cut;
  for (const char* wrong : {"{}", "[]", "{\"id\":1}"}) EXPECT_FALSE(BatchRecord::parse(wrong).ok());
}

TEST(BatchRecord, AsClientsSeeIt) {
  BatchRecord record = sample();
  record.output_file_id = "file-2";
  Json object = record.object();
  EXPECT_EQ(object["status"], "in_progress");
  EXPECT_TRUE(object["output_file_id"].is_null()) << "not before the end";
  EXPECT_EQ(object["created_at"], 100);
  EXPECT_EQ(object["expires_at"], 86500);
  EXPECT_TRUE(object["completed_at"].is_null());
  EXPECT_TRUE(object["errors"].is_null());
  EXPECT_FALSE(object.contains("owner"));
  EXPECT_FALSE(object.contains("seed"));
  record.enter(BatchStatus::kCompleted, 200);
  object = record.object();
  EXPECT_EQ(object["output_file_id"], "file-2");
  EXPECT_EQ(object["completed_at"], 200);
}

std::string key_of(size_t i) {
  std::string key = std::to_string(i);
  return std::string(kKeyDigits - key.size(), '0') + key;
}

RC_GTEST_PROP(ResultSplit, EveryLineGoesWhereItBelongs, ()) {
  const auto ids = *rc::gen::container<std::vector<std::string>>(rc::gen::string<std::string>());
  const cli::TemporaryFolder folder;
  std::string all, answers, errors;
  ResultCounts counts;
  for (size_t i = 0; i < ids.size(); ++i) {
    const int kind = *rc::gen::inRange(0, 4);
    // Bodies and ids that look like other lines' ends.
    const std::string body = R"({"text":",\"response\":{\"status_code\":200,"})";
    const std::string line =
        kind == 0   ? error_line(key_of(i), {std::nullopt, "invalid_json", ids[i]})
        : kind == 1 ? error_line(key_of(i), {ids[i] + R"(","response":{"status_code":200,)", "batch_expired", ""})
                    : answered_line(key_of(i), ids[i] + R"(\",")", kind == 2 ? 200 : 400, body);
    all += line;
    (kind == 2 ? answers : errors) += line;
    ++(kind == 2 ? counts.answers : counts.errors);
  }
  std::ofstream(folder.path() / "results", std::ios::binary) << all;
  const auto split = split_results(folder.path() / "results", folder.path() / "a", folder.path() / "e");
  RC_ASSERT(split.ok());
  RC_ASSERT(split->answers == counts.answers && split->errors == counts.errors);
  RC_ASSERT(cli::read_file(folder.path() / "a") == answers);
  RC_ASSERT(cli::read_file(folder.path() / "e") == errors);
  const auto counted = count_results(folder.path() / "results");
  RC_ASSERT(counted.ok() && counted->answers == counts.answers && counted->errors == counts.errors);
}

TEST(ResultSplit, LinesLongerThanItReadsAtOnce) {
  const cli::TemporaryFolder folder;
  const std::string body = "\"" + std::string(3 << 20, 'x') + "\"", id((1 << 20) + 5, 'i');
  const std::string first = answered_line(key_of(1), id, 200, body), second = answered_line(key_of(2), id, 500, body);
  std::ofstream(folder.path() / "results", std::ios::binary) << first << second;
  ASSERT_TRUE(split_results(folder.path() / "results", folder.path() / "a", folder.path() / "e").ok());
  EXPECT_TRUE(cli::read_file(folder.path() / "a") == first);
  EXPECT_TRUE(cli::read_file(folder.path() / "e") == second);
}

std::string line(const std::string& id, const std::string& url = "/v1/completions") {
  return R"({"custom_id":")" + id + R"(","method":"POST","url":")" + url + "\",\"body\":{}}\n";
}

TEST(BatchCheck, NamesWhatIsWrong) {
  const cli::TemporaryFolder folder;
  const std::atomic<bool> interrupted{false};
  const auto check = [&](const std::string& text) {
    std::ofstream(folder.path() / "input", std::ios::binary | std::ios::trunc) << text;
    return check_batch(folder.path() / "input", "/v1/completions", interrupted).value();
  };
  EXPECT_EQ(check(line("a") + "\n" + line("b")).requests, 2);
  EXPECT_TRUE(check(line("a")).errors.empty());
  for (const auto& [text, code, number] :
       std::vector<std::tuple<std::string, std::string, Json>>{{"", "empty_file", nullptr},
                                                               {" \n\n", "empty_file", nullptr},
                                                               {line("a") + "{\n", "invalid_json", 2},
                                                               {line("a") + "\n" + line("a"), "duplicate_custom_id", 3},
                                                               {line("a", "/v1/messages"), "mismatched_url", 1},
                                                               {line("a", "/v1/embeddings"), "unknown_url", 1},
                                                               {"{\"custom_id\":1}", "invalid_line", 1}}) {
    const CheckedBatch checked = check(text);
    ASSERT_EQ(checked.errors.size(), 1u) << text;
    EXPECT_EQ(checked.errors[0]["code"], code);
    EXPECT_EQ(checked.errors[0]["line"], number);
  }
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "x\n";
  EXPECT_EQ(check(many).errors.size(), 100u);
  many.clear();
  for (int64_t i = 0; i <= kMostBatchRequests; ++i) many += line(std::to_string(i));
  EXPECT_EQ(check(many).errors[0]["code"], "too_many_requests");
}

}  // namespace
}  // namespace deepinfer::serving
