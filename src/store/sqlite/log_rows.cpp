#include "store/sqlite/log_rows.h"

#include <algorithm>
#include <charconv>

#include "codec/stored_body.h"
#include "store/sqlite/failure.h"

namespace once::store::sqlite {
namespace {

void append_counted(std::string_view text, std::string& to) {
  to += std::to_string(text.size());
  to += ':';
  to += text;
}

[[noreturn]] void damaged(std::string_view what) {
  throw Failure(unusable("an entry of the log is damaged (its " + std::string(what) +
                         "): nothing was changed; restore a backup"));
}

std::string take_counted(std::string_view& from) {
  std::size_t size = 0;
  const auto [end, failed] = std::from_chars(from.data(), from.data() + from.size(), size);
  const auto digits = static_cast<std::size_t>(end - from.data());
  if (failed != std::errc{} || digits == from.size() || *end != ':' ||
      from.size() - digits - 1 < size)
    damaged("headers");
  std::string text(from.substr(digits + 1, size));
  from.remove_prefix(digits + 1 + size);
  return text;
}

}  // namespace

std::string encode_headers(const std::map<std::string, std::string>& headers) {
  std::string bytes;
  for (const auto& [name, value] : headers) {
    append_counted(name, bytes);
    append_counted(value, bytes);
  }
  return bytes;
}

std::map<std::string, std::string> decode_headers(std::string_view bytes) {
  std::map<std::string, std::string> headers;
  while (!bytes.empty()) {
    std::string name = take_counted(bytes);
    headers[std::move(name)] = take_counted(bytes);
  }
  return headers;
}

Entry entry_from(const Query& query) {
  Entry entry{.sequence = {query.number(0)},
              .id = std::string(query.bytes(1)),
              .topic = std::string(query.bytes(2)),
              .published_at = Time{Duration{query.integer(5)}},
              .duplicates = query.number(6),
              .appended_at = StoreTime{Duration{query.integer(7)}},
              .delay = Duration{query.integer(kDelayColumn)}};
  if (!query.null(9)) entry.lives = Duration{query.integer(9)};
  if (!query.null(3)) entry.headers = decode_headers(query.bytes(3));
  const std::string_view digest = query.bytes(4);
  if (digest.size() != entry.digest.bytes.size()) damaged("digest");
  std::copy(digest.begin(), digest.end(), entry.digest.bytes.begin());
  if (query.null(11)) return entry;
  std::string body(query.bytes(11));
  entry.body =
      query.integer(10) == 0 ? Body::bytes(std::move(body)) : StoredBody::json(std::move(body));
  return entry;
}

}  // namespace once::store::sqlite
