#include "line_reader.h"

#include <langinfo.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cwchar>
#include <iostream>
#include <string_view>

#include "interrupt.h"
#include "terminal.h"
#include "text/utf8.h"

#ifdef DEEPINFER_HAS_LIBEDIT
#include <histedit.h>
#endif

namespace deepinfer::cli {
namespace {

class PipeReader : public LineReader {
 public:
  Input read(const std::string&) override {
    std::string line;
    errno = 0;
    if (!std::getline(std::cin, line)) {
      // The end of the input, unless it could not be read.
      if (std::ferror(stdin) != 0) return {Event::kError, {}, errno};
      return {Event::kEnd};
    }
    if (line.ends_with('\r')) line.pop_back();
    return {Event::kLine, std::move(line)};
  }
};

#ifdef DEEPINFER_HAS_LIBEDIT

// Set by the signal handler while a line is being edited.
volatile std::sig_atomic_t line_interrupted = 0;

// libedit asks for characters here: its own reader would go on after the first Ctrl-C.
int read_character(EditLine* editor, wchar_t* character) {
  (void)editor;
  std::string bytes;
  while (true) {
    char byte = 0;
    const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
    if (got < 0 && errno == EINTR && !line_interrupted) continue;  // the window changed its size
    if (got < 0) return -1;
    if (got == 0) return 0;
    bytes.push_back(byte);
    const Utf8Prefix prefix = utf8_prefix(bytes);
    if (prefix.kind == Utf8Prefix::Kind::kIncomplete) continue;
    *character = prefix.kind == Utf8Prefix::Kind::kCharacter ? static_cast<wchar_t>(prefix.code_point) : L'\uFFFD';
    return 1;
  }
}

class TerminalReader : public LineReader {
 public:
  explicit TerminalReader(const char* name) {
    // The editor converts between characters and bytes by the locale; the program itself speaks UTF-8 only.
    if (std::setlocale(LC_CTYPE, "") == nullptr || std::string_view(nl_langinfo(CODESET)) != "UTF-8")
      std::setlocale(LC_CTYPE, "C.UTF-8");
    editor_ = el_init(name, stdin, stderr, stderr);
    history_ = history_init();
    HistEvent event;
    history(history_, &event, H_SETSIZE, 1000);
    history(history_, &event, H_SETUNIQUE, 1);
    el_set(editor_, EL_EDITOR, "emacs");
    el_set(editor_, EL_CLIENTDATA, this);
    el_set(editor_, EL_PROMPT, &TerminalReader::prompt_text);
    el_set(editor_, EL_HIST, history, history_);
    el_set(editor_, EL_GETCFN, &read_character);
    el_source(editor_, nullptr);
  }
  ~TerminalReader() override {
    history_end(history_);
    el_end(editor_);
  }

  Input read(const std::string& prompt) override {
    prompt_ = prompt;
    line_interrupted = 0;
    int length = 0;
    const char* text = nullptr;
    {
      const InterruptScope scope([](void*) { line_interrupted = 1; }, nullptr);
      text = el_gets(editor_, &length);
    }
    if (line_interrupted) {
      el_reset(editor_);
      write_standard_error("^C\n");
      return {Event::kInterrupt, {}};
    }
    if (text == nullptr || length <= 0) {
      write_standard_error("\n");
      return {Event::kEnd, {}};
    }
    HistEvent event;
    if (std::string_view(text) != "\n") history(history_, &event, H_ENTER, text);
    std::string line(text, static_cast<size_t>(length));
    while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
    return {Event::kLine, std::move(line)};
  }

 private:
  static char* prompt_text(EditLine* editor) {
    void* reader = nullptr;
    el_get(editor, EL_CLIENTDATA, &reader);
    return static_cast<TerminalReader*>(reader)->prompt_.data();
  }

  EditLine* editor_;
  History* history_;
  std::string prompt_;
};

#else

// Without the editing library: whole lines as the terminal gives them.
class TerminalReader : public PipeReader {
 public:
  explicit TerminalReader(const char*) {}
  Input read(const std::string& prompt) override {
    write_standard_error(prompt);
    return PipeReader::read(prompt);
  }
};

#endif

}  // namespace

std::unique_ptr<LineReader> LineReader::of_standard_input(const char* name) {
  if (standard_input_is_terminal()) return std::make_unique<TerminalReader>(name);
  return std::make_unique<PipeReader>();
}

}  // namespace deepinfer::cli
