#include "codec/claim_handle.h"

#include <algorithm>

#include "codec/wire.h"
#include "json/base64.h"

namespace once::encoding {
namespace {

enum HandleField : unsigned {
  kHandleZone = 1,
  kHandleQueue = 2,
  kHandleKey = 3,
  kHandleSequence = 4,
  kHandleNonce = 5,
  kHandleDelivery = 6,
  kHandleSlot = 7,  // only in a queue with max_running
};
constexpr std::size_t kLongestHandle = 64 << 10;

Error no_handle() {
  return {
      .code = Code::invalid_input,
      .message = "this is no claim of Once; nothing was done: use the text of the offer, whole"};
}

bool take(const WireField& field, ClaimHandle& handle) {
  if (field.number == kHandleSequence) {
    handle.sequence.value = field.value;
    return field.kind == WireKind::number;
  }
  if (field.number == kHandleSlot) {
    handle.slot = static_cast<std::uint32_t>(field.value);
    return field.kind == WireKind::number && field.value == *handle.slot;
  }
  if (field.kind != WireKind::bytes) return false;
  switch (field.number) {
    case kHandleZone: handle.zone = field.bytes; break;
    case kHandleQueue: handle.queue = field.bytes; break;
    case kHandleKey: handle.key = field.bytes; break;
    case kHandleDelivery: handle.delivery = field.bytes; break;
    case kHandleNonce:
      if (field.bytes.size() != handle.nonce.bytes.size()) return false;
      std::copy(field.bytes.begin(), field.bytes.end(), handle.nonce.bytes.begin());
      break;
    default: return false;
  }
  return true;
}

}  // namespace

std::string text(const ClaimHandle& handle) {
  std::string bytes;
  append_bytes_field(kHandleZone, handle.zone, bytes);
  append_bytes_field(kHandleQueue, handle.queue, bytes);
  append_bytes_field(kHandleKey, handle.key, bytes);
  append_number_field(kHandleSequence, handle.sequence.value, bytes);
  const auto& nonce = handle.nonce.bytes;
  append_bytes_field(kHandleNonce, {reinterpret_cast<const char*>(nonce.data()), nonce.size()},
                     bytes);
  append_bytes_field(kHandleDelivery, handle.delivery, bytes);
  if (handle.slot) append_number_field(kHandleSlot, *handle.slot, bytes);
  append_checksum(bytes);
  std::string text = base64(bytes);
  while (text.ends_with('=')) text.pop_back();
  std::replace(text.begin(), text.end(), '+', '-');
  std::replace(text.begin(), text.end(), '/', '_');
  return text;
}

Result<ClaimHandle> claim_handle(std::string_view text) {
  if (text.empty() || text.size() > kLongestHandle || text.find_first_of("+/=") != text.npos)
    return no_handle();
  std::string padded(text);
  std::replace(padded.begin(), padded.end(), '-', '+');
  std::replace(padded.begin(), padded.end(), '_', '/');
  padded.append((4 - padded.size() % 4) % 4, '=');
  const auto bytes = from_base64(padded);
  const auto content = bytes ? checked(*bytes) : std::nullopt;
  if (!content) return no_handle();
  ClaimHandle handle;
  WireReader reader(*content);
  for (std::uint64_t last = 0; !reader.at_end();) {
    const auto field = reader.next();
    if (!field || field->number <= last || !take(*field, handle)) return no_handle();
    last = field->number;
  }
  if (handle.queue.empty() || handle.key.empty() || handle.nonce == core::Nonce{})
    return no_handle();
  return handle;
}

}  // namespace once::encoding
