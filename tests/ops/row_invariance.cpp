#include "ops/row_invariance.h"

#include <algorithm>

#include "ops/random_data.h"

namespace deepinfer {

void expect_rows_independent(int64_t rows, uint64_t seed,
                             const std::function<RowBytes(std::span<const int64_t> picked)>& run) {
  RandomData random(seed);
  std::vector<int64_t> everything(static_cast<size_t>(rows));
  for (int64_t i = 0; i < rows; ++i) everything[i] = i;
  const RowBytes together = run(everything);
  ASSERT_EQ(static_cast<int64_t>(together.size()), rows);

  std::vector<std::vector<int64_t>> companies = {{0}, {rows - 1}};
  for (int i = 0; i < 6; ++i) companies.push_back({random.below(rows)});
  for (int i = 0; i < 5; ++i) {
    std::vector<int64_t> part = random.shuffled(rows);
    part.resize(static_cast<size_t>(1 + random.below(rows)));
    if (i % 2 == 0) std::sort(part.begin(), part.end());
    companies.push_back(std::move(part));
  }
  for (const auto& company : companies) {
    const RowBytes got = run(company);
    ASSERT_EQ(got.size(), company.size());
    for (size_t i = 0; i < company.size(); ++i) {
      EXPECT_TRUE(got[i] == together[company[i]]) << "row " << company[i] << " of " << rows << " differs in a step of "
                                                  << company.size() << " rows, place " << i;
    }
  }
}

std::vector<RowRun> runs_of(const std::vector<CachedRow>& all, std::span<const int64_t> picked) {
  std::vector<RowRun> runs;
  for (size_t i = 0; i < picked.size(); ++i) {
    const CachedRow& row = all[picked[i]];
    if (!runs.empty() && runs.back().sequence == row.sequence &&
        runs.back().position + runs.back().rows == row.position) {
      ++runs.back().rows;
    } else {
      runs.push_back({row.sequence, static_cast<int64_t>(i), 1, row.position});
    }
  }
  return runs;
}

}  // namespace deepinfer
