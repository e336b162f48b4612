// The number formats of src/tensor/formats.h, bit for bit against tests/data/model/formats.safetensors, and
// exhaustively against the definition: nearest value of the grid, ties to the even code.
#include "tensor/formats.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tensor/safetensors.h"

namespace deepinfer {
namespace {

const Safetensors& golden() {
  static const Safetensors file = Safetensors::open(DEEPINFER_TEST_DATA "/model/formats.safetensors").value();
  return file;
}

TensorView tensor(const std::string& name) {
  const std::optional<TensorView> view = golden().find(name);
  DI_CHECK(view.has_value(), "no golden " + name);
  return *view;
}

uint32_t bits_of(float value) {
  return std::bit_cast<uint32_t>(value);
}

// Encodes every row of NAME/in.x and compares with NAME/out.record; decodes the record and compares with
// NAME/out.value.
template <typename T>
void check_rows(const std::string& name, int64_t (*record_bytes)(int64_t), void (*encode)(const T*, int64_t, uint8_t*),
                void (*decode)(const uint8_t*, int64_t, bf16*)) {
  const TensorView x = tensor(name + "/in.x");
  const TensorView record = tensor(name + "/out.record");
  const TensorView value = tensor(name + "/out.value");
  const int64_t rows = x.shape[0];
  const int64_t channels = x.shape[1];
  ASSERT_EQ(record.shape, (Shape{rows, record_bytes(channels)}));
  std::vector<uint8_t> encoded(static_cast<size_t>(record_bytes(channels)));
  std::vector<bf16> decoded(static_cast<size_t>(channels));
  for (int64_t row = 0; row < rows; ++row) {
    const uint8_t* expected = record.as<uint8_t>() + row * record_bytes(channels);
    encode(x.as<T>() + row * channels, channels, encoded.data());
    for (size_t i = 0; i < encoded.size(); ++i) {
      ASSERT_EQ(encoded[i], expected[i]) << name << " row " << row << " byte " << i;
    }
    decode(expected, channels, decoded.data());
    for (int64_t i = 0; i < channels; ++i) {
      // Equal as floats: reading a record back to bf16 loses nothing.
      ASSERT_EQ(bits_of(to_float(decoded[static_cast<size_t>(i)])), bits_of(value.as<float>()[row * channels + i]))
          << name << " row " << row << " channel " << i;
    }
  }
}

TEST(Formats, DecodesEveryCodeAsTheGolden) {
  const float* e4m3 = tensor("decode/out.e4m3").as<float>();
  for (int code = 0; code < 256; ++code) {
    const float value = e4m3_to_float(static_cast<uint8_t>(code));
    if ((code & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value));
    } else {
      EXPECT_EQ(bits_of(value), bits_of(e4m3[code])) << code;
    }
  }
  const float* e2m1 = tensor("decode/out.e2m1").as<float>();
  for (int code = 0; code < 256; ++code) {
    EXPECT_EQ(bits_of(e2m1_to_float(static_cast<uint8_t>(code))), bits_of(e2m1[code & 15])) << code;
  }
  const float* e8m0 = tensor("decode/out.e8m0").as<float>();
  for (int code = 0; code < 255; ++code) {
    EXPECT_EQ(bits_of(e8m0_to_float(static_cast<uint8_t>(code))), bits_of(e8m0[code])) << code;
  }
  EXPECT_TRUE(std::isnan(e8m0_to_float(255)));
}

TEST(Formats, Fp8ActivationOfBf16) {
  check_rows<bf16>("fp8_activation", fp8_record_bytes, encode_fp8_row, decode_fp8_row);
}
TEST(Formats, Fp8ActivationOfFp32) {
  check_rows<float>("fp8_activation_fp32", fp8_record_bytes, encode_fp8_row, decode_fp8_row);
}
TEST(Formats, MainKv) {
  check_rows<bf16>("main_kv", main_kv_record_bytes, encode_main_kv_row, decode_main_kv_row);
}
TEST(Formats, MainKvTies) {
  check_rows<bf16>("main_kv_ties", main_kv_record_bytes, encode_main_kv_row, decode_main_kv_row);
}
TEST(Formats, IndexKey) {
  check_rows<bf16>("index_key", index_record_bytes, encode_index_row, decode_index_row);
}

TEST(Formats, RecordSizesOfTheModel) {
  EXPECT_EQ(fp8_record_bytes(512), 528);
  EXPECT_EQ(main_kv_record_bytes(512), 288);
  EXPECT_EQ(index_record_bytes(128), 68);
}

TEST(Formats, Fp8Weight) {
  const TensorView weight = tensor("fp8_weight/out.weight");
  const TensorView scale = tensor("fp8_weight/out.scale");
  const float* value = tensor("fp8_weight/out.value").as<float>();
  const int64_t columns = weight.shape[1];
  // Whole rows, and rows cut inside a tile: the part has the bits of the whole.
  for (const int64_t used : {columns, columns - 1, int64_t{33}, int64_t{1}}) {
    std::vector<float> row(static_cast<size_t>(used));
    for (int64_t n = 0; n < weight.shape[0]; ++n) {
      decode_fp8_weight_row(weight.as<uint8_t>() + n * columns, scale.as<uint8_t>() + n / 32 * scale.shape[1], used,
                            row.data());
      ASSERT_EQ(std::memcmp(row.data(), value + n * columns, row.size() * sizeof(float)), 0) << "row " << n;
    }
  }
}

TEST(Formats, Fp4Weight) {
  const TensorView weight = tensor("fp4_weight/out.weight");
  const TensorView scale = tensor("fp4_weight/out.scale");
  const float* value = tensor("fp4_weight/out.value").as<float>();
  const int64_t columns = 2 * weight.shape[1];
  std::vector<float> row(static_cast<size_t>(columns));
  for (int64_t n = 0; n < weight.shape[0]; ++n) {
    decode_fp4_weight_row(weight.as<uint8_t>() + n * columns / 2, scale.as<uint8_t>() + n * scale.shape[1], columns,
                          row.data());
    ASSERT_EQ(std::memcmp(row.data(), value + n * columns, row.size() * sizeof(float)), 0) << "row " << n;
  }
}

// Engram rows are weights [rows, columns] with a scale per row and 32 columns.
TEST(Formats, EngramRows) {
  for (const std::string name : {"engram_rows.1", "engram_rows.3"}) {
    const TensorView bytes = tensor(name + "/out.bytes");
    const TensorView scale = tensor(name + "/out.scale");
    const float* value = tensor(name + "/out.value").as<float>();
    const int64_t columns = bytes.shape[1];
    std::vector<float> row(static_cast<size_t>(columns));
    for (int64_t n = 0; n < bytes.shape[0]; ++n) {
      decode_fp8_weight_row(bytes.as<uint8_t>() + n * columns, scale.as<uint8_t>() + n * scale.shape[1], columns,
                            row.data());
      ASSERT_EQ(std::memcmp(row.data(), value + n * columns, row.size() * sizeof(float)), 0) << name << " row " << n;
    }
  }
}

// Nearest code to |value| by search, ties to the even code; value is clamped to the largest.
uint8_t nearest_code(double magnitude, int codes, float (*decode)(uint8_t)) {
  magnitude = std::min(magnitude, double{decode(static_cast<uint8_t>(codes - 1))});
  int best = 0;
  for (int code = 1; code < codes; ++code) {
    const double distance = std::fabs(magnitude - decode(static_cast<uint8_t>(code)));
    const double best_distance = std::fabs(magnitude - decode(static_cast<uint8_t>(best)));
    if (distance < best_distance || (distance == best_distance && code % 2 == 0)) best = code;
  }
  return static_cast<uint8_t>(best);
}

void check_rounding(float value) {
  const uint8_t sign = std::signbit(value) ? 1 : 0;
  EXPECT_EQ(e4m3_from_float(value), nearest_code(std::fabs(value), 127, e4m3_to_float) | sign << 7) << value;
  EXPECT_EQ(e2m1_from_float(value), nearest_code(std::fabs(value), 8, e2m1_to_float) | sign << 3) << value;
}

TEST(Formats, RoundsToTheNearestCodeAroundEveryMidpoint) {
  const auto around = [](float middle) {
    for (const float sign : {1.0f, -1.0f}) {
      check_rounding(sign * middle);
      check_rounding(sign * std::nextafter(middle, 0.0f));
      check_rounding(sign * std::nextafter(middle, 1e30f));
    }
  };
  for (int code = 0; code < 126; ++code) {
    const float low = e4m3_to_float(static_cast<uint8_t>(code));
    const float high = e4m3_to_float(static_cast<uint8_t>(code + 1));
    around(low);
    around((low + high) / 2);
  }
  for (int code = 0; code < 7; ++code) {
    around((e2m1_to_float(static_cast<uint8_t>(code)) + e2m1_to_float(static_cast<uint8_t>(code + 1))) / 2);
  }
  for (const float value : {0.0f, 1e-45f, 1e-38f, 448.0f, 463.9f, 464.0f, 480.0f, 1e9f, 3e38f, INFINITY}) around(value);
}

TEST(Formats, RoundsEveryBf16) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = to_float({static_cast<uint16_t>(bits)});
    if (!std::isnan(value)) check_rounding(value);
  }
}

