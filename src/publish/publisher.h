// Publishes tasks: checks each task, gives it a digest and a nonce, and appends it. A Combiner
// joins the tasks of many threads into one batch. append_known() (append.h) makes the store call
// and finds out what happened if the answer was lost.
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

  // Returns one answer per task, in order. Any thread may call it.
  std::vector<Result<Receipt>> publish(std::vector<Task> tasks);
  PublisherMetrics metrics() const;  // any thread

 private:
  using Answer = Result<store::AppendResult>;

  Result<store::Append> prepare(Task task);
  Result<Receipt> receipt(const store::Append& item, const store::AppendResult& appended);

  store::Store& store_;
  Scheduler& scheduler_;
  Combiner<store::Append, Answer> combiner_;
  Counter accepted_, duplicates_, conflicts_;
};

}  // namespace once::engine
