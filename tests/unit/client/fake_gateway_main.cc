// The fake gateway as a program, for the tests of the Python package: speaks to one socket a
// cluster until its standard input ends. Lines on standard input drive it: stop, start, forget,
// hold, release, disconnect.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

#include "tests/unit/client/fake_gateway.h"

namespace {

void Obey(causeway::fake::FakeGateway& gateway, const std::string& line) {
  std::istringstream words(line);
  std::string word;
  words >> word;
  if (word == "stop") gateway.Stop();
  if (word == "start") gateway.Start();
  if (word == "forget") gateway.Start(false);
  if (word == "hold") gateway.SetHold(true);
  if (word == "release") gateway.SetHold(false), gateway.Release();
  if (word == "disconnect") gateway.Disconnect();
  if (word == "fail") {
    uint64_t op = 0;
    int code = 0;
    words >> op >> code;
    gateway.SendError(0, static_cast<causeway::local::Code>(code), false, false, "layer.weight",
                      "a value of layer.weight is not finite");
    gateway.SendFailed(op, static_cast<causeway::local::Code>(code));
  }
  if (word == "advance") {
    int64_t round = 0;
    float value = 0;
    uint32_t fragment = 0;
    words >> fragment >> round >> value;
    gateway.SetValues(fragment, round, std::vector<float>(gateway.Values(fragment).size(), value));
  }
  if (word == "count") {
    int type = 0;
    words >> type;
    std::cout << gateway.Count(static_cast<causeway::local::Type>(type)) << std::endl;
    return;
  }
  if (word == "expect") {
    int type = 0;
    size_t count = 0;
    words >> type >> count;
    const bool came = gateway.WaitCount(static_cast<causeway::local::Type>(type), count);
    std::cout << (came ? "done" : "missing") << std::endl;
    return;
  }
  std::cout << "done" << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: fake_gateway DIRECTORY [key=value ...]\n";
    return 64;
  }
  causeway::fake::Options options;
  for (int i = 2; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::string key = argument.substr(0, argument.find('='));
    const std::string value = argument.substr(argument.find('=') + 1);
    if (key == "clusters") {
      options.clusters.clear();
      std::istringstream names(value);
      for (std::string name; std::getline(names, name, ',');) options.clusters.push_back(name);
    }
    if (key == "fragments") options.fragments = static_cast<uint32_t>(std::stoul(value));
    if (key == "local_steps") options.local_steps = static_cast<uint32_t>(std::stoul(value));
    if (key == "delay")
      options.delay_steps =
          value == "auto" ? causeway::local::kDelayAuto : static_cast<uint32_t>(std::stoul(value));
    if (key == "wait_timeout_ms") options.wait_timeout_ms = std::stoul(value);
    if (key == "exchange_us") options.exchange_us = std::stoul(value);
    if (key == "apply")
      options.apply_mode = static_cast<causeway::local::ApplyMode>(std::stoul(value));
    if (key == "mix") options.mix = std::stof(value);
  }
  causeway::fake::FakeGateway gateway(argv[1], options);
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) Obey(gateway, line);
  return 0;
}
