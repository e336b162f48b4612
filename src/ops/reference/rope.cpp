#include "ops/reference/rope.h"

#include <cmath>

#include "base/check.h"
#include "ops/reference/reference.h"

namespace deepinfer::reference {
namespace {

struct Rotation {
  float cos;
  float sin;
};

// Of the fp32 angle, through double precision: good to half an ulp (and a hair) at any position.
Rotation rotation_at(int64_t position, float frequency) {
  const double angle = static_cast<float>(position) * frequency;
  return {static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))};
}

void rotate_pair(bf16* pair, Rotation r, bool inverse) {
  const float a = to_float(pair[0]);
  const float b = to_float(pair[1]);
  const float sin = inverse ? -r.sin : r.sin;
  pair[0] = to_bf16(a * r.cos - b * sin);
  pair[1] = to_bf16(a * sin + b * r.cos);
}

}  // namespace

void rotate(bf16* x, int64_t channels, int64_t position, const RopeTable& table, bool inverse) {
  DI_CHECK(2 * table.pairs <= channels, "the rotated channels are part of the head");
  bf16* tail = x + channels - 2 * table.pairs;
  for (int i = 0; i < table.pairs; ++i) {
    rotate_pair(tail + 2 * i, rotation_at(position, table.frequencies[i]), inverse);
  }
}

void rope(const Rope& op) {
  DI_CHECK(op.x.columns == int64_t{op.heads} * op.head_dim && 2 * op.table.pairs <= op.head_dim,
           "x is [rows, heads * head_dim] and the rotated channels are part of a head");
  for (int64_t m = 0; m < op.x.rows; ++m) {
    for (int i = 0; i < op.table.pairs; ++i) {
      const Rotation r = rotation_at(op.position[m], op.table.frequencies[i]);
      for (int h = 0; h < op.heads; ++h) {
        bf16* tail = op.x.row(m) + int64_t{h + 1} * op.head_dim - 2 * op.table.pairs;
        rotate_pair(tail + 2 * i, r, op.inverse);
      }
    }
  }
}

}  // namespace deepinfer::reference
