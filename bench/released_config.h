// config.json of the released DeepSeek-V4.1-Flash, for benchmarks of its real dimensions without its weights.
#pragma once

#include <string_view>

namespace deepinfer::bench {

std::string_view released_config_json();

}  // namespace deepinfer::bench
