// The tools that `run --tools FILE` shows to the model.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "text/conversation.h"

namespace deepinfer::cli {

// A JSON array of tools as in Chat Completions: {"type": "function", "function": {"name", "description",
// "parameters"}}. Invalid argument: the message names the file, the field and the rule.
Result<std::vector<ToolDefinition>> read_tools(const std::string& file);

}  // namespace deepinfer::cli
