// The literal texts of a DeepSeek V4.1 prompt: control tokens and the instructions around tools and response formats.
// Used by prompt_encoding.cpp (writing) and output_patterns.cpp (reading).
#pragma once

#include <array>
#include <string_view>

namespace deepinfer {

namespace token {
inline constexpr std::string_view kBeginOfSentence = "<｜begin▁of▁sentence｜>";
inline constexpr std::string_view kEndOfSentence = "<｜end▁of▁sentence｜>";
inline constexpr std::string_view kSystem = "<｜System｜>";
inline constexpr std::string_view kUser = "<｜User｜>";
inline constexpr std::string_view kAssistant = "<｜Assistant｜>";
inline constexpr std::string_view kLatestReminder = "<｜latest_reminder｜>";
inline constexpr std::string_view kThink = "<think>";
inline constexpr std::string_view kEndThink = "</think>";
inline constexpr std::string_view kDsml = "｜DSML｜";
inline constexpr std::string_view kImage = "<｜image｜>";
}  // namespace token

// What is a control token inside our own instruction texts.
inline constexpr std::array<std::string_view, 3> kTemplateTokens = {token::kDsml, token::kThink, token::kEndThink};

// Spellings that are control tokens wherever an assistant wrote them.
inline constexpr std::array<std::string_view, 8> kGroundingTokens = {"<｜ref｜>",     "<｜/ref｜>",    "<｜box｜>",
                                                                     "<｜/box｜>",    "<｜point｜>",   "<｜/point｜>",
                                                                     "<｜polygon｜>", "<｜/polygon｜>"};

// One schema a line stands between head and tail.
inline constexpr std::string_view kToolsBlockHead =
    R"(## Tools

You have access to a set of tools to help answer the user's question. You can invoke tools by writing a "<｜DSML｜ calls>" block like the following:

<｜DSML｜ calls>
<｜DSML｜ invoke name="$TOOL_NAME">
<｜DSML｜ parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</｜DSML｜ parameter>
...
</｜DSML｜ invoke>
<｜DSML｜ invoke name="$TOOL_NAME2">
...
</｜DSML｜ invoke>
</｜DSML｜ calls>

String parameters should be specified as is and set `string="true"`. For all other types (numbers, booleans, arrays, objects), pass the value in JSON format and set `string="false"`.

If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning inside <think>...</think> BEFORE any tool calls or final response.

Otherwise, output directly after </think> with tool calls or final response.

### Available Tool Schemas

)";
inline constexpr std::string_view kToolsBlockTail =
    "\n\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.\n";

inline constexpr std::string_view kResponseFormatHead =
    "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";

}  // namespace deepinfer
