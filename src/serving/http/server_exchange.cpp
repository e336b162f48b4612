#include "serving/http/server_exchange.h"

#include <thread>
#include <utility>

#include "base/check.h"

namespace deepinfer::serving {
namespace {

// What a handler holds.  Its end says that the handler has let go, while the connection still holds the exchange.
class ExchangeHandle final : public HttpExchange {
 public:
  explicit ExchangeHandle(std::shared_ptr<ServerExchange> exchange) : exchange_(std::move(exchange)) {}
  ~ExchangeHandle() override { exchange_->let_go(); }

  const HttpRequest& request() const override { return exchange_->request(); }
  void respond(HttpResponse response) override { exchange_->respond(std::move(response)); }
  void begin_stream(HttpResponse head) override { exchange_->begin_stream(std::move(head)); }
  bool write(std::string_view bytes) override { return exchange_->write(bytes); }
  void set_heartbeat(std::string bytes) override { exchange_->set_heartbeat(std::move(bytes)); }
  void end_stream() override { exchange_->end_stream(); }
  void abort_stream() override { exchange_->abort_stream(); }
  void describe(std::string members) override { exchange_->describe(std::move(members)); }
  void on_client_gone(std::function<void()> callback) override { exchange_->on_client_gone(std::move(callback)); }

 private:
  const std::shared_ptr<ServerExchange> exchange_;
};

}  // namespace

void ReadyQueue::push(std::shared_ptr<ServerExchange> exchange) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    ready_.push_back(std::move(exchange));
    if (ready_.size() > 1) return;
    ++waking_;
  }
  wake_();
  --waking_;
}

void ReadyQueue::take(std::vector<std::shared_ptr<ServerExchange>>& taken) {
  const std::lock_guard lock(mutex_);
  ready_.swap(taken);
}

void ReadyQueue::close() {
  std::vector<std::shared_ptr<ServerExchange>> dropped;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    ready_.swap(dropped);
  }
  while (waking_ > 0) std::this_thread::yield();
}

ServerExchange::ServerExchange(HttpRequest request, std::size_t body_memory, std::shared_ptr<ServerState> state,
                               std::shared_ptr<ReadyQueue> queue, Connection* connection)
    : request_(std::move(request)),
      body_memory_(body_memory),
      state_(std::move(state)),
      queue_(std::move(queue)),
      connection_(connection) {
  state_->exchange_began();
}

ServerExchange::~ServerExchange() {
  state_->give_back_body_memory(body_memory_);
}

std::shared_ptr<HttpExchange> ServerExchange::make_handle() {
  return std::make_shared<ExchangeHandle>(shared_from_this());
}

bool ServerExchange::make_ready() {
  return !gone_ && !std::exchange(ready_, true);
}

void ServerExchange::respond(HttpResponse response) {
  bool wakes = false;
  {
    const std::lock_guard lock(mutex_);
    DI_CHECK(phase_ == Phase::kOpen, "an exchange is answered once");
    phase_ = Phase::kEnded;
    head_ = std::move(response);
    whole_ = true;
    wakes = make_ready();
  }
  if (wakes) push();
}

void ServerExchange::begin_stream(HttpResponse head) {
  bool wakes = false;
  {
    const std::lock_guard lock(mutex_);
    DI_CHECK(phase_ == Phase::kOpen, "an exchange is answered once");
    phase_ = Phase::kStream;
    head_ = std::move(head);
    wakes = make_ready();
  }
  if (wakes) push();
}

bool ServerExchange::write(std::string_view bytes) {
  bool wakes = false;
  bool taken = true;
  {
    const std::lock_guard lock(mutex_);
    DI_CHECK(phase_ == Phase::kStream, "bytes of a body need a stream");
    if (gone_ || overflowed_) return false;
    if (bytes.empty() || request_.method == "HEAD") return true;
    const std::size_t waiting = waiting_.size() + in_flight_;
    if (waiting > 0 && waiting + bytes.size() > state_->options.max_queued_bytes) {
      overflowed_ = true;
      taken = false;
      ready_ = false;  // the connection may have been told, and wait for its client
    } else {
      waiting_.append(bytes);
    }
    wakes = make_ready();
  }
  if (wakes) push();
  return taken;
}

void ServerExchange::set_heartbeat(std::string bytes) {
  const std::lock_guard lock(mutex_);
  heartbeat_ = std::move(bytes);
}

void ServerExchange::end_stream() {
  bool wakes = false;
  {
    const std::lock_guard lock(mutex_);
    DI_CHECK(phase_ == Phase::kStream, "a stream ends once");
    phase_ = Phase::kEnded;
    wakes = make_ready();
  }
  if (wakes) push();
}

void ServerExchange::abort_stream() {
  bool wakes = false;
  {
    const std::lock_guard lock(mutex_);
    DI_CHECK(phase_ == Phase::kStream, "a stream ends once");
    phase_ = Phase::kEnded;
    aborted_ = true;
    wakes = make_ready();
  }
  if (wakes) push();
}

void ServerExchange::describe(std::string members) {
  const std::lock_guard lock(mutex_);
  description_ = std::move(members);
}

std::string ServerExchange::description() {
  const std::lock_guard lock(mutex_);
  return description_;
}

void ServerExchange::on_client_gone(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    if (!gone_) {
      on_gone_ = std::move(callback);
      return;
    }
  }
  callback();
}

void ServerExchange::let_go() {
  Phase phase;
  {
    const std::lock_guard lock(mutex_);
    phase = phase_;
  }
  if (phase == Phase::kOpen) {
    respond(state_->error_response(request_, {500, "the request was not answered", HttpRefusal::kMalformed}));
  } else if (phase == Phase::kStream) {
    abort_stream();
  }
}

ServerExchange::Output ServerExchange::take(std::string& bytes) {
  const std::lock_guard lock(mutex_);
  ready_ = false;
  Output output;
  output.head = std::exchange(head_, std::nullopt);
  output.whole = whole_;
  output.ended = phase_ == Phase::kEnded;
  output.aborted = aborted_;
  waiting_.swap(bytes);
  in_flight_ = bytes.size();
  return output;
}

bool ServerExchange::overflowed() {
  const std::lock_guard lock(mutex_);
  return overflowed_;
}

void ServerExchange::sent() {
  const std::lock_guard lock(mutex_);
  in_flight_ = 0;
}

void ServerExchange::beat() {
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::kStream && waiting_.empty()) waiting_.append(heartbeat_);
}

void ServerExchange::client_gone() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    if (gone_ || finished_) return;
    gone_ = true;
    callback.swap(on_gone_);
    std::string().swap(waiting_);
    head_.reset();
  }
  state_->exchange_ended();
  if (callback) callback();
}

void ServerExchange::finish() {
  std::function<void()> callback;  // dropped without the lock: it may own a handle
  {
    const std::lock_guard lock(mutex_);
    if (gone_ || finished_) return;
    finished_ = true;
    callback.swap(on_gone_);
  }
  state_->exchange_ended();
}

}  // namespace deepinfer::serving
