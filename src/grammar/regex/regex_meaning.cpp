// What a parsed expression says of texts: their lengths, and whether one matches.
#include <algorithm>

#include "grammar/regex/regex_syntax.h"

namespace deepinfer {

namespace {
using Node = Regex::Node;
}

RegexLength regex_length(const Regex& regex) {
  std::vector<RegexLength> length(regex.nodes.size());
  for (size_t i = 0; i < regex.nodes.size(); ++i) {
    const Node& node = regex.nodes[i];
    RegexLength& mine = length[i];
    switch (node.kind) {
      case Node::Kind::kEmpty:
        break;
      case Node::Kind::kClass:
        mine = {1, 1};
        break;
      case Node::Kind::kSequence:
        for (const int child : node.children) {
          const RegexLength& other = length[static_cast<size_t>(child)];
          mine.least += other.least;
          mine.most = mine.most < 0 || other.most < 0 ? -1 : mine.most + other.most;
        }
        break;
      case Node::Kind::kChoice:
        mine = length[static_cast<size_t>(node.children[0])];
        for (const int child : node.children) {
          const RegexLength& other = length[static_cast<size_t>(child)];
          mine.least = std::min(mine.least, other.least);
          mine.most = mine.most < 0 || other.most < 0 ? -1 : std::max(mine.most, other.most);
        }
        break;
      case Node::Kind::kRepeat: {
        const RegexLength& other = length[static_cast<size_t>(node.children[0])];
        mine.least = other.least * node.least;
        mine.most = other.most == 0 || node.most == 0 ? 0
                    : other.most < 0 || node.most < 0 ? -1
                                                      : other.most * node.most;
        break;
      }
    }
  }
  return length[static_cast<size_t>(regex.root)];
}

bool matches_regex(const Regex& regex, const std::vector<uint32_t>& text) {
  // ends[node][start]: where matches of `node` that begin at `start` may end.  Bottom-up over nodes.
  const size_t places = text.size() + 1;
  using Places = std::vector<bool>;
  std::vector<std::vector<Places>> ends(regex.nodes.size(), std::vector<Places>(places, Places(places, false)));
  const auto follow = [&](const Places& from, const std::vector<Places>& step) {
    Places reached(places, false);
    for (size_t middle = 0; middle < places; ++middle)
      if (from[middle])
        for (size_t end = middle; end < places; ++end) reached[end] = reached[end] || step[middle][end];
    return reached;
  };
  for (size_t i = 0; i < regex.nodes.size(); ++i) {
    const Node& node = regex.nodes[i];
    for (size_t start = 0; start < places; ++start) {
      Places& mine = ends[i][start];
      switch (node.kind) {
        case Node::Kind::kEmpty:
          mine[start] = true;
          break;
        case Node::Kind::kClass:
          if (start < text.size() && node.set.contains(text[start])) mine[start + 1] = true;
          break;
        case Node::Kind::kSequence:
          mine[start] = true;
          for (const int child : node.children) mine = follow(mine, ends[static_cast<size_t>(child)]);
          break;
        case Node::Kind::kChoice:
          for (const int child : node.children)
            for (size_t end = start; end < places; ++end)
              mine[end] = mine[end] || ends[static_cast<size_t>(child)][start][end];
          break;
        case Node::Kind::kRepeat: {
          Places current(places, false);
          current[start] = true;
          const auto& step = ends[static_cast<size_t>(node.children[0])];
          // After as many rounds as there are characters nothing new is reached but by empty matches.
          const int64_t most = node.most < 0 ? node.least + static_cast<int64_t>(places) : node.most;
          if (node.least == 0) mine = current;
          for (int64_t round = 1; round <= most; ++round) {
            Places next = follow(current, step);
            if (round >= node.least)
              for (size_t end = start; end < places; ++end) mine[end] = mine[end] || next[end];
            if (next == current) {
              if (round < node.least) mine = next;
              break;
            }
            current = std::move(next);
          }
          break;
        }
      }
    }
  }
  return ends[static_cast<size_t>(regex.root)][0][text.size()];
}

}  // namespace deepinfer
