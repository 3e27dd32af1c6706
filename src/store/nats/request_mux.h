// Questions and answers over one connection: everything that is sent has a reply subject below one
// inbox of our own, and what comes back is sorted to who asked. Publishes to a stream, JetStream's API
// and acknowledgements are all questions. A pull is one too, but what it delivers comes under the
// subject that it was published on: so every pull that is under way has an inbox to itself, which the
// next one uses again.
//
// Who asked a burst of questions is woken when all are answered.
//
// Nothing is kept for a server that is away: what could not be sent is known not to have happened,
// what was sent and not answered is unknown. What the server's permissions forbid it does not answer
// but tells beside, by its subject: that ends the question, which is known not to have happened.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "once/result.h"
#include "once/zone.h"
#include "store/nats/handles.h"

namespace once::store::nats {

struct Servers {
  std::vector<std::string> servers{};  // "nats://host:port", or all "tls://..."
  NatsLogin login{};
  std::function<void(std::string_view)> log{};  // a line each, on any thread; none: silent
  Duration ping_every{5'000};  // a server that does not answer two of them is given up
};

// What a waiting thread sleeps on. Whoever has news for it rings.
class Bell {
 public:
  void ring();
  std::uint64_t rings() const;
  // Until there were more rings than `seen`, the time has come, or a stop is requested.
  void wait_until(std::uint64_t seen, std::chrono::steady_clock::time_point until,
                  const std::stop_token& stop);

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any rung_;
  std::uint64_t rings_{};
};

// Where what one pull brings gathers. Guarded by the exchange's mutex.
struct Slot {
  std::uint64_t number{};
  std::vector<Message> messages{};
  std::size_t wanted = 1;  // messages that end it; a word of the server's always does
  bool ended = false;
  bool lost = false;      // the connection broke before it ended
  int status{};           // the server's word, when that ended it
  std::string subject{};  // of the question
  std::chrono::steady_clock::time_point sent_at{};
  std::string denied{};  // what the server said of it, when it is not permitted
  std::shared_ptr<Bell>
      bell{};  // shared with who waits; none: nobody does, deliveries are returned
};

class RequestMux {
 public:
  static Result<std::unique_ptr<RequestMux>> open(const Servers& address);
  ~RequestMux();
  RequestMux(const RequestMux&) = delete;
  RequestMux& operator=(const RequestMux&) = delete;

  struct Answer {
    enum class Kind { answered, unsent, unknown };
    Kind kind = Kind::unknown;
    std::vector<Message> messages{};  // answered: one, or for ask_many() all before the last word
    int status{};                     // the server's word
    std::string denied{};             // why the server takes no such question; not answered then
  };
  enum class Use {
    ordinary,
    examining,  // also over a connection that nobody has admitted yet
  };
  // Sends all, a bounded window at a time, and waits for all.
  std::vector<Answer> ask(std::span<const Outgoing> questions, Duration wait,
                          Use use = Use::ordinary);
  Answer ask(const Outgoing& question, Duration wait);
  // Sends `before` without asking for answers, then asks.
  std::vector<Answer> ask(std::span<const Outgoing> before, std::span<const Outgoing> questions,
                          Duration wait, Use use = Use::ordinary);
  // For a question with many answers and a last word.
  Answer ask_many(const Outgoing& question, Duration wait);
  // The same in two steps: what is asked in between goes out with it. Does not outlive the exchange.
  class Asked;
  Asked begin_many(Outgoing question, Duration wait);
  Answer end_many(Asked asked);

  const std::string& where() const { return where_; }  // the servers that are tried

  // Without an answer; lost when nobody listens or the server is away.
  void tell(const std::string& subject, std::string data = {});
  void tell(std::span<const Outgoing> messages);
  // For pulls: answers come until `wanted` or a last word. null: it could not be sent.
  std::shared_ptr<Slot> pull(const Outgoing& question, std::size_t wanted,
                             std::shared_ptr<Bell> bell);
  // Who waits now; none: what comes from now on is given back to the server.
  void attend(Slot& slot, std::shared_ptr<Bell> bell);
  // What came so far; true: nothing more will come.
  bool take(Slot& slot, std::vector<Message>& into);
  int status_of(const Slot& slot);       // zero: none yet
  std::string denied(const Slot& slot);  // empty: it was not
  // Of a pull that nobody will answer any more. What comes all the same is given back.
  void give_up(Slot& slot);

  // Calls `heard` for each message on the subject, on a thread of nats.c, until destroyed.
  class Listener {
   public:
    virtual ~Listener() = default;
  };
  Result<std::unique_ptr<Listener>> listen(const std::string& subject, std::function<void()> heard);

