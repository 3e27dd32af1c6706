#include "store/sqlite/holder_check.h"

namespace once::store::sqlite {

bool HolderCheck::gone(const core::Record& record, core::StoreTime stamp) {
  if (record.state != State::running) return false;
  if (stamp < boot_began_) return true;
  return record.member && gone(record.member);
}

bool HolderCheck::gone(core::Member member) {
  if (presence_.here(member)) return false;
  for (const auto& [known, answer] : known_)
    if (known == member) return answer;
  bool answer = true;  // a row is deleted only when nobody holds the lock any more
  {
    Query query = db_.query("SELECT file FROM member WHERE number = ?1");
    if (query.bind(member).step()) answer = presence_.gone(member, query.integer(0));
  }
  known_.emplace_back(member, answer);
  return answer;
}

}  // namespace once::store::sqlite
