// A libtorch trainer that exchanges through Causeway: the small byte-level GPT of the Python
// example, one process a cluster, on any text file.
//
//     train --socket PATH --cluster 0 --clusters 2 [--steps N] [--text FILE] [--run demo]
//
// Prints JSON lines; the last has the mean loss of the first and the last steps in bits a byte and
// the SHA-256 of the run's values, which is the same on every cluster. With a CUDA build of
// libtorch the model trains on the GPU, and its tensors go to the gateway from there.
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "causeway_outer.hpp"

namespace {

constexpr int64_t kVocabulary = 256, kWidth = 64, kHeads = 4, kLayers = 2, kContext = 64;
constexpr int64_t kPrevious = 3, kBatch = 8;
constexpr double kLearningRate = 3e-3, kClip = 1.0;
constexpr size_t kEnds = 5;  // steps whose mean loss is told, at the start and at the end

// Causal self-attention and feed-forward, each behind a layer norm and a residual connection.
struct BlockImpl : torch::nn::Module {
  BlockImpl() {
    qkv = register_module("qkv", torch::nn::Linear(kWidth, 3 * kWidth));
    projection = register_module("projection", torch::nn::Linear(kWidth, kWidth));
    expand = register_module("expand", torch::nn::Linear(kWidth, 4 * kWidth));
    contract = register_module("contract", torch::nn::Linear(4 * kWidth, kWidth));
    norm_attention = register_module("norm_attention",
                                     torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    norm_feed =
        register_module("norm_feed", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
  }
  torch::Tensor Attend(const torch::Tensor& x) {
    const int64_t batch = x.size(0), length = x.size(1), width = kWidth / kHeads;
    const auto parts =
        qkv->forward(x).view({batch, length, 3, kHeads, width}).permute({2, 0, 3, 1, 4});
    const auto scores = parts[0].matmul(parts[1].transpose(-2, -1)) / std::sqrt(double(width));
    const auto mask = torch::ones({length, length}, x.options().dtype(torch::kBool)).triu(1);
    const auto mixed = scores.masked_fill(mask, -1e9).softmax(-1).matmul(parts[2]);
    return projection->forward(mixed.transpose(1, 2).reshape({batch, length, kWidth}));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = x + Attend(norm_attention->forward(x));
    return x + contract->forward(torch::relu(expand->forward(norm_feed->forward(x))));
  }
  torch::nn::Linear qkv{nullptr}, projection{nullptr}, expand{nullptr}, contract{nullptr};
  torch::nn::LayerNorm norm_attention{nullptr}, norm_feed{nullptr};
};
TORCH_MODULE(Block);

// Embeddings of the few bytes before make a model this small learn fast; the output embedding is
// tied.
struct GptImpl : torch::nn::Module {
  GptImpl() {
    token = register_module("token", torch::nn::Embedding(kVocabulary, kWidth));
    position = register_module("position", torch::nn::Embedding(kContext, kWidth));
    for (int64_t i = 0; i < kPrevious; ++i) {
      previous.push_back(register_module("previous" + std::to_string(i),
                                         torch::nn::Embedding(kVocabulary, kWidth)));
    }
    for (int64_t i = 0; i < kLayers; ++i) {
      blocks.push_back(register_module("block" + std::to_string(i), Block()));
    }
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    torch::NoGradGuard guard;
    for (const auto& entry : named_parameters()) {
      if (entry.value().dim() == 2) entry.value().normal_(0, 0.02);
    }
  }
  // Mean cross entropy in nats a byte.
  torch::Tensor forward(const torch::Tensor& tokens, const torch::Tensor& targets) {
    const int64_t length = tokens.size(1);
    auto x = token->forward(tokens) + position->weight.slice(0, 0, length);
    for (int64_t distance = 1; distance <= kPrevious; ++distance) {
      const auto before = previous[distance - 1]->forward(tokens.slice(1, 0, length - distance));
      x = x + torch::constant_pad_nd(before, {0, 0, distance, 0}, 0);
    }
    for (Block& block : blocks) x = block->forward(x);
    const auto logits = norm->forward(x).matmul(token->weight.t());
    return torch::nn::functional::cross_entropy(logits.view({-1, kVocabulary}),
                                                targets.reshape({-1}));
  }
  torch::nn::Embedding token{nullptr}, position{nullptr};
  std::vector<torch::nn::Embedding> previous;
  std::vector<Block> blocks;
  torch::nn::LayerNorm norm{nullptr};
};
TORCH_MODULE(Gpt);

struct Arguments {
  std::string socket, run = "demo", text = "/usr/share/common-licenses/GPL-3";
  uint32_t cluster = 0, clusters = 1;
  uint64_t steps = 100;
};

Arguments Parse(int count, char** words) {
  Arguments out;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string key = words[i], value = words[i + 1];
    if (key == "--socket") {
      out.socket = value;
    } else if (key == "--run") {
      out.run = value;
    } else if (key == "--text") {
      out.text = value;
    } else if (key == "--cluster") {
      out.cluster = static_cast<uint32_t>(std::stoul(value));
    } else if (key == "--clusters") {
      out.clusters = static_cast<uint32_t>(std::stoul(value));
    } else if (key == "--steps") {
      out.steps = std::stoull(value);
    } else {
      throw std::invalid_argument("unknown option " + key);
    }
  }
  if (count % 2 == 0) throw std::invalid_argument("every option takes a value");
  return out;
}

// This cluster's contiguous part of the text.
std::vector<uint8_t> ReadShare(const Arguments& arguments) {
  std::ifstream file(arguments.text, std::ios::binary);
  const std::vector<uint8_t> all{std::istreambuf_iterator<char>(file), {}};
  const size_t share = all.size() / arguments.clusters;
  if (share < 4 * kContext)
    throw std::invalid_argument(arguments.text + " is too short, or not there");
  return {all.begin() + static_cast<ptrdiff_t>(share * arguments.cluster),
          all.begin() + static_cast<ptrdiff_t>(share * (arguments.cluster + 1))};
}

torch::Tensor Batch(const std::vector<uint8_t>& text, std::mt19937& random, torch::Device device) {
  std::uniform_int_distribution<size_t> start(0, text.size() - kContext - 2);
  auto batch = torch::empty({kBatch, kContext + 1}, torch::kInt64);
  auto values = batch.accessor<int64_t, 2>();
  for (int64_t row = 0; row < kBatch; ++row) {
    const size_t first = start(random);
    for (int64_t i = 0; i <= kContext; ++i) values[row][i] = text[first + static_cast<size_t>(i)];
  }
  return batch.to(device);
}

std::vector<causeway::OuterTensor> TensorsOf(Gpt& model) {
  std::vector<causeway::OuterTensor> out;
  for (auto& entry : model->named_parameters()) {
    causeway::OuterTensor tensor;
    tensor.name = entry.key();
    tensor.shape.assign(entry.value().sizes().begin(), entry.value().sizes().end());
    tensor.data = entry.value().data_ptr();
    tensor.memory = entry.value().is_cuda() ? CW_MEMORY_CUDA : CW_MEMORY_HOST;
    out.push_back(tensor);
  }
  return out;
}

double Mean(const std::vector<double>& values, bool last) {
  const size_t count = std::min(kEnds, values.size());
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += values[last ? values.size() - 1 - i : i];
  return sum / static_cast<double>(count);
}

void Train(const Arguments& arguments) {
  const torch::Device device(torch::cuda::is_available() ? torch::kCUDA : torch::kCPU);
  torch::manual_seed(arguments.cluster);  // the run decides which cluster's values begin
  const std::vector<uint8_t> text = ReadShare(arguments);
  Gpt model;
  model->to(device);
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(kLearningRate));
  causeway::Outer::Options options;
  options.run = arguments.run;
  options.socket_path = arguments.socket;
  options.connect_timeout_ms = 20'000;
  options.weight = kBatch * kContext;
  options.cuda = device.is_cuda();
  causeway::Outer outer(options, TensorsOf(model));

