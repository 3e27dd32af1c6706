// One RAII type per handle of nats.c. Outgoing is a message to send, Message is one that arrived.
#pragma once

#include <nats/nats.h>

#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace once::store::nats {

template <class Handle, void (*destroy)(Handle*)>
struct Destroyer {
  void operator()(Handle* handle) const { destroy(handle); }
};
using OptionsHandle = std::unique_ptr<natsOptions, Destroyer<natsOptions, natsOptions_Destroy>>;
using ConnectionHandle =
    std::unique_ptr<natsConnection, Destroyer<natsConnection, natsConnection_Destroy>>;
using SubscriptionHandle =
    std::unique_ptr<natsSubscription, Destroyer<natsSubscription, natsSubscription_Destroy>>;
using MessageHandle = std::unique_ptr<natsMsg, Destroyer<natsMsg, natsMsg_Destroy>>;

using Headers = std::vector<std::pair<std::string, std::string>>;

// A message to send.
struct Outgoing {
  std::string subject{};
  std::string data{};
  Headers headers{};
};

// A message that arrived.
class Message {
 public:
  explicit Message(MessageHandle handle) : handle_(std::move(handle)) {}

  std::string_view subject() const { return natsMsg_GetSubject(handle_.get()); }
  std::string_view reply() const {
    const char* reply = natsMsg_GetReply(handle_.get());
    return reply ? reply : "";
  }
  std::string_view data() const {
    return {natsMsg_GetData(handle_.get()),
            static_cast<std::size_t>(natsMsg_GetDataLength(handle_.get()))};
  }
  std::optional<std::string_view> header(const char* name) const {
    const char* value = nullptr;
    if (natsMsgHeader_Get(handle_.get(), name, &value) != NATS_OK || !value) return std::nullopt;
    return value;
  }
  bool header_names(const char*** names, int* count) const {
    return natsMsgHeader_Keys(handle_.get(), names, count) == NATS_OK;
  }
  // The status code of a status message of the server (404, 408, 503 ...). Zero for an ordinary
  // message. A publisher may also set a header of that name. So a message that can be acknowledged
  // is never a status message.
  int status() const {
    if (!data().empty() || reply().starts_with("$JS.ACK.")) return 0;
    const auto text = header("Status");
    int status = 0;
    if (text && text->size() == 3) std::from_chars(text->data(), text->data() + 3, status);
    return status;
  }

 private:
  MessageHandle handle_;
};

}  // namespace once::store::nats
