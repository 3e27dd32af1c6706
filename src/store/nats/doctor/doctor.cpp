#include "store/nats/doctor/doctor.h"

#include "store/nats/doctor/queue_look.h"

namespace once::store::nats {

Result<QueueGlance> Doctor::examine_queue(const KnownQueue& queue, const DoctorOptions& options,
                                          bool countable, ZoneLook& look) {
  QueueLook each(look, queue, countable);
  if (auto done = each.at_stream(); !done) return done.error();
  if (auto done = each.at_consumers(consumers_.plans(queue)); !done) return done.error();
  const auto dropped = [&](std::uint64_t last) { return foreign_.dropped(queue, last); };
  if (auto done = each.at_dropped(options.deep, dropped); !done) return done.error();
  const auto workers = members_.workers(queue);
  if (!workers) return workers.error();
  each.glance.workers = *workers;
  return each.glance;
}

Result<Examination> Doctor::examine(const DoctorOptions& options) {
  Examination examination;
  ZoneLook look(zone_, options, examination);
  if (auto done = look.at_zone_streams(); !done) return done.error();
  if (const auto lost = watch_.lost())
    look.find("zone_emptied", Severity::hazard, "zone " + zone_.subjects.zone,
              {{"zone", zone_.subjects.zone}, {"error", lost->message}});
  if (auto done = look.at_account(); !done) return done.error();
  const auto queues = registry_.all();
  if (!queues) return queues.error();
  for (const KnownQueue& queue : *queues) {
    const std::string& name = queue.definition.name;
    if (!options.queue.empty() && options.queue != name) continue;
    if (queue.definition.ledger) {  // a page of its rows costs a read of all its keys
      if (!examination.countable) examination.queues[name].readable = false;
      continue;
    }
    const auto glance = examine_queue(queue, options, examination.countable, look);
    if (!glance) return glance.error();
    examination.queues[name] = *glance;
  }
  if (auto done = look.at_monitors(); !done) return done.error();
  look.at_servers();
  return examination;
}

}  // namespace once::store::nats
