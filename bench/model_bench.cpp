#include "bench/model_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "bench/median.h"
#include "bench/timed_process.h"

namespace deepinfer::bench {
namespace {

// Prompts of at most 64 tokens whose answers differ in kind; the demonstration model answers all of them.
constexpr std::array kPrompts = {"Hello! Who are you?",   "What is 27 + 45?",
                                 "What is 123 - 58?",     "Repeat after me: blue 42 green 17",
                                 "Is 91 a prime number?", "What can you do?"};

class ProgramBench {
 public:
  explicit ProgramBench(const ModelBenchOptions& options) : options_(options) {}

  Result<TimedProcess> run(std::string_view prompt, std::vector<std::string> more) const {
    std::vector<std::string> arguments = {options_.program.string(), "run",           "-m",
                                          options_.folder.string(),  "--temperature", "0"};
    if (options_.threads > 0) arguments.insert(arguments.end(), {"--threads", std::to_string(options_.threads)});
    arguments.insert(arguments.end(), more.begin(), more.end());
    arguments.insert(arguments.end(), {"--", std::string(prompt)});
    return time_process(arguments);
  }

  // Start to first byte, and the peak of memory.
  Status start(ResultSink sink) const {
    std::vector<double> first_byte;
    int64_t peak = 0;
    for (int sample = 0; sample < options_.samples; ++sample) {
      DI_ASSIGN_OR_RETURN(const TimedProcess process, run(kPrompts[0], {}));
      first_byte.push_back(process.first_byte_seconds);
      peak = std::max(peak, process.peak_resident_bytes);
    }
    const std::string note = fmt::format("warm page cache, prompt \"{}\", median of {}", kPrompts[0], options_.samples);
    sink({"process start to first byte", 1e3 * median(first_byte), "ms", std::nullopt, note});
    sink({"peak resident memory", static_cast<double>(peak) / 1e6, "MB", std::nullopt,
          "mapped weights counted, largest sample"});
    return {};
  }

  // Answer tokens of all prompts over the seconds of their decode steps.
  Status decode(const std::string& name, const std::vector<std::string>& more, ResultSink sink) const {
    std::vector<double> rates, prefill_rates;
    double tokens = 0, rounds = 0;
    for (int sample = 0; sample < options_.samples; ++sample) {
      double seconds = 0, prompt_tokens = 0, prefill_seconds = 0;
      tokens = rounds = 0;
      for (const char* prompt : kPrompts) {
        std::vector<std::string> arguments = {"--thinking", "--json", "--max-tokens", "400"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        DI_ASSIGN_OR_RETURN(const TimedProcess process, run(prompt, arguments));
        const auto object = nlohmann::json::parse(process.output, nullptr, /*allow_exceptions=*/false);
        if (!object.is_object())
          return Status(StatusCode::kInternal, "the program's answer is not the JSON that it should be");
        tokens += object["usage"]["completion_tokens"].get<double>();
        prompt_tokens += object["usage"]["prompt_tokens"].get<double>();
        rounds += object["drafts"]["rounds"].get<double>();
        seconds += object["timings"]["decode_seconds"].get<double>();
        prefill_seconds += object["timings"]["prefill_seconds"].get<double>();
      }
      rates.push_back(tokens / seconds);
      prefill_rates.push_back(prompt_tokens / prefill_seconds);
    }
    sink({fmt::format("decode, {}", name), median(rates), "tokens/s", std::nullopt,
          fmt::format(
              "{} greedy answers with thinking, {:.0f} tokens, {:.2f} a step; prefill {:.0f} tokens/s; median of {}",
              kPrompts.size(), tokens, rounds > 0 ? tokens / rounds : 1.0, median(prefill_rates), options_.samples)});
    return {};
  }

 private:
  const ModelBenchOptions& options_;
};

}  // namespace

Status bench_model(const ModelBenchOptions& options, ResultSink sink) {
  const ProgramBench bench(options);
  DI_RETURN_IF_ERROR(bench.start(sink));
  DI_RETURN_IF_ERROR(bench.decode("no drafts", {"--draft-tokens", "0"}, sink));
  return bench.decode("with drafts", {}, sink);
}

}  // namespace deepinfer::bench
