#include "serving/api/list_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace deepinfer::serving {

Result<Json> list_page(std::vector<Json> objects, const std::map<std::string, std::string>& parameters,
                       const PageSizes& sizes) {
  const auto given = [&](const char* name) {
    const auto found = parameters.find(name);
    return found == parameters.end() ? nullptr : &found->second;
  };
  int64_t limit = sizes.usual;
  if (const std::string* text = given("limit")) {
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), limit);
    if (error != std::errc() || end != text->data() + text->size() || limit < 1 || limit > sizes.most)
      return invalid_argument(fmt::format("limit: allowed are 1 to {}", sizes.most));
  }
  const std::string* order = given("order");
  if (order != nullptr && *order != "asc" && *order != "desc")
    return invalid_argument("order: allowed are asc and desc");
  if (order == nullptr || *order == "desc") std::reverse(objects.begin(), objects.end());
  auto first = objects.begin();
  if (const std::string* after = given("after")) {
    first = std::find_if(objects.begin(), objects.end(), [&](const Json& one) { return one.at("id") == *after; });
    if (first == objects.end()) return invalid_argument("after: there is nothing with this id in the list");
    ++first;
  }
  const auto last = first + std::min<std::ptrdiff_t>(limit, objects.end() - first);
  Json out = Json::object();
  out["object"] = "list";
  out["first_id"] = first == last ? Json(nullptr) : first->at("id");
  out["last_id"] = first == last ? Json(nullptr) : (last - 1)->at("id");
  out["has_more"] = last != objects.end();
  Json data = Json::array();
  std::move(first, last, std::back_inserter(data));
  out["data"] = std::move(data);
  return out;
}

}  // namespace deepinfer::serving
