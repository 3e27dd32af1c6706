#include "server/offer_line.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "server/problem.h"

namespace once::server {
namespace {

constexpr Duration kLongestWait{60'000};   // in the store, before the thread asks again
constexpr std::size_t kMostOffers = 1000;  // of one commit

void withdraw(Consumer& consumer, const std::vector<Offer>& offers) {
  std::vector<std::string> claims;
  for (const Offer& offer : offers) claims.push_back(offer.claim);
  consumer.withdraw(claims);
}

}  // namespace

// The client's side of a poll.
class OfferLine::Place : public Wait {
 public:
  Place(std::shared_ptr<OfferLine> line, std::shared_ptr<Poll> poll)
      : line_(std::move(line)), poll_(std::move(poll)) {}
  ~Place() override { line_->leave(poll_, false); }
  void finish() override { line_->leave(poll_, true); }

 private:
  const std::shared_ptr<OfferLine> line_;
  const std::shared_ptr<Poll> poll_;  // shared with the line
};

OfferLine::~OfferLine() {
  const std::lock_guard lock(mutex_);
  waiting_.request_stop();
  if (thread_) thread_->request_stop();
}

std::unique_ptr<Wait> OfferLine::join(OfferFor to, std::size_t most, AnswerWith answer) {
  auto poll =
      std::make_shared<Poll>(Poll{.to = std::move(to), .most = most, .answer = std::move(answer)});
  auto place = std::make_unique<Place>(shared_from_this(), poll);
  const std::lock_guard lock(mutex_);
  poll->place = polls_.insert(polls_.end(), poll);
  if (!thread_) thread_.emplace([this](const std::stop_token& stop) { run(stop); });
  joined_.notify_one();
  return place;
}

bool OfferLine::empty() const {
  const std::lock_guard lock(mutex_);
  return polls_.empty();
}

void OfferLine::leave(const std::shared_ptr<Poll>& poll, bool answered) {
  {
    const std::lock_guard lock(mutex_);
    if (!poll->place) return;
    polls_.erase(*std::exchange(poll->place, std::nullopt));
    if (polls_.empty()) waiting_.request_stop();
  }
  if (answered) answer(*poll);
}

// --- The thread -----------------------------------------------------------------------------------

void OfferLine::run(const std::stop_token& stop) {
  while (true) {
    std::stop_token waiting;
    std::size_t most = 0;
    {
      std::unique_lock lock(mutex_);
      if (!joined_.wait(lock, stop, [&] { return !polls_.empty(); }) || stop.stop_requested())
        return;
      if (waiting_.stop_requested()) waiting_ = std::stop_source{};
      waiting = waiting_.get_token();
      most = wanted();
    }
    try {
      auto offers = consumer_->offer(most, kLongestWait, waiting,
                                     [this](std::size_t offered) { return choose(offered); });
      if (!offers)
        fail(offers.error());
      else if (!offers->empty())
        hand_out(std::move(*offers));
    } catch (const std::exception& error) {
      fail({.code = Code::failed, .message = error.what()});
    }
  }
}

std::size_t OfferLine::wanted() const {
  std::size_t sum = 0;
  for (const auto& poll : polls_) {
    sum += poll->most;
    if (sum >= kMostOffers) return kMostOffers;
  }
  return sum;
}

// Every poll gets one task before any poll gets a second one.
std::optional<OfferFor> OfferLine::choose(std::size_t offered) const {
  const std::lock_guard lock(mutex_);
  for (std::size_t round = 0;; ++round) {
    std::size_t takers = 0;
    for (const auto& poll : polls_) {
      if (poll->most <= round) continue;
      ++takers;
      if (offered-- == 0) return poll->to;
    }
    if (takers == 0) return std::nullopt;
  }
}

void OfferLine::hand_out(std::vector<Offer> offers) {
  OffersByWorker by_worker;
  for (Offer& offer : offers) by_worker[offer.worker].push_back(std::move(offer));
  Polls served;
  {
    const std::lock_guard lock(mutex_);
    serve_round(polls_, by_worker, served);
    while (serve_round(served, by_worker, served)) {
    }
  }
  for (const auto& poll : served) answer(*poll);
  for (const auto& [worker, left] : by_worker) withdraw(*consumer_, left);
}

// Gives at most one more offer to each of `polls`, and moves those that get their first to `served`.
bool OfferLine::serve_round(Polls& polls, OffersByWorker& offers, Polls& served) {
  bool given = false;
  for (auto next = polls.begin(); next != polls.end() && !offers.empty();) {
    const auto poll = next++;
    Poll& taker = **poll;
    const auto found = offers.find(taker.to.worker);
    if (found == offers.end() || taker.offers.size() >= taker.most) continue;
    taker.offers.push_back(std::move(found->second.back()));
    found->second.pop_back();
    if (found->second.empty()) offers.erase(found);
    given = true;
    if (!taker.place) continue;
    taker.place.reset();
    served.splice(served.end(), polls, poll);
  }
  return given;
}

void OfferLine::answer(Poll& poll) const {
  Response response = response_(poll.offers);
  if (!poll.offers.empty())
    response.lost = [consumer = consumer_, offers = std::move(poll.offers)] {
      withdraw(*consumer, offers);
    };
  poll.answer(std::move(response));
}

void OfferLine::fail(const Error& error) {
  Polls failed;
  {
    const std::lock_guard lock(mutex_);
    failed.swap(polls_);
    for (const auto& poll : failed) poll->place.reset();
    over_ = error.code == Code::not_found;
  }
  for (const auto& poll : failed) poll->answer(problem(error));
}

}  // namespace once::server
