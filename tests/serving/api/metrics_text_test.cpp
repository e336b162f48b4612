// /metrics as a whole: the format's rules, promtool where it is installed, and the documents and dashboards that name
// metrics.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "apps/temporary_folder.h"
#include "engine/metrics/engine_metrics.h"
#include "engine/metrics/exposition.h"
#include "serving/api/api_test_server.h"
#include "serving/api/exposition_check.h"
#include "serving/api/transport_metrics.h"

namespace deepinfer::serving {
namespace {

const std::filesystem::path kRoot = DEEPINFER_SOURCE_DIR;

std::string content(const std::filesystem::path& file) {
  std::ifstream in(file);
  EXPECT_TRUE(in) << file;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

RequestSummary ended(EndReason reason) {
  RequestSummary summary;
  summary.reason = reason;
  summary.prompt_tokens = 100;
  summary.answer_tokens = 4;
  summary.queued = std::chrono::milliseconds(3);
  summary.first_token = std::chrono::milliseconds(15);
  summary.total = std::chrono::seconds(30);
  return summary;
}

// All that the server counts, with names that need escapes, after some traffic.
std::string metrics_text() {
  ScriptedEngine engine(test_tokenizer(), [](const EngineRequest&) {
    return scripted_text(test_tokenizer(), std::string("ok") + "<｜end▁of▁sentence｜>");
  });
  ApiOptions options;
  options.requests.tokenizer = &test_tokenizer();
  options.requests.engine = &engine;
  options.requests.end_tokens = {test_tokenizer().added_id("<｜end▁of▁sentence｜>").value()};
  options.requests.protocol.models = {"a \"model\"\\\nof\xFF two lines", "tiny"};
  options.engine_metrics = std::make_shared<EngineMetrics>();
  for (const EndReason reason : {EndReason::kStop, EndReason::kLength, EndReason::kCancelled, EndReason::kError})
    options.engine_metrics->request_ended(1, ended(reason), std::chrono::seconds(60));
  options.transport_metrics = [] { return transport_metrics_text({}); };
  options.keys = ApiKeys::parse("sk-one name=team-1\nsk-two\n", "keys").value();
  const cli::TemporaryFolder folder;
  options.files = FileStore::open(folder.path(), {}).value();
  BatchServiceOptions batches;
  batches.requests = options.requests;
  batches.owner = batch_owners(options.keys.get());
  batches.clock = [] { return int64_t{1000}; };
  options.batches = BatchService::open(engine, *options.files, std::move(batches)).value();
  Api api(engine, std::move(options));
  const auto send = [&](HttpRequest request, const std::string& key) {
    request.headers.emplace_back("x-api-key", key);
    auto exchange = std::make_shared<RecordedExchange>(std::move(request));
    api.handle(exchange);
    exchange->response();
    return exchange;
  };
  const std::string body =
      R"({"model":"tiny","stream":true,"messages":[{"role":"user","content":"Hi"}],"\"odd\n{}":1,"user":"u"})";
  EXPECT_EQ(send(post("/v1/chat/completions", body), "sk-one")->status(), 200);
  EXPECT_EQ(send(post("/v1/chat/completions", "{"), "sk-two")->status(), 400);
  EXPECT_EQ(send(get("/nowhere"), "sk-three")->status(), 401);
  std::string text = send(get("/metrics"), "sk-one")->body();
  api.close();
  return text;
}

TEST(MetricsText, KeepsTheRulesOfTheFormat) {
  const std::string text = metrics_text();
  const auto families = checked_exposition(text);
  EXPECT_GT(families.size(), 50U);
  for (const char* line :
       {"deepinfer_http_requests_total{route=\"/v1/chat/completions\",status=\"200\",key=\"team-1\"} 1\n",
        "deepinfer_http_requests_total{route=\"/v1/chat/completions\",status=\"400\",key=\"key-2\"} 1\n",
        "deepinfer_http_requests_total{route=\"other\",status=\"401\",key=\"\"} 1\n",
        "deepinfer_ignored_fields_total{field=\"_odd___\"} 1\n",
        "vllm:request_success_total{model_name=\"a \\\"model\\\"\\\\\\nof\xEF\xBF\xBD two "
        "lines\",finished_reason=\"abort\"} 1\n",
        "deepinfer_engine_state{model_name=\"a \\\"model\\\"\\\\\\nof\xEF\xBF\xBD two lines\",state=\"running\"} 1\n",
        "process_open_fds "})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  // Events: the opening one, one a token, the end, and the usage.
  EXPECT_EQ(text.find("deepinfer_stream_events_total 0\n"), std::string::npos);
}

TEST(MetricsText, NumbersAndEscapes) {
  static constexpr double kBounds[] = {0.5};
  Histogram histogram(kBounds);
  histogram.observe(0.25);
  Exposition out({{"a", "\"\\\n"}});
  out.begin_gauge("g", "back\\slash and\nline");
  out.sample(std::numeric_limits<double>::quiet_NaN());
  out.sample(-std::numeric_limits<double>::infinity(), {{"b", "c"}});
  out.sample(1e21, {{"b", "d"}});
  out.histogram("h", "help", histogram);
  EXPECT_EQ(out.take(),
            "# HELP g back\\\\slash and\\nline\n# TYPE g gauge\n"
            "g{a=\"\\\"\\\\\\n\"} NaN\ng{a=\"\\\"\\\\\\n\",b=\"c\"} -Inf\ng{a=\"\\\"\\\\\\n\",b=\"d\"} 1e+21\n"
            "# HELP h help\n# TYPE h histogram\n"
            "h_bucket{a=\"\\\"\\\\\\n\",le=\"0.5\"} 1\nh_bucket{a=\"\\\"\\\\\\n\",le=\"+Inf\"} 1\n"
            "h_sum{a=\"\\\"\\\\\\n\"} 0.25\nh_count{a=\"\\\"\\\\\\n\"} 1\n");
}

TEST(TransportMetrics, EveryRefusalHasALine) {
  HttpServerStats stats;
  stats.connections = 3;
  stats.refusals[static_cast<std::size_t>(HttpRefusal::kDraining)] = 7;
  const std::string text = transport_metrics_text(stats);
  EXPECT_NE(text.find("# TYPE deepinfer_transport_connections gauge\ndeepinfer_transport_connections 3\n"), text.npos);
  EXPECT_NE(text.find("deepinfer_transport_refusals_total{reason=\"draining\"} 7\n"), text.npos);
  EXPECT_NE(text.find("{reason=\"no_descriptors\"} 0\n"), text.npos);
}

// promtool's own opinion, but for the colon of vLLM's names, which that rule keeps for recording rules.
TEST(MetricsText, PromtoolFindsNoFault) {
  if (std::system("command -v promtool > /dev/null 2>&1") != 0) GTEST_SKIP() << "promtool is not installed";
  const std::string file = ::testing::TempDir() + "deepinfer_metrics_" + std::to_string(::getpid());
  std::ofstream(file) << metrics_text();
  std::FILE* pipe = ::popen(("promtool check metrics < " + file + " 2>&1").c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string line;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF; line += static_cast<char>(c)) {
    if (c != '\n') continue;
    EXPECT_TRUE(line.empty() || line.ends_with("metric names should not contain ':'")) << line;
    line.clear();
  }
  const int status = ::pclose(pipe);
  EXPECT_TRUE(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 3)) << status;
  std::filesystem::remove(file);
}

