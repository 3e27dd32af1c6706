// The long polls for the tasks of one queue, in the order of their arrival. One thread waits in the
// store for all of them. One commit offers tasks to as many polls as there are tasks.
//
// | what happens                                  | what becomes of the tasks                       |
// |-----------------------------------------------|-------------------------------------------------|
// | a poll's time is up                           | it is answered without offers                   |
// | its client leaves while the commit runs       | another poll of the same worker gets the offer; |
// |                                               | otherwise the offer is withdrawn                |
// | the connection ends before the answer is sent | the offer is withdrawn, unless it has started   |
// | the store fails                               | every poll gets the error, and asks again       |
// | the answer of the store is lost               | the next commit finds the offers, and their     |
// |                                               | worker gets them                                |
// | the server is killed                          | the offers end by themselves                    |
#pragma once

#include <atomic>
#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "once/consumer.h"
#include "server/http.h"

namespace once::server {

// Turns offers into a response.
using OffersResponse = Response (*)(const std::vector<Offer>& offers);

// Any thread may call. Its polls share it, so that it ends after the last of them.
class OfferLine : public std::enable_shared_from_this<OfferLine> {
 public:
  OfferLine(std::shared_ptr<Consumer> consumer, OffersResponse response)
      : consumer_(std::move(consumer)), response_(response) {}
  ~OfferLine();

  // Parks a poll for up to `most` tasks.
  std::unique_ptr<Wait> join(OfferFor to, std::size_t most, AnswerWith answer);
  bool empty() const;
  // The queue is gone. A queue of the same name needs another line.
  bool over() const { return over_; }
  const std::shared_ptr<Consumer>& consumer() const { return consumer_; }

 private:
  struct Poll;
  using Polls = std::list<std::shared_ptr<Poll>>;
  struct Poll {
    OfferFor to{};
    std::size_t most = 1;
    AnswerWith answer{};
    std::vector<Offer> offers{};
    std::optional<Polls::iterator> place{};  // nullopt if it left the line; under mutex_
  };
  class Place;

  void leave(const std::shared_ptr<Poll>& poll, bool answer);
  void run(const std::stop_token& stop);
  std::size_t wanted() const;                                 // under mutex_
  std::optional<OfferFor> choose(std::size_t offered) const;  // the worker of the next task
  void hand_out(std::vector<Offer> offers);
  using OffersByWorker = std::map<std::string, std::vector<Offer>>;
  static bool serve_round(Polls& polls, OffersByWorker& offers, Polls& served);
  void fail(const Error& error);
  // Answers a poll that is not in the line any more.
  void answer(Poll& poll) const;

  const std::shared_ptr<Consumer> consumer_;  // shared with the calls that use it
  const OffersResponse response_;
  mutable std::mutex mutex_;
  std::condition_variable_any joined_;
  Polls polls_{};               // under mutex_
  std::stop_source waiting_{};  // ends the wait in the store; under mutex_
  std::atomic<bool> over_ = false;
  std::optional<std::jthread> thread_{};  // begins with the first poll; under mutex_
};

}  // namespace once::server
