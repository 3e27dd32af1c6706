#include "store/moved_flows.h"

namespace once::store {
namespace {

struct Kind {
  std::string_view name{};   // the first token of the key
  std::string_view queue{};  // of the record
  char between = 0;          // the tokens in the record's key
};
constexpr std::array<Kind, 5> kKinds{{{"flow", core::kFlowsLedger, '@'},
                                      {"run", core::kRunsLedger},
                                      {"key", core::kKeysLedger, ':'},
                                      {"value", core::kValuesLedger},
                                      {"note", core::kFlowQueue}}};

// The record's key "a@b" with '@' gives {kind, "a", "b"}.
Key key_of(std::string_view queue, std::string_view text) {
  const auto kind = std::find_if(kKinds.begin(), kKinds.end(),
                                 [&](const Kind& each) { return each.queue == queue; });
  Key key{std::string(kind->name)};
  if (kind->between == 0) {
    key.emplace_back(text);
    return key;
  }
  const std::size_t place = std::min(text.find(kind->between), text.size());
  key.emplace_back(text.substr(0, place));
  key.emplace_back(text.substr(std::min(place + 1, text.size())));
  return key;
}

bool ended(State state) { return state == State::completed || state == State::cancelled; }

}  // namespace

bool is_flow_note(std::string_view name) {
  return name.starts_with("runs.") || name.starts_with("rate.");
}

std::optional<Address> old_place(const Key& key) {
  const auto kind = std::find_if(kKinds.begin(), kKinds.end(),
                                 [&](const Kind& each) { return each.name == key.front(); });
  if (kind == kKinds.end()) return std::nullopt;
  Address at{.queue = std::string(kind->queue)};
  if (kind->queue == core::kFlowQueue) at.kind = Address::Kind::lone;
  for (std::size_t i = 1; i < key.size(); ++i)
    at.key += (i > 1 ? std::string(1, kind->between) : std::string()) + key[i];
  return at;
}

std::optional<KeyWrite> moved_value(std::string_view queue, std::string_view key,
                                    const core::Record& record, core::StoreTime stamp,
                                    const Retention& ages) {
  if (!record.result) return std::nullopt;
  KeyWrite moved{.key = key_of(queue, key), .bytes = std::string(record.result->text())};
  if (ended(record.state)) moved.lives = ages.records;
  if (queue == core::kFlowsLedger && record.reason == "removed")
    moved.bytes = "{\"removed\":" + moved.bytes + "}";
  if (queue == core::kKeysLedger) {
    if (moved.bytes.find("\"run\":\"\"") != std::string::npos) return std::nullopt;  // given back
    if (moved.lives)
      moved.bytes = "{\"ended\":" + std::to_string(stamp.time_since_epoch().count()) + "," +
                    moved.bytes.substr(1);
  }
  return moved;
}

}  // namespace once::store
