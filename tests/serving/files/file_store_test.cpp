// Files of several owners, and what a server finds that was killed while it kept one.
#include "serving/files/file_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "apps/temporary_folder.h"

namespace deepinfer::serving {
namespace {

namespace fs = std::filesystem;

StoredFile about(const std::string& id, const std::string& owner, int64_t created = 1) {
  return {id, owner, "requests \"x\".jsonl", "batch", 0, created};
}

TEST(FileStore, KeepsFilesOfOwnersApart) {
  const cli::TemporaryFolder folder;
  {
    const auto store = FileStore::open(folder.path() / "store", {}).value();
    EXPECT_EQ(store->add(about("file-2", "ann", 2), "two").value().bytes, 3);
    EXPECT_TRUE(store->add(about("file-1", "ann", 1), "").ok());
    EXPECT_TRUE(store->add(about("file-3", "bob"), "three").ok());
    EXPECT_FALSE(store->find("ann", "file-3"));
    EXPECT_FALSE(store->remove("ann", "file-3").value());
    EXPECT_FALSE(FileStore::open(folder.path() / "store", {}).ok()) << "one server at a time";
  }
  const auto store = FileStore::open(folder.path() / "store", {}).value();
  const auto list = store->list("ann");
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].id, "file-1");
  EXPECT_EQ(list[1].filename, "requests \"x\".jsonl");
  EXPECT_EQ(cli::read_file(store->content("file-2")), "two");
  EXPECT_TRUE(store->remove("ann", "file-2").value());
  EXPECT_FALSE(fs::exists(store->content("file-2")));
  EXPECT_EQ(fs::status(folder.path() / "store").permissions(), fs::perms::owner_all);
}

TEST(FileStore, WhatAKilledServerLeft) {
  const cli::TemporaryFolder folder;
  const fs::path files = folder.path() / "files";
  {
    const auto store = FileStore::open(folder.path(), {}).value();
    ASSERT_TRUE(store->add(about("file-whole", "ann"), "content").ok());
    ASSERT_TRUE(store->add(about("file-short", "ann"), "content").ok());
    ASSERT_TRUE(store->add(about("file-lost", "ann"), "content").ok());
  }
  for (const char* name : {"file-a.part", "file-b", "file-c.json.part", "file-whole.part"})
    std::ofstream(files / name) << "x";
  std::ofstream(files / "file-d.json") << "{\"id\":\"file-e\"";
  std::ofstream(files / "notes.txt") << "of somebody else";
  std::ofstream(files / "file-short", std::ios::trunc) << "c";
  fs::remove(files / "file-lost");
  const auto store = FileStore::open(folder.path(), {}).value();
  ASSERT_EQ(store->list("ann").size(), 1u);
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(files)) left.insert(entry.path().filename());
  EXPECT_EQ(left, (std::set<std::string>{"file-whole", "file-whole.json", "notes.txt"}));
}

TEST(FileStore, Limits) {
  const cli::TemporaryFolder folder;
  const auto store = FileStore::open(folder.path(), {.bytes = 10, .files = 2}).value();
  EXPECT_TRUE(store->add(about("file-1", "ann"), "123456").ok());
  EXPECT_EQ(store->add(about("file-2", "ann"), "12345").status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(store->add(about("file-3", "ann"), "1234").ok());
  EXPECT_TRUE(store->add(about("file-4", "bob"), "1234567890").ok()) << "of one owner";
  EXPECT_TRUE(store->remove("ann", "file-1").value());
  EXPECT_TRUE(store->add(about("file-5", "ann"), "1").ok());
  const auto third = store->add(about("file-6", "ann"), "1");
  EXPECT_NE(third.status().message().find("2 files"), std::string::npos);
  EXPECT_FALSE(fs::exists(store->content("file-6")));
}

TEST(FileStore, ATemporaryOneGoes) {
  fs::path content;
  {
    const auto store = FileStore::open_temporary({}).value();
    ASSERT_TRUE(store->add(about("file-1", "ann"), "1").ok());
    content = store->content("file-1");
    EXPECT_TRUE(fs::exists(content));
  }
  EXPECT_FALSE(fs::exists(content.parent_path().parent_path()));
}

TEST(FileStore, NoFolder) {
  EXPECT_EQ(FileStore::open("/proc/nowhere", {}).status().code(), StatusCode::kIoError);
}

}  // namespace
}  // namespace deepinfer::serving
