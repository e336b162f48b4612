// Speed of Tokenizer from user CPU time, for a machine that others load too; `deepinfer bench tokenizer` measures
// wall-clock time.
//   tokenizer_speed TOKENIZER_JSON [--runs N] [--threads N] FILE...
// One JSON object a line; the value is the fastest of the runs.  With several threads wall-clock time counts.
#include <sys/resource.h>
#include <sys/time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace {

double user_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) + 1e-6 * static_cast<double>(usage.ru_utime.tv_usec);
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void print(const std::string& name, double value, const char* unit, int threads, std::size_t tokens) {
  std::printf("{\"name\":\"%s\",\"value\":%.2f,\"unit\":\"%s\",\"threads\":%d,\"tokens\":%zu}\n", name.c_str(), value,
              unit, threads, tokens);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  int runs = 3, threads = 1;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if ((argument == "--runs" || argument == "--threads") && i + 1 < argc) {
      (argument == "--runs" ? runs : threads) = std::max(1, std::atoi(argv[++i]));
    } else {
      files.push_back(argument);
    }
  }
  if (files.size() < 2) {
    std::fprintf(stderr, "usage: %s TOKENIZER_JSON [--runs N] [--threads N] FILE...\n", argv[0]);
    return 2;
  }
  std::unique_ptr<deepinfer::Tokenizer> tokenizer;
  double load = 1e9;
  for (int run = 0; run < runs; ++run) {
    const double start = user_seconds();
    auto loaded = deepinfer::Tokenizer::load(files[0]);
    load = std::min(load, user_seconds() - start);
    if (!loaded.ok()) {
      std::fprintf(stderr, "%s\n", loaded.status().to_string().c_str());
      return 1;
    }
    tokenizer = std::move(loaded).value();
  }
  print("tokenizer/load", load * 1e3, "ms", 1, 0);
  for (std::size_t i = 1; i < files.size(); ++i) {
    std::ifstream stream(files[i], std::ios::binary);
    if (!stream) {
      std::fprintf(stderr, "%s: cannot read\n", files[i].c_str());
      return 1;
    }
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    double best = 1e9;
    std::size_t tokens = 0;
    for (int run = 0; run < runs; ++run) {
      std::vector<int32_t> ids;
      ids.reserve(text.size() / 2);
      const auto now = threads > 1 ? wall_seconds : user_seconds;
      const double start = now();
      const deepinfer::Status status = tokenizer->encode_plain(text, ids, threads);
      best = std::min(best, now() - start);
      if (!status.ok()) {
        std::fprintf(stderr, "%s: %s\n", files[i].c_str(), status.to_string().c_str());
        return 1;
      }
      tokens = ids.size();
    }
    print("tokenizer/" + std::filesystem::path(files[i]).stem().string(),
          static_cast<double>(text.size()) / best / (1 << 20), "MiB/s", threads, tokens);
  }
  return 0;
}