  std::mt19937 random(77 + arguments.cluster);
  std::vector<double> losses;
  for (uint64_t step = 0; step < arguments.steps; ++step) {
    const auto batch = Batch(text, random, device);
    optimizer.zero_grad();
    auto loss = model->forward(batch.slice(1, 0, kContext), batch.slice(1, 1, kContext + 1));
    loss.backward();
    torch::nn::utils::clip_grad_norm_(model->parameters(), kClip);
    optimizer.step();
    outer.Step();
    losses.push_back(loss.item<double>() / std::log(2.0));
    std::printf("{\"event\": \"step\", \"step\": %llu, \"loss_bits\": %.5f}\n",
                static_cast<unsigned long long>(step + 1), losses.back());  // NOLINT: printf's type
  }
  const auto hash = outer.Finish();
  std::string digits;
  for (const uint8_t byte : hash) {
    char two[3];
    std::snprintf(two, sizeof(two), "%02x", byte);
    digits += two;
  }
  const causeway::OuterStats& stats = outer.stats();
  std::printf(
      "{\"event\": \"result\", \"loss_first\": %.5f, \"loss_last\": %.5f, \"rounds\": %llu, "
      "\"wire_bytes\": %llu, \"blocked_s\": %.3f, \"values_sha256\": \"%s\"}\n",
      Mean(losses, false), Mean(losses, true),
      static_cast<unsigned long long>(stats.rounds),      // NOLINT
      static_cast<unsigned long long>(stats.wire_bytes),  // NOLINT
      stats.blocked_s, digits.c_str());
}

}  // namespace

int main(int count, char** words) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    torch::set_num_threads(1);
    Train(Parse(count, words));
    return 0;
  } catch (const std::invalid_argument& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 64;
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 1;
  }
}
