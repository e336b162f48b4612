#include "serving/api/file_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <utility>

#include "serving/api/list_page.h"
#include "serving/api/query_parameters.h"
#include "serving/api/stored_answers.h"
#include "serving/files/multipart_form.h"

namespace deepinfer::serving {
namespace {

constexpr PageSizes kFilePages{10'000, 10'000};
constexpr int64_t kMostSentBytes = int64_t{1} << 30;  // at once: they are in memory then

Json file_object(const StoredFile& file) {
  Json out = Json::object();
  out["id"] = file.id;
  out["object"] = "file";
  out["bytes"] = file.bytes;
  out["created_at"] = file.created;
  out["filename"] = file.filename;
  out["purpose"] = file.purpose;
  out["status"] = "processed";
  return out;
}

ApiError no_file() {
  return {404, "not_found_error", "There is no such file."};
}

const FormPart* find_part(const std::vector<FormPart>& form, std::string_view name) {
  const auto found = std::find_if(form.begin(), form.end(), [&](const FormPart& part) { return part.name == name; });
  return found == form.end() ? nullptr : &*found;
}

struct ByteRange {
  int64_t first = 0, last = 0;
};

// "bytes=FIRST-", "bytes=FIRST-LAST"; other forms, and what lies outside, are none.
std::optional<ByteRange> read_range(std::string_view text, int64_t size) {
  constexpr std::string_view kUnit = "bytes=";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  ByteRange range{-1, size - 1};
  const char* const end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, range.first);
  if (error != std::errc() || at == end || *at != '-') return std::nullopt;
  if (++at != end) {
    const auto [behind, wrong] = std::from_chars(at, end, range.last);
    if (wrong != std::errc() || behind != end) return std::nullopt;
  }
  range.last = std::min(range.last, size - 1);
  if (range.first < 0 || range.first > range.last) return std::nullopt;
  return range;
}

}  // namespace

AnswerOrError upload_file(const HttpRequest& request, const FileAccess& access) {
  const Result<std::vector<FormPart>> form = parse_multipart_form(request.header("content-type"), request.body);
  if (!form.ok()) return bad_request(form.status().message());
  const FormPart* const file = find_part(*form, "file");
  const FormPart* const purpose = find_part(*form, "purpose");
  if (file == nullptr || !file->filename) return bad_request("file: a part with a filename is needed");
  if (purpose == nullptr || purpose->content != "batch")
    return bad_request("purpose: the only one supported is `batch`");
  StoredFile about;
  about.id = access.ids.id("file-");
  about.owner = access.owner;
  about.filename = file->filename->empty() ? "upload" : *file->filename;
  about.purpose = "batch";
  about.created = access.now;
  const Result<StoredFile> stored = access.files.add(std::move(about), file->content);
  if (!stored.ok()) return stored_error(stored.status());
  std::vector<std::string> ignored;
  for (const FormPart& part : *form)
    if (&part != file && &part != purpose) ignored.push_back(part.name);
  return stored_answer(file_object(*stored), ignored, access.metrics);
}

AnswerOrError list_files(const HttpRequest& request, const FileAccess& access) {
  const auto parameters = parse_query(request.query);
  if (!parameters.ok()) return bad_request(parameters.status().message());
  const auto purpose = parameters->find("purpose");
  std::vector<Json> objects;
  for (const StoredFile& file : access.files.list(access.owner))
    if (purpose == parameters->end() || purpose->second == file.purpose) objects.push_back(file_object(file));
  const Result<Json> page = list_page(std::move(objects), *parameters, kFilePages);
  if (!page.ok()) return bad_request(page.status().message());
  return stored_answer(*page, {}, access.metrics);
}

AnswerOrError get_file(const HttpRequest& request, const FileAccess& access) {
  const std::optional<StoredFile> file = access.files.find(access.owner, name_in_path(request));
  if (!file) return no_file();
  return stored_answer(file_object(*file), {}, access.metrics);
}

AnswerOrError delete_file(const HttpRequest& request, const FileAccess& access) {
  const std::string id = name_in_path(request);
  if (!access.files.find(access.owner, id)) return no_file();
  if (const std::optional<std::string> batch = access.batches.user_of(id))
    return bad_request(fmt::format("The file is the input of {}, which has not ended.", *batch));
  const Result<bool> removed = access.files.remove(access.owner, id);
  if (!removed.ok()) return stored_error(removed.status());
  if (!*removed) return no_file();
  return stored_answer(Json{{"id", id}, {"object", "file"}, {"deleted", true}}, {}, access.metrics);
}

AnswerOrError get_file_content(const HttpRequest& request, const FileAccess& access) {
  const std::optional<StoredFile> file = access.files.find(access.owner, name_in_path(request));
  if (!file) return no_file();
  const std::optional<ByteRange> asked = read_range(request.header("range"), file->bytes);
  const ByteRange range = asked.value_or(ByteRange{0, file->bytes - 1});
  const int64_t size = range.last - range.first + 1;
  if (size > kMostSentBytes)
    return bad_request(
        fmt::format("These are {} bytes, {} can be had at once: ask for parts of the file with the header "
                    "`range`.",
                    size, kMostSentBytes));
  HttpResponse response;
  response.content_type = "application/octet-stream";
  response.headers.emplace_back("accept-ranges", "bytes");
  if (asked) {
    response.status = 206;
    response.headers.emplace_back("content-range", fmt::format("bytes {}-{}/{}", range.first, range.last, file->bytes));
  }
  response.body.resize(static_cast<size_t>(size));
  std::ifstream in(access.files.content(file->id), std::ios::binary);
  in.seekg(range.first);
  if (!in.read(response.body.data(), size)) return stored_error(io_error("the file cannot be read"));
  return response;
}

}  // namespace deepinfer::serving
