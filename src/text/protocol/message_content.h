// Message contents of the three protocols: parts joined by an empty line, images as placeholders between them.
// Inside text/protocol only.
#pragma once

#include <string>
#include <string_view>

#include "text/conversation.h"
#include "text/protocol/request_fields.h"

namespace deepinfer {

// Joins the parts of one message with "\n\n".
class ContentBuilder {
 public:
  void add_text(std::string_view text);
  void add_image(ImageSource source);
  bool has_images() const { return !images_.empty(); }
  size_t images() const { return images_.size(); }
  // Moves what was collected into `message`.
  void move_to(Message& message);

 private:
  void separate();

  bool empty_ = true;
  std::string text_;
  std::vector<InlineImage> images_;
};

// An http(s) or data address.  `place` names the message in errors, `link` the address itself.
ImageSource read_image_url(const std::string& url, ImageDetail detail, const std::string& place,
                           const std::string& link);
ImageDetail read_image_detail(const Fields& fields);

// The media type that a data URL declares, lower case; empty when there is none.
std::string data_url_media_type(std::string_view url);
bool is_supported_image_type(std::string_view media_type);

// True when the text contains "json" in any case.
bool mentions_json(std::string_view text);

}  // namespace deepinfer
