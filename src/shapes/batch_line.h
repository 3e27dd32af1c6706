// One line of `publish --batch` as a task:
//
//   {"topic": TEXT, "id": TEXT, "body": JSON | "raw": BASE64, "headers": {NAME: TEXT, ...},
//    "delay": DURATION | "at": TIME, "expires": DURATION | TIME, "text": true | false}
//
// With "text":true the body is a string whose characters are the bytes, as `once log --json` prints it.
//
// Only topic is needed. The body's text is taken as it stands, so that what content identity
// refuses (duplicate keys, numbers no double holds) is refused here too.
#pragma once

#include <string_view>

#include "once/task.h"

namespace once::cli {

Result<Task> task_from(std::string_view line);

}  // namespace once::cli
