// Messages of streams that others publish to, as entries; the copy that is kept of one that is dead or
// held; and the note that a record carries of its message, which may be gone when people ask.
//
//   a copy:  {"headers":[[NAME,VALUE],...],"subject":SUBJECT,"time":MILLISECONDS} LF data
//            in parts of a size that the server takes; names, values and subject as escaped() says
//   a note:  SUBJECT "," MILLISECONDS, the subject as escaped() says
#pragma once

#include "store/nats/entry_codec.h"

namespace once::store::nats {

// Topic is the subject, headers are the message's own; the body is JSON where it is that by Once's
// rules, else bytes. Content is topic and body, as everywhere.
Entry foreign_entry(const KnownQueue& queue, const StreamMessage& kept, StoreTime now);

// Whether the queue takes it from its stream.
bool takes(const KnownQueue& queue, const StreamMessage& kept);

std::string encode_copy(const StreamMessage& kept);
// Sequence and bytes of an earlier encode_copy().
Result<StreamMessage> decode_copy(std::uint64_t sequence, std::string_view bytes);

inline constexpr std::string_view kNote = "Once-Task";  // the header of a record that holds it
std::string note_of(const Entry& entry);
// A delivery's handle holds it, too, among the subjects that are to be answered.
std::string handle_with_note(std::string handle, const Entry& entry);
std::string_view note_in(std::string_view handle);  // empty: there is none
// An entry of which nothing but the note of its record is left.
Entry noted_entry(const KnownQueue& queue, Sequence sequence, std::string_view note);

}  // namespace once::store::nats