  std::size_t max_payload() const;
  // Of this connection, and of no other.
  std::string name() const { return inbox_.substr(inbox_.rfind('.') + 1); }

  // Whether what is at the other end is still what it was, is somebody else's to find out: `look` is
  // called when a connection came back or something was missing. Until the connection is admitted,
  // nothing is sent over it. None: nobody looks, and every connection is as good as the first.
  void guard(std::function<void()> look);
  std::uint64_t connection();  // which one it is; zero: none now
  // An error: what is there is not ours. Nothing is sent, and that is why.
  void admit(std::uint64_t connection, std::optional<Error> why_not);
  void missed_something();
  std::optional<Error> barred();

 private:
  class Subscription;
  RequestMux() = default;

  struct PullInbox {
    std::string subject{};
    std::unique_ptr<Subscription> subscription{};
    std::shared_ptr<Slot> slot{};  // shared with who waits; none: it is free
  };

  // Questions that were sent together. On the stack of who asks, under mutex_ what it has but `sent`.
  struct Burst {
    std::span<const Outgoing> questions{};
    std::vector<Answer> answers{};
    std::vector<bool> ended{};
    bool many = false;      // answers come until a last word
    std::uint64_t first{};  // the questions' numbers begin there
    std::size_t done{};     // how many have ended
    std::size_t enough{};   // wake when so many have
    std::condition_variable woken{};
    std::atomic<std::size_t> sent{0};  // or about to be

    void end(std::size_t index) {
      ended[index] = true;
      if (++done == enough) woken.notify_one();
    }
  };
  void begin(Burst& burst);
  std::vector<Answer> end(Burst& burst);
  void send_all(Burst& burst, std::chrono::steady_clock::time_point deadline, Use use);
  void wait_for(Burst& burst, std::size_t enough, std::chrono::steady_clock::time_point deadline);

  std::pair<PullInbox*, std::shared_ptr<Slot>> free_inbox();
  bool send(const Outgoing& message, const std::string& reply, Use use = Use::ordinary);
  void wait_for_connection(std::chrono::steady_clock::time_point until, Use use = Use::ordinary);
  bool may_send(Use use) const;
  void note_may_send();
  // What came, sorted under one lock; who waits is rung once.
  struct Rung {
    std::vector<std::shared_ptr<Bell>> bells{};
    std::vector<std::string> give_back{};
  };
  void receive(Message message);
  void receive_pulled(PullInbox& inbox, Message message, Rung& rung);
  void end_pull(PullInbox& inbox, int status, Rung& rung);
  void ring(Rung rung);
  void connection_lost();
  void connection_back();
  std::string connected_to() const;
  // What the server says about permissions: `Permissions Violation for Publish to "SUBJECT"`.
  void heard_violation(std::string_view text);
  void end_denied(Slot& slot, std::string_view text, std::vector<std::shared_ptr<Bell>>& bells);

  std::function<void(std::string_view)> log_;
  ConnectionHandle connection_;
  std::string inbox_;
  std::unique_ptr<Subscription> inbox_subscription_;
  std::atomic<bool> may_ask_{true};      // what may_send() says of ordinary use
  std::atomic<bool> may_examine_{true};  // and of examining

  std::mutex mutex_;
  std::condition_variable changed_;         // connected_, admitted_, closed_
  std::map<std::uint64_t, Burst*> bursts_;  // by first number
  std::list<PullInbox> pull_inboxes_;
  std::uint64_t last_slot_{};
  bool connected_ = true;
  bool closing_ = false;
  bool closed_ = false;
  std::string closed_why_;  // when it was not us who closed it
  std::string server_;      // that it is or was connected to
  std::string where_;       // all servers that are tried, for messages
  std::chrono::steady_clock::time_point lost_at_{};
  std::uint64_t connections_ = 1;  // so far
  std::uint64_t admitted_ = 1;     // of them
  std::function<void()> look_;
  std::optional<Error> barred_;
};

class RequestMux::Asked {
 public:
  ~Asked();
  Asked(Asked&&) noexcept;
  Asked& operator=(Asked&&) = delete;

 private:
  friend class RequestMux;
  Asked(RequestMux& exchange, Outgoing question, Duration wait);

  struct Question;
  RequestMux& exchange_;
  std::unique_ptr<Question> question_;
};

// The error for what a server does not let this login do.
Error not_permitted(const std::string& denied);

}  // namespace once::store::nats