TEST(Formats, RoundsRandomFloats) {
  EXPECT_TRUE(rc::check("nearest code, ties to even", [] {
    for (int i = 0; i < 100; ++i) {
      const float value = std::bit_cast<float>(*rc::gen::arbitrary<uint32_t>());
      if (!std::isnan(value)) check_rounding(value);
      const float mantissa = 1.0f + static_cast<float>(*rc::gen::inRange(0, 1 << 23)) * 0x1p-23f;
      check_rounding(std::ldexp(mantissa, *rc::gen::inRange(-12, 10)));
    }
  }));
}

// encode(decode(record)) == record for every record that an encoder made, whatever the finite input.
TEST(Formats, EncodingIsStable) {
  EXPECT_TRUE(rc::check("a decoded row encodes to itself in value", [] {
    std::vector<bf16> x(64);
    for (bf16& value : x) {
      value = {*rc::gen::arbitrary<uint16_t>()};
      if ((value.bits & 0x7F80u) >= 0x7F00u) value.bits &= 0x80FFu;  // rounding up 2^127 would overflow
    }
    std::vector<uint8_t> record(128), again(128);
    std::vector<bf16> value(64), value_again(64);
    encode_fp8_row(x.data(), 64, record.data());
    decode_fp8_row(record.data(), 64, value.data());
    encode_fp8_row(value.data(), 64, again.data());
    decode_fp8_row(again.data(), 64, value_again.data());
    RC_ASSERT(value == value_again);
    encode_index_row(x.data(), 64, record.data());
    decode_index_row(record.data(), 64, value.data());
    encode_index_row(value.data(), 64, again.data());
    decode_index_row(again.data(), 64, value_again.data());
    RC_ASSERT(value == value_again);
  }));
}

