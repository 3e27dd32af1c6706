// The commands of `flow`, by what people do with them; flow.cpp puts them together.
#pragma once

namespace CLI {
class App;
}

namespace once::cli {

class Session;

void add_flow_definitions(CLI::App& flow, Session& session);  // add list
void add_flow_start(CLI::App& flow, Session& session);        // start
void add_flow_work(CLI::App& flow, Session& session);         // work
void add_flow_see(CLI::App& flow, Session& session);          // runs show events graph
void add_flow_control(CLI::App& flow, Session& session);      // signal approve cancel retry

}  // namespace once::cli
