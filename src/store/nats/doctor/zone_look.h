// One look of the doctor at the zone's streams, the account and the servers. It collects findings and
// what was checked. settings_check.h checks what it sees.
#pragma once

#include <map>
#include <set>
#include <string>

#include "core/findings.h"
#include "store/nats/doctor/settings_check.h"
#include "store/nats/zone_connection.h"

namespace once::store::nats {

class ZoneLook {
 public:
  ZoneLook(ZoneConnection& zone, const DoctorOptions& options, Examination& to)
      : zone_(zone), options_(options), to_(to) {}

  const JetStreamClient& client() const { return zone_.client; }
  void add(Findings found) {
    for (once::Finding& each : found) to_.findings.push_back(std::move(each));
  }
  void find(std::string_view key, Severity severity, std::string about, Facts facts = {}) {
    to_.findings.push_back(core::finding(key, severity, std::move(about), std::move(facts)));
  }
  void checked(std::string what) { to_.checked.push_back(std::move(what)); }
  // Something that this login may not ask is not known. Any other error ends the look.
  Result<void> unseen(const std::string& what, const Error& error);
  // A stream's answer also tells its leader's version and clock.
  void learn(const encoding::Json& info);

  Result<void> at_zone_streams();
  Result<void> at_account();
  // Servers that lead a stream tell their version. The rest is told at monitoring ports.
  Result<void> at_monitors();
  void at_servers();

 private:
  void at_stream(const StreamLook& stream);
  void at_clock(const StreamLook& ledger, Time before, Time after);
  void at_hidden_settings();

  ZoneConnection& zone_;
  const DoctorOptions& options_;
  Examination& to_;
  std::map<std::string, std::string> versions_;  // by server
  std::set<std::string> nodes_;                  // that hold one of the zone's streams
  std::set<std::string> monitored_;              // of them
  std::uint64_t messages_{};                     // in the log and the ledger
};

}  // namespace once::store::nats
