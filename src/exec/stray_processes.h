// Ends processes of a program that have lost their supervisor. A killed supervisor leaves them to whoever adopts
// them, and a suspended supervisor ends nothing. They are known by the environment of their claim.
#pragma once

#include <stop_token>
#include <string>

#include "work/task_attempt.h"

namespace once::engine {

// The value of $ONCE_CLAIM: which task of which zone, a dot, and the claim's token.
std::string claim_mark(const TaskAttempt& task_attempt);

// Which claims of the attempt's task.
enum class Claims { earlier, up_to_this };

// Kills the processes of such a claim on this machine whose $ONCE_STORE names the same store, and returns
// when none is left. A copy of a zone has the zone's claims too, so its processes are left alone. With Claims::earlier it returns too when the attempt is asked to stop. A suspended
// supervisor of theirs is continued: it then sees that its worker is gone.
void end_strays(const TaskAttempt& task_attempt, const std::string& store, Claims which);

}  // namespace once::engine
