// The place after a task in a list, as a text that is safe in a URL.
#pragma once

#include <optional>
#include <string>

#include "once/view.h"

namespace once::server {

std::string cursor_of(const ListItem& item);
// Returns nullopt if cursor_of() did not write the text.
std::optional<ListItem> item_at(std::string cursor);

}  // namespace once::server
