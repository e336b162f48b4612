#include "serving/api/recorded_exchange.h"

#include <gtest/gtest.h>

#include <chrono>

namespace deepinfer::serving {

void RecordedExchange::respond(HttpResponse response) {
  const std::lock_guard lock(mutex_);
  EXPECT_FALSE(began_ || ended_) << "answered twice";
  response_ = std::move(response);
  finish();
}

void RecordedExchange::begin_stream(HttpResponse head) {
  const std::lock_guard lock(mutex_);
  EXPECT_FALSE(began_ || ended_) << "answered twice";
  response_ = std::move(head);
  response_.body.clear();
  began_ = true;
}

bool RecordedExchange::write(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  EXPECT_TRUE(began_ && !ended_) << "a write outside of a stream";
  if (gone_ || response_.body.size() + bytes.size() > most_bytes_) return false;
  response_.body += bytes;
  changed_.notify_all();
  return true;
}

void RecordedExchange::end_stream() {
  const std::lock_guard lock(mutex_);
  EXPECT_TRUE(began_ && !ended_) << "an end outside of a stream";
  finish();
}

void RecordedExchange::abort_stream() {
  const std::lock_guard lock(mutex_);
  EXPECT_TRUE(began_ && !ended_) << "an end outside of a stream";
  aborted_ = true;
  finish();
}

void RecordedExchange::describe(std::string members) {
  const std::lock_guard lock(mutex_);
  description_ = std::move(members);
}

Json RecordedExchange::description() {
  response();
  const std::lock_guard lock(mutex_);
  return parse_json("{" + description_ + "}").value();
}

void RecordedExchange::on_client_gone(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(on_gone_) << "set twice";
    if (!gone_) {
      on_gone_ = std::move(callback);
      return;
    }
  }
  callback();
}

void RecordedExchange::leave() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    if (!ended_) callback = std::exchange(on_gone_, nullptr);
  }
  if (callback) callback();
}

const HttpResponse& RecordedExchange::response() {
  std::unique_lock lock(mutex_);
  wait(lock);
  return response_;
}

std::string RecordedExchange::header(const std::string& name) {
  for (const auto& [field, value] : response().headers)
    if (field == name) return value;
  return {};
}

bool RecordedExchange::streamed() {
  std::unique_lock lock(mutex_);
  wait(lock);
  return began_;
}

bool RecordedExchange::aborted() {
  std::unique_lock lock(mutex_);
  wait(lock);
  return aborted_;
}

void RecordedExchange::wait_for_bytes(size_t bytes) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::seconds(60), [&] { return response_.body.size() >= bytes; });
}

bool RecordedExchange::answered() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

void RecordedExchange::wait(std::unique_lock<std::mutex>& lock) {
  ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return ended_; })) << "no answer";
}

void RecordedExchange::finish() {
  ended_ = true;
  on_gone_ = nullptr;
  changed_.notify_all();
}

HttpRequest post(const std::string& path, std::string body) {
  HttpRequest request;
  request.method = "POST";
  request.path = path;
  request.body = std::move(body);
  return request;
}

HttpRequest get(const std::string& path) {
  HttpRequest request;
  request.method = "GET";
  request.path = path;
  return request;
}

}  // namespace deepinfer::serving
