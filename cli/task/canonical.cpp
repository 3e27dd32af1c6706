// once canonical [FILE|-]: the RFC 8785 form that content identity rests on.
#include "cli/app/commands.h"
#include "cli/app/input.h"
#include "cli/app/options.h"
#include "cli/app/session.h"
#include "once/json.h"

namespace once::cli {

void add_canonical(CLI::App& root, Session& session) {
  auto* app = add_command(root, "canonical", "Print the RFC 8785 form of a JSON text");
  auto file = std::make_shared<std::optional<std::string>>();
  add_text(*app, "FILE", *file, "", "File to read; - or none: standard input");
  add_example(*app, "Example:\n  echo '{\"b\":1.0, \"a\":2}' | once canonical");
  when_given(*app, [&session, file] {
    session.command = [&session, file]() -> int {
      auto text = read_all(file->value_or("-"));
      if (!text) return session.fail(text.error());
      auto canonical = canonical_json(*text);
      if (!canonical) return session.fail(canonical.error());
      session.out.line(*canonical);
      return kDone;
    };
  });
}

}  // namespace once::cli