// Names of metrics in a text; those of a histogram's parts are its own.
std::set<std::string> names_in(const std::string& text, const std::map<std::string, MetricFamily>& families) {
  static const std::regex kName("\\b((?:vllm:|deepinfer_|process_)[a-z0-9_]+)");
  std::set<std::string> names;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), kName); at != std::sregex_iterator(); ++at) {
    std::string name = (*at)[1];
    for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
      if (!name.ends_with(suffix)) continue;
      const auto whole = families.find(name.substr(0, name.size() - suffix.size()));
      if (whole != families.end() && whole->second.type == "histogram") name = whole->first;
    }
    names.insert(name);
  }
  return names;
}

TEST(MetricsText, TheTableOfDocumentsIsTrue) {
  const auto families = checked_exposition(metrics_text());
  std::set<std::string> told;
  for (const auto& [name, family] : families) told.insert(name);
  const std::string document = content(kRoot / "docs/metrics.md");
  std::set<std::string> documented;
  std::istringstream in(document);
  static const std::regex kCode("`([a-z:_0-9]+)(?:\\{[a-z_, ]*\\})?`");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("| `")) continue;
    const std::string cell = line.substr(0, line.find('|', 1));
    for (auto at = std::sregex_iterator(cell.begin(), cell.end(), kCode); at != std::sregex_iterator(); ++at)
      EXPECT_TRUE(documented.insert((*at)[1]).second) << (*at)[1] << " is there twice";
  }
  EXPECT_EQ(documented, told);
}

TEST(MetricsText, TheDashboardShowsWhatThereIs) {
  const auto families = checked_exposition(metrics_text());
  const Json dashboard = parse_json(content(kRoot / "deploy/grafana/deepinfer.json")).value();
  int queries = 0;
  std::set<std::string> shown, ids;
  for (const Json& panel : dashboard.at("panels")) {
    EXPECT_TRUE(ids.insert(panel.at("id").dump()).second) << panel.at("title");
    if (panel.at("type") == "row") continue;
    for (const Json& target : panel.at("targets")) {
      ++queries;
      const auto names = names_in(target.at("expr").get<std::string>(), families);
      EXPECT_FALSE(names.empty()) << target.at("expr");
      shown.insert(names.begin(), names.end());
    }
  }
  for (const Json& variable : dashboard.at("templating").at("list"))
    if (variable.at("type") == "query")
      for (const std::string& name : names_in(variable.at("query").dump(), families)) shown.insert(name);
  EXPECT_GT(queries, 20);
  for (const std::string& name : shown) EXPECT_TRUE(families.contains(name)) << name;
}

}  // namespace
}  // namespace deepinfer::serving
