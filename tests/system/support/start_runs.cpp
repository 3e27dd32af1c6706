// Starts runs of a workflow, one for each line of a file, by four threads at once: one of the many
// processes of flow_starts_test.py. Says `ready` and waits for a line before it begins.
//
//   start_runs STORE WORKFLOW FILE  ->  a line for each: RUN (first | duplicate | conflict [PATH...])
#include <atomic>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "once/once.h"

namespace {

std::vector<std::string> lines_of(const char* path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::string answer_of(const once::Result<once::Started>& started) {
  if (started) return started->run + (started->duplicate ? " duplicate" : " first");
  const once::Error& error = started.error();
  if (error.code != once::Code::conflicting_duplicate) return "error " + error.message;
  std::string answer = error.conflict->id + " conflict";
  for (const std::string& path : error.conflict->differs.value()) answer += " " + path;
  return answer;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::vector<std::string> inputs = lines_of(argv[3]);
  std::vector<std::string> answers(inputs.size());
  const once::Zone zone = once::Zone::open(argv[1]).value();
  once::Flows flows = zone.flows();
  std::cout << "ready" << std::endl;
  std::cin.get();

  std::atomic<std::size_t> next{0};
  const auto start_some = [&] {
    for (std::size_t i = next++; i < inputs.size(); i = next++)
      answers[i] = answer_of(flows.start(argv[2], once::Body::json(inputs[i]).value()));
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(start_some);
  }
  for (const std::string& answer : answers) std::cout << answer << '\n';
}
