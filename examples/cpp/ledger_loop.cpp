// A consumer loop of your own, with any broker: Once only keeps the ledger.
//
//   example_ledger_loop STORE EFFECTS [--die-after KEY] < MESSAGES
//
// Each word of standard input is the key of a message. The broker may deliver a message twice. The
// loop claims the key, appends a line to EFFECTS and records the completion. With --die-after, the
// process is killed after the effect of that key and before its record.
// Start the program again: the claim says that the key is in doubt, and the loop looks at EFFECTS
// before it acts. Each key has one line.
#include <once/once.h>
#include <signal.h>

#include <fstream>
#include <iostream>
#include <string>
#include <string_view>
#include <thread>

namespace {

bool has_line(const std::string& file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);)
    if (line == key) return true;
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: example_ledger_loop STORE EFFECTS [--die-after KEY] < MESSAGES\n";
    return 2;
  }
  const std::string effects = argv[2];
  const std::string dies_after =
      argc > 4 && std::string_view(argv[3]) == "--die-after" ? argv[4] : "";

  auto zone = once::Zone::open(argv[1]).value();
  zone.queues().add({.name = "mails", .lease = once::Duration{1000}, .ledger = true}).value();
  auto ledger = zone.ledger("mails").value();

  for (std::string key; std::cin >> key;) {
    auto claim = ledger.claim(key).value();
    // Another process holds the key. A process that died holds it until its lease expires.
    while (claim.kind == once::ClaimResult::Kind::held) {
      std::this_thread::sleep_for(claim.wait);
      claim = ledger.claim(key).value();
    }
    if (claim.kind != once::ClaimResult::Kind::claimed) {
      std::cout << key << ": " << to_string(claim.kind) << std::endl;
      continue;
    }
    if (claim.in_doubt && has_line(effects, key)) {
      std::cout << key << ": found, not sent again" << std::endl;
    } else {
      std::ofstream(effects, std::ios::app) << key << '\n';
      if (key == dies_after) raise(SIGKILL);
      std::cout << key << ": sent" << std::endl;
    }
    const auto recorded = ledger.complete(key, claim.token);
    // Code::fenced means that the lease expired and another process has claimed the key.
    if (!recorded) std::cout << key << ": " << to_string(recorded.error().code) << std::endl;
  }
}
