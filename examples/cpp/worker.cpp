// A worker with durable steps and a probe.
//
//   example_worker STORE BANK [--die-after-charge]
//
// The handler charges an account and then writes a receipt. BANK is a file that stands for a bank:
// each line is one charge. With --die-after-charge, the process is killed after the charge and
// before its record. Start the program again: the probe asks the bank, finds the charge, and the
// handler continues with the receipt. The account is charged once.
#include <once/once.h>
#include <signal.h>

#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>

namespace {

// A system outside of Once. It keeps the idempotency key with each charge.
class Bank {
 public:
  explicit Bank(std::string file) : file_(std::move(file)) {}

  std::string charge(const std::string& key, const std::string& amount) {
    std::ofstream(file_, std::ios::app) << key << ' ' << amount << '\n';
    return "charge-" + key.substr(0, 8);
  }
  // Returns the charge with this key, or nullopt if there is none.
  std::optional<std::string> find(const std::string& key) const {
    std::ifstream lines(file_);
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with(key)) return "charge-" + key.substr(0, 8);
    return std::nullopt;
  }

 private:
  std::string file_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: example_worker STORE BANK [--die-after-charge]\n";
    return 2;
  }
  const bool dies = argc > 3 && std::string_view(argv[3]) == "--die-after-charge";
  Bank bank(argv[2]);

  auto zone = once::Zone::open(argv[1]).value();
  zone.queues().add({.name = "payments", .topic = "pay", .in_doubt = once::InDoubt::steps}).value();
  const auto order = once::Body::json(R"({"account":"ann","amount":120})").value();
  zone.publish({.topic = "pay", .id = "order-1", .body = order}).value();

  auto handler = [&](once::Context& context) {
    std::cout << "attempt " << context.attempt() << (context.in_doubt() ? ", in doubt" : "")
              << std::endl;
    const std::string amount = context.task().body.at("amount").value();
    // The key is the same in every attempt, so the bank can recognise the charge.
    const std::string key = context.idempotency_key("charge");
    const auto charge = [&] {
      std::string number = bank.charge(key, amount);
      if (dies) raise(SIGKILL);
      return number;
    };
    const auto probe = [&] {
      std::cout << "the probe asks the bank" << std::endl;
      return bank.find(key);
    };
    const std::string number = context.step("charge", charge, probe);
    context.step("receipt", [&] { std::cout << "receipt for " << number << std::endl; });
    return once::Outcome::completed(once::Body::bytes(number));
  };
  auto worker = zone.worker("payments", handler).value();
  worker.run_until_empty().value();

  const auto task = zone.tasks().inspect("order-1").value();
  for (const once::AttemptView& attempt : task.queues.front().attempts)
    std::cout << "attempt " << attempt.attempt << ": " << to_string(attempt.outcome) << '\n';
}
