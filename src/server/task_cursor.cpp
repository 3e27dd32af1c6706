#include "server/task_cursor.h"

#include <fmt/format.h>

#include <algorithm>

#include "shapes/values.h"
#include "tooling/text.h"

namespace once::server {

std::string cursor_of(const ListItem& item) {
  std::string text = base64(fmt::format("{}\n{}\n{}", item.queue, item.sequence, item.key));
  std::replace(text.begin(), text.end(), '+', '-');
  std::replace(text.begin(), text.end(), '/', '_');
  text.erase(text.find_last_not_of('=') + 1);
  return text;
}

std::optional<ListItem> item_at(std::string cursor) {
  std::replace(cursor.begin(), cursor.end(), '-', '+');
  std::replace(cursor.begin(), cursor.end(), '_', '/');
  cursor.append((4 - cursor.size() % 4) % 4, '=');
  const auto text = from_base64(cursor);
  if (!text) return {};
  const std::size_t first = text->find('\n');
  const std::size_t second = first == text->npos ? first : text->find('\n', first + 1);
  if (second == text->npos) return {};
  const auto sequence =
      cli::parse_number(std::string_view(*text).substr(first + 1, second - first - 1));
  if (!sequence) return {};
  return ListItem{
      .queue = text->substr(0, first), .key = text->substr(second + 1), .sequence = *sequence};
}

}  // namespace once::server
