#include "flow/definition/findings.h"

#include "core/utf8.h"
#include "core/words.h"

namespace once::encoding {

std::string short_quote(std::string_view text) { return core::quoted(core::excerpt(text, 100)); }
std::string in_quotes(std::string_view text) { return "\"" + core::excerpt(text, 100) + "\""; }

std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates,
                         char quote) {
  const auto meant = core::nearest(word, candidates);
  return meant ? std::string("; did you mean ") + quote + std::string(*meant) + quote + "?" : "";
}

void Findings::add(const std::string& where, const std::string& what) {
  if (all_.size() < kMost) all_.push_back(where + what);
  ++count_;
}

Error Findings::error(std::string_view workflow, std::string_view undone) const {
  std::string message = workflow.empty() ? "workflow" : "workflow " + short_quote(workflow);
  message += ": " + joined(all_, "; ");
  if (count_ > kMost) message += "; and " + std::to_string(count_ - kMost) + " more";
  return {.code = Code::invalid_input, .message = message + "; " + std::string(undone)};
}

}  // namespace once::encoding
