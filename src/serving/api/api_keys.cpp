#include "serving/api/api_keys.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <utility>

#include "base/bounded_file.h"
#include "serving/api/api_metrics.h"

namespace deepinfer::serving {
namespace {

constexpr uint64_t kMostFileBytes = uint64_t{16} << 20;
constexpr size_t kLongestKey = 512;
constexpr int64_t kHighestLimit = 1'000'000'000'000;

std::string_view trim(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// The next word of `line`, which begins behind it afterwards.
std::string_view next_word(std::string_view& line) {
  line = trim(line);
  const size_t end = std::min(line.find_first_of(" \t"), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

Status read_limit(std::string_view word, KeyLimits& limits, std::string& key_name) {
  const size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  if (name == "name" && equals != std::string_view::npos) {
    key_name = word.substr(equals + 1);
    if (!key_name.empty() && key_name == plain_name(key_name)) return {};
    return invalid_argument("name: expected 1 to 64 letters, digits, `_`, `-` and `.`");
  }
  int64_t* target = name == "requests-per-minute" ? &limits.requests_per_minute
                    : name == "tokens-per-minute" ? &limits.tokens_per_minute
                    : name == "concurrency"       ? &limits.concurrency
                    : name == "highest-priority"  ? &limits.highest_priority
                                                  : nullptr;
  if (target == nullptr || equals == std::string_view::npos)
    return invalid_argument(
        "behind the key: expected requests-per-minute=N, tokens-per-minute=N, concurrency=N, highest-priority=N or "
        "name=NAME");
  const bool priority = target == &limits.highest_priority;
  const int64_t lowest = priority ? -kHighestPriority : 1, highest = priority ? kHighestPriority : kHighestLimit;
  const std::string_view digits = word.substr(equals + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *target);
  if (error != std::errc() || end != digits.data() + digits.size() || *target < lowest || *target > highest)
    return invalid_argument(fmt::format("{} is `{}`; allowed: {} to {}", name, digits, lowest, highest));
  return {};
}

// The same in each process; tells as much of the key as a hash does.
std::string owner_name(std::string_view key) {
  const std::string text = "deepinfer files of " + std::string(key);
  std::array<unsigned char, 32> hash{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data());
  std::string name;
  for (size_t i = 0; i < hash.size() / 2; ++i) name += fmt::format("{:02x}", hash[i]);
  return name;
}

ApiError too_many(std::string message, double seconds) {
  return {429, "rate_limit_error", std::move(message), std::max(1, static_cast<int>(std::ceil(seconds)))};
}

}  // namespace

KeyAccount::KeyAccount(const KeyLimits& limits, uint64_t tenant, std::string name, std::string owner)
    : limits_(limits),
      tenant_(tenant),
      name_(std::move(name)),
      owner_(std::move(owner)),
      requests_(static_cast<double>(limits.requests_per_minute)),
      tokens_(static_cast<double>(limits.tokens_per_minute)) {}

void KeyAccount::refill(Clock::time_point now) {
  const double minutes = std::chrono::duration<double, std::ratio<60>>(now - filled_).count();
  filled_ = now;
  const auto fill = [&](double left, int64_t limit) {
    const auto full = static_cast<double>(limit);
    return std::min(full, left + full * minutes);
  };
  requests_ = fill(requests_, limits_.requests_per_minute);
  tokens_ = fill(tokens_, limits_.tokens_per_minute);
}

std::optional<ApiError> KeyAccount::begin(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  refill(now);
  if (limits_.concurrency > 0 && running_ >= limits_.concurrency)
    return too_many(fmt::format("This key has {} requests running, as many as it may.", running_), 1);
  if (limits_.requests_per_minute > 0 && requests_ < 1)
    return too_many(fmt::format("This key may send {} requests a minute.", limits_.requests_per_minute),
                    (1 - requests_) * 60 / static_cast<double>(limits_.requests_per_minute));
  if (limits_.tokens_per_minute > 0 && tokens_ <= 0)
    return too_many(fmt::format("This key may use {} tokens a minute.", limits_.tokens_per_minute),
                    (1 - tokens_) * 60 / static_cast<double>(limits_.tokens_per_minute));
  if (limits_.requests_per_minute > 0) requests_ -= 1;
  ++running_;
  return std::nullopt;
}

void KeyAccount::end() {
  const std::lock_guard lock(mutex_);
  --running_;
}

void KeyAccount::charge(int64_t tokens, Clock::time_point now) {
  if (limits_.tokens_per_minute == 0 || tokens == 0) return;
  const std::lock_guard lock(mutex_);
  refill(now);
  tokens_ -= static_cast<double>(tokens);
}

bool KeyAccount::has_tokens(Clock::time_point now) {
  if (limits_.tokens_per_minute == 0) return true;
  const std::lock_guard lock(mutex_);
  refill(now);
  return tokens_ > 0;
}

ApiKeys::Digest ApiKeys::digest(std::string_view key) {
  Digest out;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), out.data());
  return out;
}

Result<std::unique_ptr<ApiKeys>> ApiKeys::read(const std::filesystem::path& file) {
  DI_ASSIGN_OR_RETURN(const std::string text, read_bounded_file(file, kMostFileBytes));
  return parse(text, file.string());
}

Result<std::unique_ptr<ApiKeys>> ApiKeys::parse(std::string_view text, std::string_view name) {
  auto keys = std::make_unique<ApiKeys>();
  std::random_device random;
  const uint64_t salt = (uint64_t{random()} << 32) | random();
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    const auto wrong = [&](const std::string& what) {
      return invalid_argument(fmt::format("{}: line {}: {}", name, number, what));
    };
    const std::string_view key = next_word(line);
    if (key.size() > kLongestKey) return wrong(fmt::format("the key has more than {} bytes", kLongestKey));
    if (std::any_of(key.begin(), key.end(), [](char c) { return c <= 0x20 || c >= 0x7F; }))
      return wrong("the key has bytes that no HTTP header can hold");
    KeyLimits limits;
    std::string key_name = fmt::format("key-{}", keys->entries_.size() + 1);
    while (!trim(line).empty())
      if (const Status status = read_limit(next_word(line), limits, key_name); !status.ok())
        return wrong(status.message());
    const Digest hashed = digest(key);
    for (const Entry& entry : keys->entries_) {
      if (entry.digest == hashed) return wrong("the key is there already");
      if (entry.account->name() == key_name) return wrong(fmt::format("another key has the name {}", key_name));
    }
    // A key's own prefixes: a number that says nothing about the key, and is never 0.
    uint64_t tenant = 0;
    std::memcpy(&tenant, hashed.data(), sizeof tenant);
    keys->entries_.push_back(
        {hashed, std::make_unique<KeyAccount>(limits, (tenant ^ salt) | 1, std::move(key_name), owner_name(key))});
  }
  if (keys->entries_.empty()) return invalid_argument(fmt::format("{} has no key", name));
  return keys;
}

KeyAccount* ApiKeys::account(const HttpRequest& request) const {
  std::string_view given = request.header("x-api-key");
  const std::string_view authorization = request.header("authorization");
  if (authorization.size() > 7) {
    constexpr std::string_view kScheme = "bearer ";
    const bool bearer = std::equal(kScheme.begin(), kScheme.end(), authorization.begin(),
                                   [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b + 32 : b); });
    if (bearer) given = trim(authorization.substr(kScheme.size()));
  }
  if (given.empty() || given.size() > kLongestKey) return nullptr;
  const Digest hashed = digest(given);
  KeyAccount* found = nullptr;
  for (const Entry& entry : entries_)
    if (CRYPTO_memcmp(entry.digest.data(), hashed.data(), hashed.size()) == 0) found = entry.account.get();
  return found;
}

KeyAccount* ApiKeys::account_of(const std::string& owner) const {
  for (const Entry& entry : entries_)
    if (entry.account->owner() == owner) return entry.account.get();
  return nullptr;
}

}  // namespace deepinfer::serving
