// Values under keys, in the table `kv`.
#pragma once

#include <memory>

#include "store/key_value.h"
#include "store/sqlite/database.h"

namespace once::store::sqlite {

class KeyValues final : public KeyValue {
 public:
  explicit KeyValues(std::shared_ptr<Database> database) : database_(std::move(database)) {}

  std::vector<Result<std::optional<Value>>> get(std::span<const Key> keys) override;
  std::vector<Result<KeyWriteResult>> write(std::span<const KeyWrite> items) override;
  Result<bool> remove(const Key& key, core::Revision revision) override;
  Result<KeyPage> list(const KeyList& query) override;

  // Answers how many there were.
  Result<std::uint64_t> remove_expired();

 private:
  std::shared_ptr<Database> database_;  // shared with the store and its memberships
};

}  // namespace once::store::sqlite
