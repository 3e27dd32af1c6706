// The names of reasons, and the texts with facts filled in.
#include <algorithm>

#include "once/result.h"

namespace once::inline v1 {

std::string_view to_string(Reason reason) {
  switch (reason) {
    case Reason::none: return "none";
    case Reason::no_database: return "no_database";
    case Reason::no_zone: return "no_zone";
    case Reason::no_queue: return "no_queue";
    case Reason::no_workflow: return "no_workflow";
    case Reason::no_run: return "no_run";
    case Reason::no_queue_for_step: return "no_queue_for_step";
    case Reason::no_step_in_doubt: return "no_step_in_doubt";
    case Reason::queue_differs: return "queue_differs";
    case Reason::queue_not_empty: return "queue_not_empty";
    case Reason::queue_belongs_to_flows: return "queue_belongs_to_flows";
    case Reason::queue_is_ledger_only: return "queue_is_ledger_only";
    case Reason::queue_is_not_ledger_only: return "queue_is_not_ledger_only";
    case Reason::stream_needs_nats: return "stream_needs_nats";
    case Reason::stream_replaced: return "stream_replaced";
    case Reason::login_in_address: return "login_in_address";
    case Reason::result_too_large: return "result_too_large";
    case Reason::result_incomplete: return "result_incomplete";
    case Reason::key_outlives_records: return "key_outlives_records";
    case Reason::run_cannot_begin: return "run_cannot_begin";
    case Reason::run_failed: return "run_failed";
    case Reason::claim_not_started: return "claim_not_started";
    case Reason::step_under_way: return "step_under_way";
    case Reason::step_cannot_repeat: return "step_cannot_repeat";
    case Reason::no_valid_token: return "no_valid_token";
    case Reason::not_permitted: return "not_permitted";
  }
  return "?";
}

const std::vector<Facts::Fact>& Facts::all() const {
  static const std::vector<Fact> none;
  return facts_ ? *facts_ : none;
}

std::string_view Facts::operator[](std::string_view name) const {
  const auto found =
      std::find_if(begin(), end(), [&](const Fact& fact) { return fact.name == name; });
  return found == end() ? std::string_view{} : std::string_view{found->value};
}

std::string Facts::fill(std::string_view text) const {
  std::string filled;
  std::size_t part = std::string::npos;  // where the open bracket's part begins in `filled`
  bool whole = true;                     // every fact of that part has a value
  while (!text.empty()) {
    const char c = text.front();
    text.remove_prefix(1);
    if (c == '{') {
      const std::size_t end = std::min(text.find('}'), text.size());
      const std::string_view value = (*this)[text.substr(0, end)];
      whole = whole && !value.empty();
      filled += value;
      text.remove_prefix(std::min(end + 1, text.size()));
    } else if (c == '[') {
      part = filled.size();
      whole = true;
    } else if (c == ']' && part != std::string::npos) {
      if (!whole) filled.resize(part);
      part = std::string::npos;
    } else {
      filled += c;
    }
  }
  return filled;
}

}  // namespace once::inline v1
