#include "text/protocol/message_content.h"

#include <algorithm>
#include <array>
#include <utility>

namespace deepinfer {
namespace {

constexpr size_t kMaxLinkLength = 8192;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool starts_with_ignoring_case(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() &&
         std::equal(prefix.begin(), prefix.end(), text.begin(), [](char a, char b) { return a == lower(b); });
}

}  // namespace

void ContentBuilder::separate() {
  if (!empty_) text_ += "\n\n";
  empty_ = false;
}

void ContentBuilder::add_text(std::string_view text) {
  separate();
  text_ += text;
}

void ContentBuilder::add_image(ImageSource source) {
  separate();
  images_.push_back({text_.size(), std::move(source)});
}

void ContentBuilder::move_to(Message& message) {
  message.content = std::move(text_);
  message.images = std::move(images_);
}

ImageSource read_image_url(const std::string& url, ImageDetail detail, const std::string& place,
                           const std::string& link) {
  if (starts_with_ignoring_case(url, "data:")) return {ImageSource::Kind::kDataUrl, url, detail, place};
  if (!starts_with_ignoring_case(url, "http://") && !starts_with_ignoring_case(url, "https://")) {
    fail_request(place + ": Unsupported image_url format");
  }
  if (url.size() > kMaxLinkLength) {
    fail_request(link + " external link length " + std::to_string(url.size()) + " too long, max link length " +
                 std::to_string(kMaxLinkLength) +
                 ". Consider passing file data directly with base64 data url instead.");
  }
  return {ImageSource::Kind::kUrl, url, detail, place};
}

ImageDetail read_image_detail(const Fields& fields) {
  const std::optional<std::string> detail = fields.string("detail");
  if (!detail) return ImageDetail::kHigh;
  constexpr std::array details = {ImageDetail::kLow, ImageDetail::kHigh, ImageDetail::kOriginal, ImageDetail::kAuto};
  return details[Fields::one_of(*detail, {"low", "high", "original", "auto"})];
}

std::string data_url_media_type(std::string_view url) {
  if (!starts_with_ignoring_case(url, "data:")) return {};
  url.remove_prefix(5);
  url = url.substr(0, url.find_first_of(",;"));
  std::string type(url);
  std::transform(type.begin(), type.end(), type.begin(), lower);
  return type;
}

bool is_supported_image_type(std::string_view media_type) {
  constexpr std::array<std::string_view, 5> types = {"image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp"};
  return std::find(types.begin(), types.end(), media_type) != types.end();
}

bool mentions_json(std::string_view text) {
  constexpr std::string_view word = "json";
  return std::search(text.begin(), text.end(), word.begin(), word.end(),
                     [](char a, char b) { return lower(a) == b; }) != text.end();
}

}  // namespace deepinfer
