#include "shapes/error_json.h"

#include "tooling/text.h"

namespace once::cli {

JsonLine& add_error_facts(JsonLine& line, const Error& error) {
  line.boolean("retryable", error.retryable).boolean("in_doubt", error.in_doubt);
  if (error.reason != Reason::none) {
    std::map<std::string, std::string> facts;
    for (const Facts::Fact& fact : error.facts) facts.emplace(fact.name, fact.value);
    line.text("reason", to_string(error.reason)).json("facts", json_object(facts));
  }
  if (error.conflict) {
    const Conflict& conflict = *error.conflict;
    if (conflict.key.empty()) {
      line.text("id", conflict.id);
    } else {
      line.text("run", conflict.id).text("key", conflict.key);
    }
    if (conflict.sequence > 0) line.number("sequence", conflict.sequence);
    if (!conflict.digest.empty()) {
      line.text("digest", conflict.digest).text("given_digest", conflict.given_digest);
    }
    if (conflict.differs) {
      std::vector<std::string> paths;
      for (const std::string& path : *conflict.differs) paths.push_back(json_string(path));
      line.json("differs", json_array(paths));
    } else {
      line.null("differs");
    }
  }
  return line;
}

JsonLine& add_error(JsonLine& line, const Error& error, std::string_view message) {
  return add_error_facts(line.text("error", to_string(error.code)).text("message", message), error);
}

}  // namespace once::cli
