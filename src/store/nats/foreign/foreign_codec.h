// Messages of streams that others publish to, as entries. Also the copy of a dead or held message, and the
// note that a record carries of its message.
//
//   a copy:  {"headers":[[NAME,VALUE],...],"subject":SUBJECT,"time":MILLISECONDS} LF data
//            in parts of a size that the server takes; names, values and subject as escaped() says
//   a note:  SUBJECT "," MILLISECONDS, the subject as escaped() says
#pragma once

#include "store/nats/log/entry_codec.h"

namespace once::store::nats {

// The topic is the subject, the headers are the message's own. The body is JSON if it is valid by Once's
// rules, else bytes. The message's data is moved into it.
Entry foreign_entry(const KnownQueue& queue, StreamMessage message, StoreTime now);

// Whether the queue takes that message from its stream.
bool takes(const KnownQueue& queue, const StreamMessage& message);

std::string encode_copy(const StreamMessage& message);
// Sequence and bytes of an earlier encode_copy().
Result<StreamMessage> decode_copy(std::uint64_t sequence, std::string_view bytes);

inline constexpr std::string_view kNote = "Once-Task";  // the header of a record that holds it
std::string note_of(const Entry& entry);
// A delivery's handle also holds the note, before the subjects that are to be answered.
std::string handle_with_note(std::string handle, const Entry& entry);
std::string_view note_in(std::string_view handle);  // empty: there is none
// The entry of a message of which only the note in its record is left.
Entry noted_entry(const KnownQueue& queue, Sequence sequence, std::string_view note);

}  // namespace once::store::nats
