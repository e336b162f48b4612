// The reference sampler: its suite, and the known answers of its random words, noise and weights.
#include <gtest/gtest.h>

#include <bit>

#include "base/philox.h"
#include "ops/reference/sampling_noise.h"
#include "ops/sampler_suite.h"
#include "ops/sampling_cases.h"

namespace deepinfer {
namespace {

INSTANTIATE_TEST_SUITE_P(Reference, Sampler, testing::Values(OpsBackend{"reference", make_reference_ops}),
                         backend_name);

TEST(SamplingKnownAnswers, Philox) {
  for (const auto& line : sampling_lines("philox")) {
    EXPECT_EQ(philox4x32(line["counter"], line["key"]), (line["out"].get<std::array<uint32_t, 4>>()));
  }
}

TEST(SamplingKnownAnswers, Gumbel) {
  for (const auto& line : sampling_lines("gumbel")) {
    for (size_t i = 0; i < line["word"].size(); ++i) {
      EXPECT_EQ(std::bit_cast<uint32_t>(reference::gumbel(line["word"][i])), line["bits"][i].get<uint32_t>());
    }
  }
}

TEST(SamplingKnownAnswers, GumbelSumOfSpreadWords) {
  uint64_t sum = 0;
  for (uint32_t k = 0; k < 65536; ++k) sum += std::bit_cast<uint32_t>(reference::gumbel(65537 * k));
  EXPECT_EQ(sum, sampling_lines("gumbel_sum")[0]["sum_of_bits"].get<uint64_t>());
}

TEST(SamplingKnownAnswers, Weight) {
  for (const auto& line : sampling_lines("weight")) {
    for (size_t i = 0; i < line["d"].size(); ++i) {
      const float weight = reference::exp_weight(std::bit_cast<float>(line["d"][i].get<uint32_t>()));
      EXPECT_EQ(std::bit_cast<uint32_t>(weight), line["bits"][i].get<uint32_t>());
    }
  }
}

TEST(SamplingKnownAnswers, Noise) {
  for (const auto& line : sampling_lines("noise")) {
    for (uint32_t v = 0; v < line["bits"].size(); ++v) {
      const auto words =
          reference::noise_words(std::stoull(line["seed"].get<std::string>()), line["position"], line["stream"], v / 4);
      EXPECT_EQ(std::bit_cast<uint32_t>(reference::gumbel(words[v % 4])), line["bits"][v].get<uint32_t>());
    }
  }
}

}  // namespace
}  // namespace deepinfer
