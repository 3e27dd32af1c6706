// The commands; each lives in the file of its name and adds itself to the parser.
#pragma once

namespace CLI {
class App;
}

namespace once::cli {

class Session;

void add_publish(CLI::App& root, Session& session);
void add_queue(CLI::App& root, Session& session);
void add_work(CLI::App& root, Session& session);
void add_status(CLI::App& root, Session& session);
void add_list(CLI::App& root, Session& session);
void add_inspect(CLI::App& root, Session& session);
void add_log(CLI::App& root, Session& session);
void add_wait(CLI::App& root, Session& session);
void add_canonical(CLI::App& root, Session& session);
void add_retention(CLI::App& root, Session& session);
void add_bench(CLI::App& root, Session& session);
void add_version(CLI::App& root, Session& session);
void add_completion(CLI::App& root, Session& session);

}  // namespace once::cli
