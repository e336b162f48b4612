// A page of a list, as OpenAI's API cuts them: {"object":"list","data":[...],"first_id","last_id","has_more"}.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "text/json_text.h"

namespace deepinfer::serving {

struct PageSizes {
  int64_t usual = 20;
  int64_t most = 100;
};

// objects: all of them, the oldest first; each has an "id".  parameters: of the query: limit, after (an id) and order
// (asc, desc; default desc).  kInvalidArgument naming the parameter.
Result<Json> list_page(std::vector<Json> objects, const std::map<std::string, std::string>& parameters,
                       const PageSizes& sizes);

}  // namespace deepinfer::serving
