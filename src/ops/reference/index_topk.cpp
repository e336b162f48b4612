#include "ops/reference/index_topk.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "ops/index_topk.h"
#include "ops/reference/reference.h"
#include "ops/reference/rope.h"
#include "tensor/formats.h"

namespace deepinfer::reference {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

// An index record with its e2m1 values as whole numbers, twice their value.
struct IndexRow {
  std::vector<int> doubled;   // [head_dim]
  std::vector<float> scales;  // [head_dim / 32]
};

void decode_index_record(const uint8_t* record, int head_dim, IndexRow& row) {
  row.doubled.resize(head_dim);
  row.scales.resize(head_dim / kIndexGroup);
  for (int i = 0; i < head_dim; ++i) {
    const int code = i % 2 == 0 ? record[i / 2] & 15 : record[i / 2] >> 4;
    row.doubled[i] = static_cast<int>(2 * e2m1_to_float(static_cast<uint8_t>(code)));
  }
  for (int g = 0; g < head_dim / kIndexGroup; ++g) row.scales[g] = e8m0_to_float(record[head_dim / 2 + g]);
}

float dot(const IndexRow& q, const IndexRow& k) {
  float sum = 0;
  for (size_t g = 0; g < q.scales.size(); ++g) {
    int products = 0;  // four times the sum of the group's products
    for (size_t i = g * kIndexGroup; i < (g + 1) * kIndexGroup; ++i) products += q.doubled[i] * k.doubled[i];
    sum += static_cast<float>(products) * 0.25f * (q.scales[g] * k.scales[g]);
  }
  return sum;
}

void write_indices(const std::vector<int32_t>& indices, int32_t* out, int64_t columns) {
  std::fill_n(std::copy(indices.begin(), indices.end(), out), columns - static_cast<int64_t>(indices.size()), -1);
}

}  // namespace

std::vector<float> index_scores(const IndexQuery& query, const BlockList& keys, int64_t count) {
  const int64_t record_bytes = index_record_bytes(query.head_dim);
  DI_CHECK(keys.record_bytes == record_bytes, "keys and queries have one record size");
  const float factor = static_cast<float>(std::pow(static_cast<double>(query.head_dim) * query.heads, -0.5));
  std::vector<IndexRow> q(query.heads);
  std::vector<float> weight(query.heads);
  for (int h = 0; h < query.heads; ++h) {
    decode_index_record(query.records + h * record_bytes, query.head_dim, q[h]);
    weight[h] = to_float(query.weights[h]) * factor;
  }
  std::vector<float> scores(static_cast<size_t>(count));
  IndexRow key;
  for (int64_t j = 0; j < count; ++j) {
    decode_index_record(reinterpret_cast<const uint8_t*>(keys.record(j)), query.head_dim, key);
    float score = 0;
    for (int h = 0; h < query.heads; ++h) score += std::max(dot(q[h], key), 0.0f) * weight[h];
    scores[j] = std::isnan(score) ? kHidden : score;
  }
  return scores;
}

std::vector<int32_t> best_indices(const std::vector<float>& scores, int64_t count) {
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](int32_t i) { return scores[i] == kHidden; });
  count = std::min(count, static_cast<int64_t>(order.size()));
  const auto better = [&](int32_t a, int32_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; };
  std::partial_sort(order.begin(), order.begin() + count, order.end(), better);
  order.resize(static_cast<size_t>(count));
  std::sort(order.begin(), order.end());
  return order;
}

std::vector<int32_t> candidate_blocks(const std::vector<float>& scores, int block_rows, int64_t most_blocks) {
  const auto visible = static_cast<int64_t>(scores.size());
  if (visible == 0) return {};
  std::vector<float> best(static_cast<size_t>((visible + block_rows - 1) / block_rows), kHidden);
  for (int64_t j = 0; j < visible; ++j) best[j / block_rows] = std::max(best[j / block_rows], scores[j]);
  best.back() = std::numeric_limits<float>::infinity();  // the block of the newest row
  return best_indices(best, most_blocks);
}

void make_index_queries(const MakeIndexQueries& op) {
  const int64_t record_bytes = index_record_bytes(op.head_dim);
  DI_CHECK(op.q.columns == int64_t{op.heads} * op.head_dim && op.records.columns == op.heads * record_bytes,
           "q is [rows, heads * head_dim], records one record a head");
  std::vector<bf16> head(static_cast<size_t>(op.head_dim));
  for (int64_t m = 0; m < op.q.rows; ++m) {
    for (int64_t h = 0; h < op.heads; ++h) {
      std::copy_n(op.q.row(m) + h * op.head_dim, op.head_dim, head.data());
      rotate(head.data(), op.head_dim, op.position[m], op.table);
      encode_index_row(head.data(), op.head_dim, op.records.row(m) + h * record_bytes);
    }
  }
}

void index_topk(const IndexTopk& op) {
  DI_CHECK(op.selected.columns == op.top_k, "selected is [rows, top_k]");
  for (int s = 0; s < op.sequence_count; ++s) {
    const IndexSequence& sequence = op.sequences[s];
    for (int64_t i = 0; i < sequence.rows; ++i) {
      const int64_t m = sequence.first_row + i;
      const int64_t visible = (sequence.position + i + 1) / op.ratio;
      std::vector<float> scores =
          index_scores({op.queries.row(m), op.weights.row(m), op.heads, op.head_dim}, sequence.keys, visible);
      if (op.pool == IndexTopk::Pool::kMake) {
        write_indices(candidate_blocks(scores, op.candidate_block, op.candidates.columns), op.candidates.row(m),
                      op.candidates.columns);
      } else if (op.pool == IndexTopk::Pool::kUse) {
        const int32_t* kept = op.candidates.row(m);
        const int32_t* end = kept + op.candidates.columns;
        for (int64_t j = 0; j < visible; ++j) {
          if (std::find(kept, end, static_cast<int32_t>(j / op.candidate_block)) == end) scores[j] = kHidden;
        }
      }
      write_indices(best_indices(scores, op.top_k), op.selected.row(m), op.top_k);
    }
  }
}

}  // namespace deepinfer::reference
