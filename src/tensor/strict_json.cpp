#include "tensor/strict_json.h"

#include <new>
#include <optional>
#include <string>

namespace deepinfer {
namespace {

namespace ondemand = simdjson::ondemand;

size_t first_invalid_utf8(const char* text, size_t size) {
  for (size_t i = 0; i < size;) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (length > size - i || !simdjson::validate_utf8(text + i, length)) return i;
    i += length;
  }
  return size;
}

// Reads everything under a value; false where the text stops being JSON.
bool walk(ondemand::value value, size_t depth) {
  ondemand::json_type type;
  if (depth > StrictJson::kMaxDepth || value.type().get(type)) return false;
  switch (type) {
    case ondemand::json_type::object: {
      ondemand::object object;
      if (value.get_object().get(object)) return false;
      for (auto field : object) {
        std::string_view key;
        ondemand::value inner;
        if (field.unescaped_key().get(key) || field.value().get(inner) || !walk(inner, depth + 1)) return false;
      }
      return true;
    }
    case ondemand::json_type::array: {
      ondemand::array array;
      if (value.get_array().get(array)) return false;
      for (auto element : array) {
        ondemand::value inner;
        if (std::move(element).get(inner) || !walk(inner, depth + 1)) return false;
      }
      return true;
    }
    case ondemand::json_type::string: {
      std::string_view text;
      return !value.get_string().get(text);
    }
    case ondemand::json_type::number: {
      ondemand::number number;
      return !value.get_number().get(number);
    }
    case ondemand::json_type::boolean: {
      bool boolean;
      return !value.get_bool().get(boolean);
    }
    case ondemand::json_type::null: {
      bool null = false;
      return !value.is_null().get(null) && null;
    }
  }
  return false;
}

// The strict parser does not say where it stopped; the lazy one does.
std::optional<size_t> locate_error(const char* text, size_t size) {
  const simdjson::padded_string padded(text, size);
  ondemand::parser parser;
  ondemand::document document;
  if (parser.iterate(padded).get(document)) return std::nullopt;
  ondemand::object root;
  if (!document.get_object().get(root)) {
    for (auto field : root) {
      std::string_view key;
      ondemand::value inner;
      if (field.unescaped_key().get(key) || field.value().get(inner) || !walk(inner, 2)) break;
    }
  }
  const char* place = nullptr;
  if (document.current_location().get(place)) return std::nullopt;
  const auto offset = static_cast<size_t>(place - padded.data());
  return offset <= size ? std::optional(offset) : std::nullopt;
}

std::string problem(simdjson::error_code error) {
  switch (error) {
    case simdjson::UTF8_ERROR:
      return "is not UTF-8";
    case simdjson::DEPTH_ERROR:
      return "is nested deeper than " + std::to_string(StrictJson::kMaxDepth) + " levels";
    case simdjson::EMPTY:
      return "is empty";
    case simdjson::NUMBER_ERROR:
      return "holds a malformed or too large number";
    case simdjson::UNCLOSED_STRING:
      return "holds a string without an end";
    case simdjson::UNESCAPED_CHARS:
      return "holds a control character inside a string";
    case simdjson::STRING_ERROR:
      return "holds a string with a bad escape";
    case simdjson::CAPACITY:
      return "is too large for this machine's memory";
    default:
      return "is not valid JSON";
  }
}

}  // namespace

Result<simdjson::dom::element> StrictJson::parse(std::span<const std::byte> bytes, uint64_t first_byte) {
  const char* text = reinterpret_cast<const char*>(bytes.data());
  simdjson::dom::element root;
  simdjson::error_code error = parser_.allocate(bytes.size(), kMaxDepth);
  if (error == simdjson::SUCCESS) error = parser_.parse(text, bytes.size()).get(root);
  if (error == simdjson::SUCCESS) return root;

  if (error == simdjson::MEMALLOC) throw std::bad_alloc();
  std::optional<size_t> offset;
  if (error == simdjson::UTF8_ERROR) {
    offset = first_invalid_utf8(text, bytes.size());
  } else if (error != simdjson::CAPACITY) {
    offset = locate_error(text, bytes.size());
  }
  std::string message = "the JSON " + problem(error);
  if (offset.has_value()) message += " (byte " + std::to_string(first_byte + *offset) + ")";
  return corrupt_file(message);
}

const char* kind_of(simdjson::dom::element value) {
  switch (value.type()) {
    case simdjson::dom::element_type::ARRAY:
      return "an array";
    case simdjson::dom::element_type::OBJECT:
      return "an object";
    case simdjson::dom::element_type::INT64:
    case simdjson::dom::element_type::UINT64:
      return "an integer";
    case simdjson::dom::element_type::DOUBLE:
      return "a number with a fraction or exponent";
    case simdjson::dom::element_type::STRING:
      return "a string";
    case simdjson::dom::element_type::BOOL:
      return "true or false";
    case simdjson::dom::element_type::NULL_VALUE:
      return "null";
  }
  return "an unknown value";
}

}  // namespace deepinfer
