// Appends tasks: checks them, gives each its digest and nonce, gathers what many threads publish
// into one batch, and finds out what became of a batch whose answer was lost.
#pragma once

#include <memory>
#include <vector>

#include "base/counter.h"
#include "once/metrics.h"
#include "publish/combiner.h"
#include "store/store.h"

namespace once::engine {

class Publisher {
 public:
  Publisher(store::Store& store, Scheduler& scheduler);

  // One answer per task, in order. Any thread.
  std::vector<Result<Receipt>> publish(std::vector<Task> tasks);
  PublisherMetrics metrics() const;  // any thread

 private:
  using Answer = Result<store::Appended>;

  Result<store::Append> prepare(Task task);
  Result<Receipt> receipt(const store::Append& item, const store::Appended& appended);

  store::Store& store_;
  Scheduler& scheduler_;
  Combiner<store::Append, Answer> combiner_;
  Counter accepted_, duplicates_, conflicts_;
};

}  // namespace once::engine
