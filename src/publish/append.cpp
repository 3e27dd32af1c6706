#include "publish/append.h"

namespace once::engine {
namespace {

constexpr int kAskAgain = 5;  // times that an unanswered append is sent again

}  // namespace

std::vector<Result<store::AppendResult>> append_known(store::Store& store,
                                                      const std::vector<store::Append>& items) {
  std::vector<Result<store::AppendResult>> answers = store.append(items);
  for (int ask = 0; ask < kAskAgain; ++ask) {
    std::vector<std::size_t> unknown;
    for (std::size_t i = 0; i < answers.size(); ++i)
      if (!answers[i] && answers[i].error().in_doubt) unknown.push_back(i);
    if (unknown.empty()) break;
    std::vector<store::Append> again;
    for (const std::size_t i : unknown) again.push_back(items[i]);
    std::vector<Result<store::AppendResult>> found = store.append(again);
    for (std::size_t k = 0; k < unknown.size(); ++k) {
      // A refusal of this try does not say whether the first try was written.
      const bool says_nothing = !found[k] && !found[k].error().in_doubt;
      if (!says_nothing) answers[unknown[k]] = std::move(found[k]);
    }
  }
  return answers;
}

}  // namespace once::engine
