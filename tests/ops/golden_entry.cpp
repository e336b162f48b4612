#include "ops/golden_entry.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace deepinfer {
namespace {

const nlohmann::json& index_of_ops() {
  static const nlohmann::json index =
      nlohmann::json::parse(std::ifstream(DEEPINFER_TEST_DATA "/model/index.json"))["entries"]["ops"];
  return index;
}

const Safetensors& ops_file() {
  static const Safetensors file = Safetensors::open(DEEPINFER_TEST_DATA "/model/ops.safetensors").value();
  return file;
}

float number(float value) {
  return value;
}
float number(bf16 value) {
  return to_float(value);
}

template <typename T>
float largest_magnitude(std::span<const T> values) {
  float largest = 0;
  for (const T value : values) largest = std::max(largest, std::abs(number(value)));
  return largest;
}

struct Differences {
  int64_t unequal = 0;
  int64_t outside = 0;
  float worst = 0;    // absolute
  std::string first;  // the first outside
};

// bound(expected value) is the largest difference allowed.
template <typename T, typename Bound>
Differences compare(std::span<const T> want, std::span<const T> got, Bound bound) {
  Differences found;
  for (size_t i = 0; i < want.size(); ++i) {
    const float a = number(want[i]);
    const float b = number(got[i]);
    const float off = std::abs(a - b);
    if (off == 0) continue;
    ++found.unequal;
    found.worst = std::isnan(off) ? INFINITY : std::max(found.worst, off);
    if (off <= bound(a)) continue;
    if (found.outside++ == 0) {
      found.first = fmt::format("element {}: {}, golden {}", i, b, a);
    }
  }
  return found;
}

}  // namespace

GoldenEntry GoldenEntry::ops(const std::string& name) {
  GoldenEntry entry;
  for (const auto& json : index_of_ops()) {
    if (json["name"] != name) continue;
    entry.name_ = name;
    if (json.contains("noise")) entry.noise_ = json["noise"].get<std::map<std::string, double>>();
  }
  DI_CHECK(entry.name_ == name, "index.json has no operation " + name);
  return entry;
}

std::vector<std::string> GoldenEntry::names_of_ops() {
  std::vector<std::string> names;
  for (const auto& json : index_of_ops()) names.push_back(json["name"]);
  return names;
}

template <typename T>
std::span<const T> GoldenEntry::elements(const std::string& tensor) const {
  const auto found = ops_file().find(tensor);
  DI_CHECK(found.has_value(), "ops.safetensors has no tensor " + tensor);
  return {found->as<T>(), static_cast<size_t>(found->shape.elements())};
}
template std::span<const bf16> GoldenEntry::elements(const std::string&) const;
template std::span<const float> GoldenEntry::elements(const std::string&) const;
template std::span<const uint8_t> GoldenEntry::elements(const std::string&) const;
template std::span<const int32_t> GoldenEntry::elements(const std::string&) const;
template std::span<const int64_t> GoldenEntry::elements(const std::string&) const;

bool GoldenEntry::has_in(const std::string& tensor) const {
  return ops_file().find(name_ + "/in." + tensor).has_value();
}

void GoldenEntry::expect(const std::string& tensor, std::span<const bf16> got) const {
  const auto want = out<bf16>(tensor);
  ASSERT_EQ(want.size(), got.size()) << name_ << " " << tensor;
  const float largest = largest_magnitude(want);
  const float noise = 4 * static_cast<float>(noise_.at(tensor)) * largest;
  const auto found =
      compare(want, got, [&](float value) { return std::max(noise, std::abs(value) * 0x1p-8f + largest * 0x1p-10f); });
  EXPECT_EQ(found.outside, 0) << name_ << " " << tensor << ", " << found.first;
  EXPECT_LE(found.unequal, static_cast<int64_t>(want.size()) / 50) << name_ << " " << tensor << ": values that differ";
  testing::Test::RecordProperty(tensor + "_unequal", std::to_string(found.unequal));
}

void GoldenEntry::expect(const std::string& tensor, std::span<const float> got) const {
  const auto want = out<float>(tensor);
  ASSERT_EQ(want.size(), got.size()) << name_ << " " << tensor;
  const float largest = largest_magnitude(want);
  const float bound = std::max(4 * static_cast<float>(noise_.at(tensor)), 1e-5f) * largest;
  const auto found = compare(want, got, [&](float) { return bound; });
  EXPECT_EQ(found.outside, 0) << name_ << " " << tensor << ", " << found.first;
  testing::Test::RecordProperty(tensor + "_worst", fmt::format("{:.1e}", found.worst / largest));
}

void GoldenEntry::expect_layer(const std::string& tensor, std::span<const bf16> got) const {
  const auto want = out<bf16>(tensor);
  ASSERT_EQ(want.size(), got.size()) << name_ << " " << tensor;
  const float largest = largest_magnitude(want);
  const auto found = compare(want, got, [&](float value) { return std::abs(value) * 0x1p-8f + largest * 0x1p-10f; });
  EXPECT_LE(found.outside, static_cast<int64_t>(want.size()) / 100) << name_ << " " << tensor << ", " << found.first;
  EXPECT_LE(found.worst, largest / 100) << name_ << " " << tensor;
  testing::Test::RecordProperty(tensor + "_outside", std::to_string(found.outside));
}

void GoldenEntry::expect_layer(const std::string& tensor, std::span<const float> got) const {
  const auto want = out<float>(tensor);
  ASSERT_EQ(want.size(), got.size()) << name_ << " " << tensor;
  const auto found = compare(want, got, [](float) { return 1e-4f; });
  EXPECT_EQ(found.outside, 0) << name_ << " " << tensor << ", " << found.first;
}

template <typename T>
void GoldenEntry::expect_equal(const std::string& tensor, std::span<const T> got) const {
  const auto want = out<T>(tensor);
  ASSERT_EQ(want.size(), got.size()) << name_ << " " << tensor;
  int64_t unequal = 0;
  size_t first = 0;
  for (size_t i = want.size(); i-- > 0;) {
    if (want[i] == got[i]) continue;
    ++unequal;
    first = i;
  }
  EXPECT_EQ(unequal, 0) << name_ << " " << tensor << ": elements that differ, the first is " << first;
}
template void GoldenEntry::expect_equal(const std::string&, std::span<const bf16>) const;
template void GoldenEntry::expect_equal(const std::string&, std::span<const float>) const;
template void GoldenEntry::expect_equal(const std::string&, std::span<const uint8_t>) const;
template void GoldenEntry::expect_equal(const std::string&, std::span<const int32_t>) const;
template void GoldenEntry::expect_equal(const std::string&, std::span<const int64_t>) const;

}  // namespace deepinfer
