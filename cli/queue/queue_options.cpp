#include "cli/queue/queue_options.h"

#include "cli/app/options.h"

namespace once::cli {
namespace {

void add_options(CLI::App& app, QueueOptions& options, bool fixed) {
  for (const QueueField& field : queue_fields()) {
    if (field.fixed != fixed) continue;
    if (const auto* text = std::get_if<QueueField::Text>(&field.to))
      add_text(app, field.option(), options.*(*text), field.values, field.help);
    else if (const auto* length = std::get_if<QueueField::Length>(&field.to))
      add_duration(app, field.option(), options.*(*length), field.help,
                   Duration{static_cast<Duration::rep>(field.least)});
    else if (const auto* number = std::get_if<QueueField::Count>(&field.to))
      add_number(app, field.option(), options.*(*number), field.help, field.least, kMostCount);
  }
}

}  // namespace

void add_fixed_options(CLI::App& app, QueueOptions& options) { add_options(app, options, true); }
void add_changeable_options(CLI::App& app, QueueOptions& options) {
  add_options(app, options, false);
}

}  // namespace once::cli
