// Reads rows of the table `log` as entries.
#pragma once

#include <map>
#include <string>

#include "store/sqlite/connection.h"
#include "store/store.h"

namespace once::store::sqlite {

// The columns that entry_from() takes, in its order.
#define ONCE_ENTRY_COLUMNS                                                               \
  "sequence, id, topic, headers, digest, published_at, duplicates, appended_at, delay, " \
  "lives, is_json, body"
inline constexpr int kEntryColumns = 12;
inline constexpr int kDelayColumn = 8;

// The same without body and headers, for callers that read many rows.
#define ONCE_LEAN_COLUMNS                                                                    \
  "sequence, id, topic, NULL, digest, published_at, duplicates, appended_at, delay, lives, " \
  "0, NULL"

Entry entry_from(const Query& query);

// Headers as bytes: "4:name5:value" for each, in order.
std::string encode_headers(const std::map<std::string, std::string>& headers);
std::map<std::string, std::string> decode_headers(std::string_view bytes);

}  // namespace once::store::sqlite
