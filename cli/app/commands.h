// The commands; each lives in the file of its name and adds itself to the parser.
#pragma once

namespace CLI {
class App;
}

namespace once::cli {

class Session;

inline constexpr int kStepFailed = 125;  // of `step`, whose other exits are its program's

void add_publish(CLI::App& root, Session& session);
void add_queue(CLI::App& root, Session& session);
void add_apply(CLI::App& root, Session& session);
void add_work(CLI::App& root, Session& session);
void add_step(CLI::App& root, Session& session);
void add_status(CLI::App& root, Session& session);
void add_list(CLI::App& root, Session& session);
void add_inspect(CLI::App& root, Session& session);
void add_log(CLI::App& root, Session& session);
void add_wait(CLI::App& root, Session& session);
void add_cancel(CLI::App& root, Session& session);
void add_dead(CLI::App& root, Session& session);
void add_doubt(CLI::App& root, Session& session);
void add_claim(CLI::App& root, Session& session);
void add_renew(CLI::App& root, Session& session);
void add_complete(CLI::App& root, Session& session);
void add_fail(CLI::App& root, Session& session);
void add_flow(CLI::App& root, Session& session);
void add_canonical(CLI::App& root, Session& session);
void add_audit(CLI::App& root, Session& session);
void add_retention(CLI::App& root, Session& session);
void add_metrics(CLI::App& root, Session& session);
void add_doctor(CLI::App& root, Session& session);
void add_serve(CLI::App& root, Session& session);
void add_token(CLI::App& root, Session& session);
void add_bench(CLI::App& root, Session& session);
void add_demo(CLI::App& root, Session& session);
void add_version(CLI::App& root, Session& session);
void add_completion(CLI::App& root, Session& session);
void add_help(CLI::App& root, Session& session);

}  // namespace once::cli
