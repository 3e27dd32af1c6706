// Steps in memory in the place of a ledger, and `once step` as this executable.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "program/harness.h"

namespace once::testing {

// Remembers every call, and what was ended. Each answer can be another one.
class FakeSteps : public engine::Steps {
 public:
  using Kind = BeginResult::Kind;

  BeginResult begin(std::string_view name, std::optional<InDoubt> policy, bool asked) override;
  Result<void> end(std::string_view name, Body result, std::uint64_t oversize) override;
  Result<void> fail(std::string_view name, std::string_view why) override;
  Error hold(std::string_view name, std::string why) override;

  // Instead of `run`, for a begin that no probe was asked for.
  void answer(Kind kind, Body result = {}, bool cut = false);
  void refuse_to_record() { refuses_ = true; }
  // Calls of that kind wait until they are let go on.
  void block(const std::string& call);
  void unblock();
  bool is_blocked() const;  // somebody waits

  // `begin NAME [POLICY] [asked]`, `end NAME [OVERSIZE]`, `fail NAME`, `hold NAME: WHY`, when they are
  // over.
  std::vector<std::string> calls() const;
  std::string result(const std::string& name) const;

 private:
  Result<void> record(std::string call);
  void wait_and_note(const std::string& kind, const std::string& call);

  mutable std::mutex mutex_{};
  std::condition_variable unblocked_{};
  std::set<std::string> blocked_{};
  int waiting_ = 0;
  std::vector<std::string> calls_{};
  std::map<std::string, std::string> results_{};
  BeginResult answer_{};
  bool refuses_ = false;
  std::string why_{};
};

// A program's script in which `step NAME [--in-doubt POLICY] [--probe CMD] -- CMD ARGS...` is what
// `once step` is; $STEP, which is no function, is a process of its own in the background too.
Command stepping(const std::string& script);
int step_main(int argc, char** argv);

}  // namespace once::testing
