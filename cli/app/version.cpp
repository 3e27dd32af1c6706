// once version
#include "once/version.h"

#include <fmt/format.h>

#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/app/session.h"
#include "shapes/json_line.h"

namespace once::cli {

void add_version(CLI::App& root, Session& session) {
  auto* app = add_command(root, "version", "Print the version");
  add_example(*app, "Example:\n  once version");
  when_given(*app, [&session] {
    session.command = [&session] {
      session.out.line(session.json ? JsonLine{}.text("version", version()).str()
                                    : fmt::format("once {}", version()));
      return kDone;
    };
  });
}

}  // namespace once::cli
