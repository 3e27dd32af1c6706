// Includes every public header except testing.h.
#pragma once

#include "once/audit.h"
#include "once/consumer.h"
#include "once/doctor.h"
#include "once/flows.h"
#include "once/json.h"
#include "once/ledger.h"
#include "once/metrics.h"
#include "once/queues.h"
#include "once/result.h"
#include "once/task.h"
#include "once/tasks.h"
#include "once/version.h"
#include "once/view.h"
#include "once/worker.h"
#include "once/workflow.h"
#include "once/zone.h"
