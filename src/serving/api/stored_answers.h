// What the routes of files and batches have in common.  Inside serving/api only.
#pragma once

#include <string>
#include <vector>

#include "serving/api/api_metrics.h"
#include "serving/api/text_routes.h"
#include "text/json_text.h"

namespace deepinfer::serving {

ApiError bad_request(std::string message);
// 400 for what the client asked for, 500 for the rest.
ApiError stored_error(const Status& status);
// ignored: names of fields without effect.
HttpResponse stored_answer(const Json& object, const std::vector<std::string>& ignored, ApiMetrics& metrics);
// ID in /v1/files/ID and /v1/files/ID/content.
std::string name_in_path(const HttpRequest& request);

}  // namespace deepinfer::serving
