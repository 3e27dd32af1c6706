// The commands of `flow`, by what people do with them; flow.cpp puts them together.
#pragma once

#include <string_view>

#include "once/view.h"
#include "once/zone.h"
#include "shapes/flow_json.h"

namespace CLI {
class App;
}

namespace once::cli {

class Session;

// Whether what inspect() did not find is a run. Other commands are for runs.
bool is_run(const Zone& zone, const std::string& id, const Result<TaskView>& inspected);

void add_flow_definitions(CLI::App& flow, Session& session);  // add list export
void add_flow_start(CLI::App& flow, Session& session);        // start
void add_flow_wait(CLI::App& flow, Session& session);         // wait
void add_flow_work(CLI::App& flow, Session& session);         // work
void add_flow_see(CLI::App& flow, Session& session);          // runs show events graph
void add_flow_control(CLI::App& flow, Session& session);      // signal approve cancel retry

}  // namespace once::cli
