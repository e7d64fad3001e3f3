// Replays the worked examples of compression/FORMAT.md, so that document and code cannot part.
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "compression/block_math.h"
#include "compression/codec_internal.h"
#include "tests/unit/compression/samples.h"

namespace causeway::compression {
namespace {

struct Example {
  std::string codec;
  std::vector<float> values;
  std::vector<MatrixPiece> pieces;
  std::vector<uint8_t> chunk;
};

std::vector<uint8_t> ReadBytes(std::istringstream* words) {
  std::vector<uint8_t> bytes;
  std::string word;
  while (*words >> word) {
    if (word.rfind("...x", 0) == 0) {
      bytes.insert(bytes.end(), std::stoul(word.substr(4)), bytes.back());
      continue;
    }
    for (size_t i = 0; i + 1 < word.size(); i += 2) {
      bytes.push_back(static_cast<uint8_t>(std::stoul(word.substr(i, 2), nullptr, 16)));
    }
  }
  return bytes;
}

std::string WriteBytes(const std::vector<uint8_t>& bytes) {
  std::string text;
  char hex[8];
  for (size_t i = 0; i < bytes.size();) {
    size_t run = 1;
    while (i + run < bytes.size() && bytes[i + run] == bytes[i]) ++run;
    std::snprintf(hex, sizeof(hex), "%02x", bytes[i]);
    if (run > 6) {
      text += std::string(text.empty() || text.back() == ' ' ? "" : " ") + hex + " ...x" +
              std::to_string(run - 1) + " ";
      i += run;
    } else {
      text += hex;
      if (i % 4 == 3) text += ' ';
      ++i;
    }
  }
  return text;
}

std::vector<Example> ReadExamples() {
  std::ifstream file(CAUSEWAY_FORMAT_DOCUMENT);
  std::vector<Example> examples;
  std::string line;
  bool inside = false;
  while (std::getline(file, line)) {
    if (line.rfind("```", 0) == 0) {
      inside = line == "```example";
      if (inside) examples.emplace_back();
      continue;
    }
    if (!inside) continue;
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key == "codec") words >> examples.back().codec;
    if (key == "values") {
      std::string word;
      while (words >> word) {
        examples.back().values.push_back(
            math::FromBits(static_cast<uint32_t>(std::stoul(word, nullptr, 16))));
      }
    }
    MatrixPiece piece;
    while (key == "pieces" && words >> piece.elements >> piece.columns) {
      examples.back().pieces.push_back(piece);
    }
    if (key == "chunk") examples.back().chunk = ReadBytes(&words);
  }
  return examples;
}

std::vector<uint8_t> Encode(const Example& example) {
  EncodeInput input;
  input.snapshot = example.values.data();
  input.n = static_cast<uint32_t>(example.values.size());
  input.pieces = example.pieces;
  const CodecSpec spec = CodecSpec::Parse(example.codec).value();
  std::vector<uint8_t> bytes(EncodedSizeMax(spec, input.n));
  EncodeStats stats;
  bytes.resize(EncodeChunk(spec, input, absl::MakeSpan(bytes), &stats));
  return bytes;
}

// Hidden: prints what belongs into the document.
TEST_CASE("print the worked examples", "[.print]") {
  for (const Example& example : ReadExamples()) {
    std::printf("chunk %s\n", WriteBytes(Encode(example)).c_str());
  }
}

TEST_CASE("the worked examples of FORMAT.md") {
  std::vector<Example> examples = ReadExamples();
  REQUIRE(examples.size() >= 5);
  for (const Example& example : examples) {
    CAPTURE(example.codec);
    CodecSpec spec = CodecSpec::Parse(example.codec).value();
    std::vector<uint8_t> bytes = Encode(example);
    CHECK(WriteBytes(bytes) == WriteBytes(example.chunk));
    CHECK(CheckChunk(spec, static_cast<uint32_t>(example.values.size()), example.chunk).ok());
  }
}

TEST_CASE("the largest legal scales that FORMAT.md names") {
  CHECK(ScaleLimitsOf(CodecKind::kInt8).largest == 0x7b82);
  CHECK(ScaleLimitsOf(CodecKind::kInt4).largest == 0x7d93);
}

}  // namespace
}  // namespace causeway::compression
