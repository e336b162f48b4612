// The page that the server shows at "/", and its files at "/page/...": HTML, CSS and ES modules from the binary. Called
// by the program in front of the API's routes.  Nothing of it is secret: it needs no key, and asks for one itself.
#pragma once

#include <string_view>

#include "serving/http/http_exchange.h"

namespace deepinfer::serving {

// Whether a path (as in HttpRequest) is the page's, existing or not.
bool is_page_path(std::string_view path);

// Answers an exchange of such a path and returns true; false for any other path, which is left unanswered.
// 200, 304 for a matching if-none-match, 404 for a file that the page does not have, 405 for anything but GET and HEAD.
bool answer_page(HttpExchange& exchange);

}  // namespace deepinfer::serving
