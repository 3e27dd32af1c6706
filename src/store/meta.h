// The zone itself: its identity, its time, and how long it keeps what is settled.
#pragma once

#include <string>

#include "core/retention.h"
#include "once/view.h"

namespace once::store {

using core::Sequence;
using core::StoreTime;

class Meta {
 public:
  virtual ~Meta() = default;
  virtual std::string uuid() = 0;
  virtual StoreTime now() = 0;
  virtual Time wall() = 0;

  virtual Result<Retention> retention() = 0;
  virtual Result<void> set_retention(const Retention& ages) = 0;
  // Applies may_forget() to a page of entries after `after`. The first page also applies it to the
  // records of ledger-only queues, and removes expired values of key_values().
  struct RetirePage {
    Retired retired{};
    Sequence next{};  // zero: the end
  };
  virtual Result<RetirePage> retire(Sequence after, std::size_t limit) = 0;
};

}  // namespace once::store
