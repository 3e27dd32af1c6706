// Remembers what the outside was told: receipts, verdicts, steps, what people ordered, what ran. It
// shares nothing with the store, and complains when something it was told is not so any more.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "once/once.h"
#include "store/store.h"

namespace once::power {

class Witness {
 public:
  // `complain` is called with a sentence.
  explicit Witness(std::function<void(std::string)> complain) : complain_(std::move(complain)) {}

  // What is said of one task in one queue.
  struct Word {
    int attempt = 0;                   // the last one that began
    std::optional<State> state{};      // the last word: completed, dead or cancelled
    std::string result{};              // completed
    bool retry_ordered = false;        // by a person, and not begun since
    std::map<int, std::string> ended;  // attempts whose end was acknowledged
    std::set<std::string> steps{};     // that were recorded as done
    Duration touched{};                // when something was last asked for or begun
  };

  void pass(Duration time) { elapsed_ += time; }
  // Asked for, and answered.
  void ages_asked(const Retention& ages);
  void ages_told(const Retention& ages) { told_ages_ = ages; }

  // Publishing: asked for, and answered with a receipt.
  void asked(const Task& task);
  void told(const Receipt& receipt, bool duplicate_for_sure);
  bool has_receipt(const std::string& id) const;
  const Task& task(const std::string& id) const { return tasks_.at(id).task; }
  const std::vector<std::string>& ids() const { return ids_; }
  // It was settled so long ago, as far as anybody knows, that retention may have taken its id.
  bool may_be_forgotten(const std::string& id) const;

  // Running.
  void begins(const std::string& queue, const Context& context);
  void step_runs(const std::string& queue, const std::string& id, const std::string& step);
  void step_done(const std::string& queue, const std::string& id, const std::string& step);
  Word& word(const std::string& queue, const std::string& id);

  // A queue that was added or removed, or none: nobody knows whether it was.
  void queue_is(const std::string& name, std::optional<bool> there);
  std::optional<bool> queue_there(const std::string& name) const;

  // Compares everything with what the store holds now.
  void check(store::Store& store);
  // After everything could run: every task is settled in the queue that takes all.
  void check_settled(store::Store& store, const std::string& queue);

  std::uint64_t receipts() const { return receipts_; }
  std::uint64_t completions() const { return completions_; }
  void completed() { ++completions_; }

 private:
  struct Known {
    Task task{};
    std::optional<Receipt> receipt{};
    std::uint64_t duplicates = 0;
    Duration published{};
    std::map<std::string, Word> words{};  // by queue

    Duration touched() const;
  };

  void check_log(store::Store& store);
  void check_queues(store::Store& store);
  void check_rows(store::Store& store, const std::string& queue);
  void check_row(const std::string& queue, const std::string& id, const Word& word,
                 const store::Row& row);
  std::vector<store::Row> rows(store::Store& store, const std::string& queue);

  std::function<void(std::string)> complain_;
  std::map<std::string, Known> tasks_;
  std::vector<std::string> ids_;
  std::map<std::uint64_t, std::string> sequences_;
  std::map<std::string, bool> queues_;
  std::uint64_t last_token_ = 0;
  Duration elapsed_{};
  Retention ages_{};  // the shortest that may have stood
  std::optional<Retention> told_ages_{};
  std::uint64_t receipts_ = 0;
  std::uint64_t completions_ = 0;
};

}  // namespace once::power
