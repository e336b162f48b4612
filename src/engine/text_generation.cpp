#include "engine/text_generation.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "text/stop_strings.h"
#include "text/stream_decoder.h"

namespace deepinfer {
namespace {

// One request's text, on the output thread.
class TextStream {
 public:
  TextStream(Engine& engine, const Tokenizer& tokenizer, TextRequest& request, TextCallback on_update)
      : engine_(engine),
        decoder_(tokenizer),
        stops_(request.stop),
        stop_tokens_(request.request.params.stop_tokens),
        include_stop_(request.include_stop),
        on_update_(std::move(on_update)) {}

  void update(const RequestUpdate& update) {
    text_.clear();
    // Tokens that the engine decided before it saw the cancellation were never part of the answer.
    size_t taken = 0;
    while (stops_.found() == nullptr && taken < update.tokens.size()) take(update.tokens[taken++]);
    delivered_ += static_cast<int64_t>(taken);
    if (stops_.found() != nullptr && taken > 0) {
      if (include_stop_) text_ += *stops_.found();
      engine_.cancel(update.id);
    }
    if (update.end == nullptr) {
      if (taken > 0) tell(update, taken, nullptr);
      return;
    }
    if (stops_.found() == nullptr) {
      stops_.feed(decoder_.finish(), text_);
      stops_.finish(text_);
    }
    TextSummary summary{*update.end, stops_.found_index()};
    summary.request.answer_tokens = delivered_;
    if (stops_.found() != nullptr) summary.request.reason = EndReason::kStop;
    tell(update, taken, &summary);
  }

 private:
  void tell(const RequestUpdate& update, size_t taken, const TextSummary* end) {
    on_update_({update.id, text_, update.tokens.first(taken), end, update.prompt_logprobs, update.drafted,
                update.weights_version, update.choices});
  }
  void take(const GeneratedToken& token) {
    const bool ends = std::find(stop_tokens_.begin(), stop_tokens_.end(), token.token) != stop_tokens_.end();
    if (!ends || include_stop_) stops_.feed(decoder_.push(token.token), text_);
  }

  Engine& engine_;
  StreamDecoder decoder_;
  StopStrings stops_;
  std::vector<int32_t> stop_tokens_;
  bool include_stop_;
  TextCallback on_update_;
  std::string text_;
  int64_t delivered_ = 0;
};

}  // namespace

Result<RequestId> submit_text(Engine& engine, const Tokenizer& tokenizer, TextRequest request, TextCallback on_update) {
  auto stream = std::make_shared<TextStream>(engine, tokenizer, request, std::move(on_update));
  return engine.submit(std::move(request.request),
                       [stream = std::move(stream)](const RequestUpdate& update) { stream->update(update); });
}

}  // namespace deepinfer