TEST(Formats, NansDoNotCrash) {
  std::vector<float> x(64, std::nanf(""));
  x[3] = INFINITY;
  std::vector<bf16> y(64, bf16{0x7FC0});
  y[5] = {0xFF80};
  std::vector<uint8_t> record(128);
  std::vector<bf16> out(64);
  encode_fp8_row(x.data(), 64, record.data());
  decode_fp8_row(record.data(), 64, out.data());
  encode_fp8_row(y.data(), 64, record.data());
  encode_main_kv_row(y.data(), 64, record.data());
  decode_main_kv_row(record.data(), 64, out.data());
  encode_index_row(y.data(), 64, record.data());
  decode_index_row(record.data(), 64, out.data());
}

TEST(Formats, Bf16RoundsToNearestEven) {
  EXPECT_TRUE(rc::check("the nearest bf16, ties to even", [] {
    const float value = std::bit_cast<float>(*rc::gen::arbitrary<uint32_t>());
    RC_PRE(std::isfinite(value));
    const bf16 result = to_bf16(value);
    const double error = std::fabs(double{value} - to_float(result));
    RC_PRE(std::isfinite(to_float(result)));
    for (const int step : {-1, 1}) {
      const float neighbour = to_float({static_cast<uint16_t>(result.bits + step)});
      if (!std::isfinite(neighbour)) continue;
      const double other = std::fabs(double{value} - neighbour);
      RC_ASSERT(error < other || (error == other && result.bits % 2 == 0) || (result.bits & 0x7FFF) == 0);
    }
  }));
}

}  // namespace
}  // namespace deepinfer
