// Forms that clients send, forms that two readers could read in two ways, and any bytes.
#include "serving/files/multipart_form.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

namespace deepinfer::serving {
namespace {

constexpr const char* kType = "multipart/form-data; boundary=XX";

std::string part(const std::string& disposition, const std::string& content) {
  return "--XX\r\nContent-Disposition: " + disposition + "\r\n\r\n" + content + "\r\n";
}

TEST(MultipartForm, WhatTheOpenaiPackageSends) {
  const std::string body =
      "--0f1e\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--0f1e\r\nContent-Disposition: "
      "form-data; "
      "name=\"file\"; filename=\"requests.jsonl\"\r\nContent-Type: "
      "application/octet-stream\r\n\r\n{}\r\n--XX\r\n--0f1\r\n"
      "\r\n--0f1e--\r\n";
  const auto form = parse_multipart_form("multipart/form-data; boundary=0f1e", body);
  ASSERT_TRUE(form.ok()) << form.status().message();
  ASSERT_EQ(form->size(), 2u);
  EXPECT_EQ(form->at(0).name, "purpose");
  EXPECT_FALSE(form->at(0).filename);
  EXPECT_EQ(form->at(0).content, "batch");
  EXPECT_EQ(form->at(1).filename, "requests.jsonl");
  EXPECT_EQ(form->at(1).content, "{}\r\n--XX\r\n--0f1\r\n");
}

TEST(MultipartForm, Accepted) {
  const std::string one = part("form-data; name=a", "") + "--XX--";
  for (const char* type : {"multipart/form-data;boundary=XX", "Multipart/Form-Data; charset=utf-8; Boundary=\"XX\"",
                           "  multipart/form-data ; boundary=XX"})
    EXPECT_TRUE(parse_multipart_form(type, one).ok()) << type;
  for (const std::string& body : {one, one + "\r\n", one + " \t\r\n", std::string("--XX--\r\n"),
                                  part(R"(form-data; name="a\"b\\c"; filename="../../etc/passwd")", "x") + "--XX--\r\n",
                                  part("FORM-DATA; NAME=\"\xC3\xA4\"; filename*=UTF-8''a", "x") +
                                      "--XX  \r\ncontent-disposition:form-data;name=b\r\n" +
                                      "content-transfer-encoding: BINARY\r\n\r\n\r\n--XX--"})
    EXPECT_TRUE(parse_multipart_form(kType, body).ok()) << body;
  const auto quoted = parse_multipart_form(kType, part(R"(form-data; name="a\"b\\c\d")", "x") + "--XX--");
  EXPECT_EQ(quoted.value().at(0).name, R"(a"b\c\d)");
}

TEST(MultipartForm, RefusedTypes) {
  const std::string body = part("form-data; name=a", "") + "--XX--";
  for (const char* type :
       {"", "application/json", "multipart/mixed; boundary=XX", "multipart/form-data",
        "multipart/form-data; boundary=", "multipart/form-data; boundary=\"\"",
        "multipart/form-data; boundary=XX; boundary=YY", "multipart/form-data; boundary=\"XX",
        "multipart/form-data boundary=XX", "multipart/form-data; boundary=X\xC3\xA4",
        "multipart/form-data; boundary=\"X \"", "multipart/form-data; boundary=XX, multipart/form-data",
        "multipart/form-datax; boundary=XX", "multipart/form-data; ; boundary=XX"})
    EXPECT_FALSE(parse_multipart_form(type, body).ok()) << type;
  EXPECT_FALSE(parse_multipart_form("multipart/form-data; boundary=" + std::string(71, 'X'), body).ok());
}

TEST(MultipartForm, RefusedBodies) {
  const std::string ok = part("form-data; name=a", "x"), end = "--XX--\r\n";
  for (const auto& [body, what] : std::vector<std::pair<std::string, std::string>>{
           {"", "does not begin with its boundary"},
           {"x" + ok + end, "does not begin with its boundary"},
           {"\r\n" + ok + end, "does not begin with its boundary"},
           {ok, "the boundary behind it is missing"},
           {"--XX\r\n", "its header does not end"},
           {"--XX\ncontent-disposition: form-data; name=a\n\nx\n--XX--", "does not end behind it"},
           {ok + "--XXX\r\n", "does not end behind it"},
           {ok + "--XX-", "does not end behind it"},
           {ok + end + "x", "bytes behind the end"},
           {ok + end + end, "bytes behind the end"},
           {ok + ok + end, "part 2 of the form: `a` is there twice"},
           {"--XX\r\n\r\nx\r\n--XX--", "part 1"},
           {"--XX\r\ncontent-type: a\r\n\r\nx\r\n--XX--", "no content-disposition"},
           {"--XX\r\n: form-data; name=a\r\n\r\nx\r\n--XX--", "malformed"},
           {"--XX\r\ncontent-disposition : form-data; name=a\r\n\r\nx\r\n--XX--", "malformed"},
           {"--XX\r\nContent-Disposition: form-data; name=a\r\n folded=b\r\n\r\nx\r\n--XX--", "malformed"},
           {"--XX\r\nContent-Disposition: form-data; name=a\r\nx: \n\r\n\r\nx\r\n--XX--", "malformed"},
           {part("attachment; name=a", "x") + end, "expected form-data"},
           {part("form-data", "x") + end, "expected form-data with a name"},
           {part("form-data; name", "x") + end, "expected form-data"},
           {part("form-data; name=\"a", "x") + end, "expected form-data"},
           {part("form-data; name=a; name=b", "x") + end, "expected form-data"},
           {part("form-data; name=\"\"", "x") + end, "UTF-8"},
           {part("form-data; name=\"\xFF\"", "x") + end, "UTF-8"},
           {part("form-data; name=a; filename=\"\x01\"", "x") + end, "UTF-8"},
           {part("form-data; name=" + std::string(257, 'a'), "x") + end, "at most 256 bytes"},
           {part("form-data; name=a\r\ncontent-disposition: form-data; name=b", "x") + end, "there twice"},
           {part("form-data; name=a\r\ncontent-transfer-encoding: base64", "eA==") + end, "content-transfer-encoding"},
           {part("form-data; name=a\r\nx: " + std::string(5000, 'y'), "x") + end, "within 4096 bytes"},
           {"--XX\r\ncontent-disposition: form-data; name=a\r\n\r\n--XX--", "the boundary behind it is missing"},
       }) {
    const auto form = parse_multipart_form(kType, body);
    ASSERT_FALSE(form.ok()) << body;
    EXPECT_NE(form.status().message().find(what), std::string::npos) << body << "\n" << form.status().message();
  }
  std::string many;
  for (int i = 0; i < 33; ++i) many += part("form-data; name=n" + std::to_string(i), "");
  EXPECT_FALSE(parse_multipart_form(kType, many + end).ok());
}

RC_GTEST_PROP(MultipartForm, GivesBackWhatWasPut, (const std::vector<std::string>& given)) {
  std::string body;
  std::vector<std::string> contents;
  for (const std::string& content : given) {
    if (contents.size() == kMostFormParts || ("\r\n" + content + "\r\n--XX").find("\r\n--XX") != content.size() + 2)
      continue;
    body += part("form-data; name=n" + std::to_string(contents.size()), content);
    contents.push_back(content);
  }
  body += "--XX--\r\n";
  const auto form = parse_multipart_form(kType, body);
  RC_ASSERT(form.ok());
  RC_ASSERT(form->size() == contents.size());
  for (size_t i = 0; i < contents.size(); ++i) RC_ASSERT(form->at(i).content == contents[i]);
}

// Forms with some bytes changed: read or refused, and what is read lies in the body and keeps its bounds.
RC_GTEST_PROP(MultipartForm, AnyBytes, (const std::vector<std::pair<uint16_t, char>>& changes)) {
  std::string body =
      part("form-data; name=a; filename=\"b\"", "content") + part("form-data; name=c", "--XX") + "--XX--\r\n";
  for (const auto& [place, byte] : changes) body[place % body.size()] = byte;
  const auto form = parse_multipart_form(kType, body);
  if (!form.ok()) return;
  RC_ASSERT(form->size() <= kMostFormParts);
  for (const FormPart& one : *form) {
    RC_ASSERT(one.content.data() >= body.data() &&
              one.content.data() + one.content.size() <= body.data() + body.size());
    RC_ASSERT(!one.name.empty() && one.name.size() <= kMostFormNameBytes);
    RC_ASSERT(one.content.find("\r\n--XX") == std::string_view::npos);
  }
}

}  // namespace
}  // namespace deepinfer::serving
