// Sends requests over one connection and gives each reply to the thread that asked. A request is
// called a question here. Publishes to a stream, calls of JetStream's API and acknowledgements are
// questions. Each question has a reply subject below one inbox of this object. Pulls have inboxes
// of their own; see pull_inboxes.h. ARCHITECTURE.md, "Threads of the client", draws the threads.
//
// A caller that sends a burst wakes once, after the last reply arrives.
//
// This class stores no messages for a server that is away. A question that could not be sent did
// not happen. The outcome of a question that was sent and not answered is unknown. The server does
// not reply to a forbidden question. It reports the violation separately, with the subject. That
// report ends the question, which did not happen.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "once/result.h"
#include "once/zone.h"
#include "store/nats/client/connection.h"
#include "store/nats/client/pull_inboxes.h"

namespace once::store::nats {

class RequestMux {
 public:
  static Result<std::unique_ptr<RequestMux>> open(const Servers& address);
  ~RequestMux();
  RequestMux(const RequestMux&) = delete;
  RequestMux& operator=(const RequestMux&) = delete;

  struct Answer {
    enum class Kind { answered, unsent, unknown };
    Kind kind = Kind::unknown;
    std::vector<Message> messages{};  // one; for end_many() all before the status message
    int status{};                     // of a status message; zero: none
    std::string denied{};             // why the server forbids the question; empty: it does not
  };
  enum class Use {
    ordinary,
    examining,  // also over a new connection before admit(); for the Watch
  };
  // Sends all, a bounded window at a time, and waits for all.
  std::vector<Answer> ask(std::span<const Outgoing> questions, Duration wait,
                          Use use = Use::ordinary);
  // Sends `before` without asking for answers, then asks.
  std::vector<Answer> ask(std::span<const Outgoing> before, std::span<const Outgoing> questions,
                          Duration wait, Use use = Use::ordinary);
  // Asks a question that gets many answers and then a status message, in two steps. begin_many()
  // sends it and does not wait. So a question that the caller asks in between shares the round
  // trip. `PendingQuestion` must not outlive this object.
  class PendingQuestion;
  PendingQuestion begin_many(Outgoing question, Duration wait);
  Answer end_many(PendingQuestion asked);

  const std::string& where() const { return connection_->where(); }  // the servers that are tried

  // Sends without a reply subject. The message is lost if the server is away.
  void tell(const std::string& subject, std::string data = {});
  void tell(std::span<const Outgoing> messages);
  PullInboxes& pulls() { return pulls_; }
  // Calls `heard` for each message on the subject, on a delivery thread of nats.c, until the
  // returned subscription is destroyed.
  Result<std::unique_ptr<Subscription>> listen(const std::string& subject,
                                               std::function<void()> heard);

  std::size_t max_payload() const;
  // A name that no other RequestMux has.
  std::string name() const { return inbox_.substr(inbox_.rfind('.') + 1); }

  // Sets the check of new connections. This object calls `look` when a connection is back or when
  // something is missing. The Watch then checks the zone and calls admit(). Until then only
  // Use::examining sends over a new connection. Without a check, every connection is admitted.
  void set_connection_check(std::function<void()> look);
  std::uint64_t connection();  // the number of the current connection; zero if there is none
  // Admits the connection of that number. With an error, the server does not hold our zone any
  // more. Then nothing is sent, and barred() returns the error.
  void admit(std::uint64_t connection, std::optional<Error> why_not);
  void missed_something();
  std::optional<Error> barred();

 private:
  RequestMux() = default;

  // Questions that are sent together. The burst is on the stack of the asking thread, or in
  // PendingQuestion. mutex_ guards `answers`, `ended`, `done` and `enough`.
  struct Burst {
    std::span<const Outgoing> questions{};
    std::vector<Answer> answers{};
    std::vector<bool> ended{};
    std::vector<MessageHandle> messages{};  // that were sent
    bool many = false;                      // answers arrive until a status message
    std::uint64_t first{};                  // the number of the first question
    std::size_t done{};                     // how many have ended
    std::size_t enough{};                   // the asking thread wakes when `done` is this
    std::condition_variable woken{};
    std::atomic<std::size_t> sent{0};  // questions that were or are about to be sent

    void end(std::size_t index) {
      ended[index] = true;
      if (++done == enough) woken.notify_one();
    }
  };
  void begin(Burst& burst);
  std::vector<Answer> end(Burst& burst);
  void send_all(Burst& burst, std::chrono::steady_clock::time_point deadline, Use use);
  void wait_for(Burst& burst, std::size_t enough, std::chrono::steady_clock::time_point deadline);

  // See Connection.
  bool send(const Outgoing& message, const std::string& reply, Use use = Use::ordinary,
            std::vector<MessageHandle>* sent = nullptr);
  void flush();
  void wait_for_connection(std::chrono::steady_clock::time_point until, Use use = Use::ordinary);
  bool may_send(Use use) const;
  void note_may_send();
  void receive(Message message);
  Result<void> open_inbox(const std::string& prefix);
  void connection_lost(const std::string& server);
  void connection_back(const std::string& server);
  // `text` is the server's report: `Permissions Violation for Publish to "SUBJECT"`.
  void heard_violation(std::string_view text);

  std::function<void(std::string_view)> log_;
  std::unique_ptr<Connection> connection_;
  std::string inbox_;
  std::unique_ptr<Subscription> inbox_subscription_;
  PullInboxes pulls_{
      [this](const Outgoing& message, const std::string& reply) { return send(message, reply); },
      [this] { flush(); }};
  std::atomic<bool> may_ask_{true};      // may_send(Use::ordinary), readable without mutex_
  std::atomic<bool> may_examine_{true};  // may_send(Use::examining), the same

  std::mutex mutex_;
  std::condition_variable changed_;         // connected_, admitted_
  std::map<std::uint64_t, Burst*> bursts_;  // by first number
  std::uint64_t last_question_{};
  bool connected_ = true;
  std::chrono::steady_clock::time_point lost_at_{};
  std::uint64_t connections_ = 1;  // how many there were; the number of the current one
  std::uint64_t admitted_ = 1;     // the number of the last one that was admitted
  std::function<void()> look_;
  std::optional<Error> barred_;
};

class RequestMux::PendingQuestion {
 public:
  ~PendingQuestion();
  PendingQuestion(PendingQuestion&&) noexcept;
  PendingQuestion& operator=(PendingQuestion&&) = delete;

 private:
  friend class RequestMux;
  PendingQuestion(RequestMux& mux, Outgoing question, Duration wait);

  struct Question;
  RequestMux& mux_;
  std::unique_ptr<Question> question_;
};

// The error for a request that the server forbids to this login.
Error not_permitted(const std::string& denied);

}  // namespace once::store::nats
