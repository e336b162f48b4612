#include "text/protocol/ignored_fields.h"

#include <algorithm>

namespace deepinfer {

void add_ignored_fields(const Json& body, std::initializer_list<std::string_view> honoured,
                        const std::vector<std::string_view>& more, std::vector<std::string>& ignored) {
  for (const auto& [key, value] : body.items()) {
    if (value.is_null()) continue;
    if (std::find(honoured.begin(), honoured.end(), key) != honoured.end()) continue;
    if (std::find(more.begin(), more.end(), key) != more.end()) continue;
    ignored.push_back(key);
  }
}

}  // namespace deepinfer
