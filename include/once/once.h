// Everything at once.
#pragma once

#include "once/json.h"
#include "once/result.h"
#include "once/task.h"
#include "once/version.h"
#include "once/view.h"
#include "once/worker.h"
#include "once/zone.h"
