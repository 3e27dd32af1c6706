// A task's whole story, as `inspect`, `dead show` and `doubt show` tell it.
#pragma once

#include "cli/app/session.h"
#include "once/view.h"

namespace once::cli {

// For people, with --json as one object.
void tell_story(Session& session, const TaskView& task);

}  // namespace once::cli
