// ApiKeys: who may use the server, and how much.  Read from a file once; thread-safe.
//
// A line of the file is a key and its limits: `KEY [requests-per-minute=N] [tokens-per-minute=N] [concurrency=N]
// [highest-priority=N]`, and `name=NAME` for logs and metrics; without one it is key-1 for the first key, key-2 for the
// second, ...
// Empty lines and those that begin with # are skipped.  Only hashes of the keys are kept.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "serving/api/api_error.h"
#include "serving/http/http_exchange.h"

namespace deepinfer::serving {

struct KeyLimits {  // 0: none
  int64_t requests_per_minute = 0;
  int64_t tokens_per_minute = 0;
  int64_t concurrency = 0;
  int64_t highest_priority = 0;  // that a request may ask for; no limit of this name means just that
};

// One key's limits and what is used of them.
class KeyAccount {
 public:
  using Clock = std::chrono::steady_clock;

  // owner: its name for what outlives the process.
  KeyAccount(const KeyLimits& limits, uint64_t tenant, std::string name = {}, std::string owner = {});

  // Of the key, for logs and metrics; says nothing about the key itself.
  const std::string& name() const { return name_; }

  // Takes a place for one request, or says when to come again.
  std::optional<ApiError> begin(Clock::time_point now);
  void end();
  // Prompt tokens of a request that was accepted, tokens of its answer as they come.
  void charge(int64_t tokens, Clock::time_point now);
  // Whether tokens are left for now.
  bool has_tokens(Clock::time_point now);

  uint64_t tenant() const { return tenant_; }
  const std::string& owner() const { return owner_; }
  int32_t highest_priority() const { return static_cast<int32_t>(limits_.highest_priority); }

 private:
  void refill(Clock::time_point now);

  const KeyLimits limits_;
  const uint64_t tenant_;
  const std::string name_, owner_;
  std::mutex mutex_;
  // What is left for now: a minute's worth at most; tokens may go below zero.
  double requests_, tokens_;
  int64_t running_ = 0;
  Clock::time_point filled_{};
};

class ApiKeys {
 public:
  // kInvalidArgument naming the line; kNotFound, kIoError.
  static Result<std::unique_ptr<ApiKeys>> read(const std::filesystem::path& file);
  static Result<std::unique_ptr<ApiKeys>> parse(std::string_view text, std::string_view name);

  // The account of the key in `authorization: Bearer KEY` or `x-api-key`; null: none, or an unknown one.  Takes the
  // same time whichever key it is and however much of one is right.
  KeyAccount* account(const HttpRequest& request) const;
  // The account of this owner; null: there is none.
  KeyAccount* account_of(const std::string& owner) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  static Digest digest(std::string_view key);

  struct Entry {
    Digest digest;
    std::unique_ptr<KeyAccount> account;
  };
  std::vector<Entry> entries_;
};

}  // namespace deepinfer::serving
