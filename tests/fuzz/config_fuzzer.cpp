// Any bytes as a config.json: no crash, and whatever is accepted can be planned.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "models/deepseek_v41/cache_groups.h"
#include "models/deepseek_v41/config.h"
#include "models/deepseek_v41/engram_token_map.h"
#include "models/deepseek_v41/layer_table.h"
#include "models/deepseek_v41/row_plan.h"

using namespace deepinfer;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)deepseek_v41::parse_engram_token_map(text, "fuzz");
  const auto config = deepseek_v41::parse_config(text, "fuzz");
  if (!config.ok()) return 0;
  const auto table = deepseek_v41::make_layer_table(*config);
  if (!table.ok()) return 0;
  const auto groups = deepseek_v41::make_cache_groups(*config, *table);
  (void)groups.layout.bytes_per_sequence();
  for (int layer = 0; layer < table->layer_count; ++layer) {
    (void)deepseek_v41::layer_cut(*config, *table, {RowRule::Kind::kExact, 1000}, layer);
  }
  return 0;
}
