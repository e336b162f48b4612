// Ids of tool calls.  The server makes them; a later request brings them back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace deepinfer {

// "call_II_" or, after thinking that said nothing, "call_II_ET_", then 20 characters of [A-Za-z0-9] and four digits.
// `random` is any number; equal numbers give equal ids.
std::string make_call_id(int index, bool empty_thinking, uint64_t random);

// True for ids of the second form: the reasoning that belongs to the call was really empty.
bool says_empty_thinking(std::string_view id);

}  // namespace deepinfer
