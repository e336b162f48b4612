// RequestLedger: the requests that are alive, from submission to last update and removal from the executor.  It turns
// the outcomes of steps and the scheduler's ends into updates for callers.  Planner thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/function_ref.h"
#include "engine/engine.h"
#include "engine/step_executor.h"

namespace deepinfer {

// Who is told of a request.
struct Recipient {
  RequestCallback on_update;
  Status failure;  // the output thread's: what the callback threw; it is told nothing more but the end
};

// Updates on their way to the output thread.
struct DeliveryBatch {
  struct Item {
    RequestId id = 0;
    Recipient* recipient = nullptr;
    int64_t first_token = 0, tokens = 0;  // of `tokens`
    std::vector<GeneratedToken> prompt_logprobs;
    int64_t drafted = 0, weights_version = 0, cached_tokens = 0;
    std::unique_ptr<TokenChoices> choices;
    std::unique_ptr<RequestSummary> end;
    std::unique_ptr<Recipient> released;  // with the end: the recipient itself
  };
  std::vector<Item> items;
  std::vector<GeneratedToken> tokens;
  bool ends_change = false;  // the last of what came before a change of the engine's state was made
};

class RequestLedger {
 public:
  // Where it throws, on_update stays with the caller.
  void add(RequestId id, RequestCallback&& on_update, Time submitted, const AnswerMarks& marks);
  // Of the weights that the steps run with from now on.
  void set_weights_version(int64_t version) { weights_version_ = version; }

  // Notes what a plan does: who starts, who leaves the executor.
  void planned(const StepPlan& plan, Time now);
  // Takes the tokens of an outcome (moved out of it).
  void report(StepOutcome& outcome, Time now, DeliveryBatch& batch);
  // The tier below the pool brought [from, to) of the request's prompt.
  void brought(RequestId id, int64_t from, int64_t to);
  void end(const EndedRequest& ended, Time now, DeliveryBatch& batch);
  // Ends a request that the scheduler does not know: why is ok unless the reason is kError.
  void end_unplanned(RequestId id, EndReason reason, Status why, Time now, DeliveryBatch& batch);

  // Ended requests that no plan will name again, since the last call: the executor may forget them.
  void take_removals(std::vector<RequestId>& out);
  std::vector<RequestId> unfinished() const;
  bool empty() const { return live_.empty(); }

  // Calls end(id, recipient, summary) for every request that has not ended, and forgets them all.  Of the summary only
  // what the ledger knows is there.
  void end_all(Time now, FunctionRef<void(RequestId, Recipient&, RequestSummary&)> end);

 private:
  struct Live {
    std::unique_ptr<Recipient> recipient;  // null once it has ended
    Time submitted{0};
    bool placed = false;  // admitted and not retired since
    bool started = false;
    int64_t brought_from = 0, brought_to = 0;  // tokens of the prompt
    RequestSummary summary;
  };
  void finish(RequestId id, Live& live, EndReason reason, Time now, DeliveryBatch& batch);
  void remove_if_done(RequestId id);

  std::unordered_map<RequestId, Live> live_;
  std::vector<RequestId> removals_;
  int64_t weights_version_ = 0;
};

}  // namespace deepinfer
