// Builds the tree from yaml-cpp's event stream, on a stack of open containers.
#include "daemon/config/document.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace causeway::config {
namespace {

Position At(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

// Thrown out of the event handler to stop the parser; caught in ReadDocument.
struct Refusal {
  Position position;
  std::string message;
};

class TreeBuilder : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    Add(MakeNode(Node::Kind::kNull, mark));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw Refusal{At(mark), "aliases (*name) are not supported; write the value out"};
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& value) override {
    RefuseTag(mark, tag);
    Node node = MakeNode(Node::Kind::kScalar, mark);
    node.scalar = value;
    node.quoted = tag == "!";
    Add(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    RefuseTag(mark, tag);
    Open(MakeNode(Node::Kind::kSequence, mark));
  }
  void OnSequenceEnd() override { Close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    RefuseTag(mark, tag);
    Open(MakeNode(Node::Kind::kMap, mark));
  }
  void OnMapEnd() override { Close(); }

  Node TakeRoot() { return std::move(root_); }

 private:
  struct OpenContainer {
    Node node;
    bool key_pending = false;  // of a map: `key` waits for its value
    std::string key;
    Position key_position;
  };

  Node MakeNode(Node::Kind kind, const YAML::Mark& mark) {
    if (++nodes_ > kNodesMax) {
      throw Refusal{At(mark), absl::StrCat("more than ", kNodesMax, " values in one file")};
    }
    Node node;
    node.kind = kind;
    node.position = At(mark);
    return node;
  }

  // yaml-cpp marks plain scalars "?", quoted ones "!", containers "" or "?".
  static void RefuseTag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    throw Refusal{At(mark), absl::StrCat("the tag '", tag, "' is not supported; remove it")};
  }

  bool ExpectsKey() const {
    return !open_.empty() && open_.back().node.kind == Node::Kind::kMap &&
           !open_.back().key_pending;
  }

  void Open(Node node) {
    if (ExpectsKey()) throw Refusal{node.position, "a key must be a single word"};
    if (open_.size() >= kDepthMax) {
      throw Refusal{node.position, absl::StrCat("nested deeper than ", kDepthMax, " levels")};
    }
    open_.push_back(OpenContainer{std::move(node), false, {}, {}});
  }

  void Close() {
    Node node = std::move(open_.back().node);
    open_.pop_back();
    Add(std::move(node));
  }

  void Add(Node node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    OpenContainer& parent = open_.back();
    if (parent.node.kind == Node::Kind::kSequence) {
      parent.node.items.push_back(std::move(node));
    } else if (parent.key_pending) {
      parent.node.entries.push_back({std::move(parent.key), parent.key_position, std::move(node)});
      parent.key_pending = false;
    } else if (node.kind != Node::Kind::kScalar || node.scalar.empty()) {
      throw Refusal{node.position, "a key must be a single word"};
    } else {
      parent.key = std::move(node.scalar);
      parent.key_position = node.position;
      parent.key_pending = true;
    }
  }

  std::vector<OpenContainer> open_;
  Node root_;
  size_t nodes_ = 0;
};

Diagnostic At(Position position, std::string message) {
  return {position.line, position.column, "", std::move(message)};
}

}  // namespace

bool ReadDocument(std::string_view text, Node* root, std::vector<Diagnostic>* errors) {
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    errors->push_back({0, 0, "", absl::StrCat("a zero byte at offset ", nul, ": not a text file")});
    return false;
  }
  std::istringstream stream{std::string(text)};
  TreeBuilder builder;
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) {
      errors->push_back({0, 0, "", "the file is empty"});
      return false;
    }
    *root = builder.TakeRoot();
    TreeBuilder second;
    if (parser.HandleNextDocument(second)) {
      errors->push_back(At(second.TakeRoot().position,
                           "a second YAML document; one file holds one configuration"));
      return false;
    }
  } catch (const Refusal& refusal) {
    errors->push_back(At(refusal.position, refusal.message));
    return false;
  } catch (const YAML::Exception& error) {
    const bool placed = !error.mark.is_null();
    errors->push_back(At(placed ? At(error.mark) : Position{}, absl::StrCat("YAML: ", error.msg)));
    return false;
  }
  return true;
}

std::string Describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "nothing";
    case Node::Kind::kScalar:
      return absl::StrCat("'", node.scalar.substr(0, 64), "'");
    case Node::Kind::kSequence:
      return "a list";
    case Node::Kind::kMap:
      return "a map";
  }
  return "";
}

}  // namespace causeway::config
