#include "engine/engine_run.h"

namespace deepinfer {
namespace {

template <typename T>
void append(std::vector<T>& all, const std::vector<T>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

EngineRun::EngineRun(const OpsBackend& backend, EngineOptions options) {
  if (options.model.empty()) options.model = DEEPINFER_TEST_MODEL;
  auto engine = Engine::open(options, backend.make());
  DI_CHECK(engine.ok(), engine.status().message());
  engine_ = std::move(engine).value();
}

Result<RequestId> EngineRun::submit(EngineRequest request) {
  auto id = engine_->submit(std::move(request), [this](const RequestUpdate& update) {
    const std::lock_guard lock(mutex_);
    SeenRequest& seen = seen_[update.id];
    EXPECT_TRUE(seen.ends.empty()) << "an update after the end";
    EXPECT_TRUE(!update.tokens.empty() || update.end != nullptr);
    seen.tokens.insert(seen.tokens.end(), update.tokens.begin(), update.tokens.end());
    seen.prompt_logprobs.insert(seen.prompt_logprobs.end(), update.prompt_logprobs.begin(),
                                update.prompt_logprobs.end());
    seen.versions.insert(seen.versions.end(), update.tokens.size(), update.weights_version);
    if (update.choices != nullptr) {
      EXPECT_EQ(update.choices->first, seen.choices.tokens) << "each token's choices come once";
      seen.choices.tokens += update.choices->tokens;
      append(seen.choices.experts, update.choices->experts);
      append(seen.choices.selected, update.choices->selected);
    }
    if (update.end != nullptr) seen.ends.push_back(*update.end);
  });
  return id;
}

int64_t EngineRun::tokens_seen(RequestId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = seen_.find(id);
  return found == seen_.end() ? 0 : static_cast<int64_t>(found->second.tokens.size());
}

bool EngineRun::ended(RequestId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = seen_.find(id);
  return found != seen_.end() && !found->second.ends.empty();
}

void expect_same_tokens(const std::vector<GeneratedToken>& got, const std::vector<GeneratedToken>& want,
                        const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].token, want[i].token) << what << ", token " << i;
    ASSERT_EQ(got[i].position, want[i].position) << what << ", token " << i;
    ASSERT_EQ(got[i].logprob, want[i].logprob) << what << ", token " << i;
    ASSERT_EQ(got[i].top_logprobs.size(), want[i].top_logprobs.size()) << what;
    for (size_t k = 0; k < got[i].top_logprobs.size(); ++k) {
      ASSERT_EQ(got[i].top_logprobs[k].token, want[i].top_logprobs[k].token) << what << ", token " << i;
      ASSERT_EQ(got[i].top_logprobs[k].logprob, want[i].top_logprobs[k].logprob) << what << ", token " << i;
    }
  }
}

}  // namespace deepinfer
