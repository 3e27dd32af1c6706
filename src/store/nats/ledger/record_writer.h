// Writes many records in one burst: one by one, or together in atomic batches, whichever was faster
// lately. A batch is one fsync. Any thread may call it.
#pragma once

#include <span>
#include <vector>

#include "store/nats/batch_choice.h"
#include "store/nats/zone_connection.h"

namespace once::store::nats {

class RecordWriter {
 public:
  explicit RecordWriter(ZoneConnection& zone) : zone_(zone) {}

  // Returns the outcome of each record, and the current definitions at these subjects of the meta
  // bucket.
  JetStreamClient::Burst write(std::span<const Outgoing> records,
                               std::span<const std::string> definitions);

 private:
  JetStreamClient::Burst write_singly(std::span<const Outgoing> records,
                                      std::span<const std::string> definitions);
  // Leaves the records that must go one by one in `singly`.
  void write_batch(std::span<const Outgoing> records, std::vector<std::size_t> batch,
                   std::span<const std::string> definitions, JetStreamClient::Burst& burst,
                   std::vector<std::size_t>& singly) const;
  // Moves the records that another writer has changed from `batch` to `singly`. Returns false if
  // the ledger could not be read.
  bool part_changed(std::span<const Outgoing> records, std::vector<std::size_t>& batch,
                    std::vector<std::size_t>& singly) const;

  ZoneConnection& zone_;
  BatchChoice choice_;
};

}  // namespace once::store::nats
