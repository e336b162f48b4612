// Fields of a request that have no effect: read by nobody, or overruled.  A server names them to its client.  Inside
// text/protocol only.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/protocol/request_fields.h"

namespace deepinfer {

// Appends the names of the body's members, null apart, that are in neither list, in their order.
void add_ignored_fields(const Json& body, std::initializer_list<std::string_view> honoured,
                        const std::vector<std::string_view>& more, std::vector<std::string>& ignored);

}  // namespace deepinfer
