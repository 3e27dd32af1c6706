// The large values of a record: its result, the results of its steps, the logs of its attempts. A
// store keeps them by their digests outside the record, so that a renewal does not write them again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/record.h"
#include "once/result.h"

namespace once::encoding {

// Where a value is that a packed record does not hold itself.
struct MovedValue {
  std::optional<std::size_t> step{};     // whose result it is
  std::optional<std::size_t> attempt{};  // whose log it is; neither: the task's result
  core::Digest digest{};                 // SHA-256 of its text
  std::uint64_t size{};
  std::uint64_t chunk_size{};  // of every chunk but the last; zero: it is in one piece
  bool json = false;

  std::uint64_t chunks() const {
    return chunk_size == 0 ? 1 : (size + chunk_size - 1) / chunk_size;
  }
  std::string name() const;  // of its content, as a NATS subject has it
};

struct PackedRecord {
  std::string data{};
  std::size_t record_size{};  // of the record in it; what follows says where its values are
  std::vector<MovedValue> moved{};
};
struct Packing {
  std::size_t record = SIZE_MAX;  // the largest values are moved until the rest has no more bytes
  std::size_t value = SIZE_MAX;   // every larger value is moved
  std::size_t chunk = 0;
  bool logs = false;  // move logs too
};
PackedRecord pack(const core::Record& record, const Packing& packing);

// What pack() made: the record without the values that were moved, and where these are.
Result<core::Record> unpack(std::string_view data, std::optional<std::size_t> record_size,
                            std::vector<MovedValue>& moved);

std::string_view text_of(const core::Record& record, const MovedValue& moved);
void put_value(core::Record& record, const MovedValue& moved, Body value);

// Values that some record in this process holds need not be read and checked again: a running claim
// is looked at every second.
void hold_in_use(const core::Record& record, const std::vector<MovedValue>& moved);
std::optional<Body> in_use(const MovedValue& moved);  // nullopt if no record holds it

}  // namespace once::encoding
