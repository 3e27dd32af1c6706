#include "cli/demo/show.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/demo/effects.h"
#include "shapes/values.h"

namespace once::cli::demo {
namespace {

constexpr Duration kBreath{40};             // between two looks
constexpr Duration kBetweenKills{1'000};    // about
constexpr Duration kBetweenQuestions{300};  // to the zone
constexpr Duration kShowPatience{60'000};   // when the kills are over, and beyond a task's work
constexpr const char* kOtherTitle = "Another title";

}  // namespace

Show::Show(Session& session, Signals& signals, Zone& zone, const Setting& setting, bool paint)
    : session_(session),
      signals_(signals),
      zone_(zone),
      setting_(setting),
      paint_(paint),
      diary_([this](const Diary::Entry& entry) { tell(entry); }),
      random_(setting.seed),
      publishers_random_(setting.seed + 1),
      fleet_(setting, diary_),
      plain_queue_(setting),
      plain_fleet_(setting),
      publishers_(setting, diary_, publishers_random_,
                  [this](const std::string& id) { plain_queue_.publish(post_of(id)); }) {}

Result<bool> Show::run() {
  if (paint_) terminal_.emplace(session_.out);
  auto played = play();
  if (played && *played) played = finish();
  terminal_.reset();
  return played;
}

Result<bool> Show::play() {
  if (auto started = fleet_.start(); !started) return started.error();
  if (auto started = plain_fleet_.start(); !started) return started.error();
  end_ = SteadyClock::now() + setting_.length;
  latest_ = end_ + patience();
  next_kill_ = SteadyClock::now() + kBetweenKills;
  while (!settled_ && SteadyClock::now() < latest_) {
    if (signals_.wait(kBreath)) return false;
    take_keys();
    if (auto went = act(SteadyClock::now()); !went) return went.error();
    if (terminal_) terminal_->show(view(scene(), session_.style(), terminal_->height()));
    if (!session_.out.flush()) return false;
  }
  return true;
}

Duration Show::patience() const { return kShowPatience + 2 * setting_.work; }

// Lets the fleet end, so that nothing is written while it is counted.
Result<bool> Show::finish() {
  publishers_.stop();
  plain_fleet_.stop();
  fleet_.drain();
  const Moment latest = SteadyClock::now() + patience();
  while (!fleet_.ended() && SteadyClock::now() < latest) {
    if (signals_.wait(kBreath)) return false;
  }
  return true;
}

Result<Counted> Show::count() const {
  auto counted = demo::count(setting_, zone_, {fleet_.killed(), publishers_.kills()}, conflicts_);
  if (!counted) return counted;
  counted->in_time = settled_;
  counted->plain = count_plain(setting_, plain_queue_);
  counted->plain.killed = plain_fleet_.kills();
  return counted;
}

Result<void> Show::act(Moment now) {
  closing_ = closing_ || now >= end_;
  if (auto went = fleet_.tick(); !went) return went;
  if (auto went = plain_fleet_.tick(); !went) return went;
  const bool more = more_wanted(now);
  const bool room = progress_.waiting < setting_.agents / 2 + 1;
  if (auto went = publishers_.tick(more && room, !closing_); !went) return went;
  if (!closing_ && now >= next_kill_) kill_one(now);
  if (!conflict_sent_ && now >= end_ - setting_.length / 2 && publishers_.any_answered())
    publish_again(kOtherTitle, "somebody published");
  if (now < next_question_) return {};
  next_question_ = now + kBetweenQuestions;
  const bool all_published = !more && !publishers_.busy();
  const std::uint64_t completed = progress_.completed;
  const auto answered = ask_zone();
  if (!answered) return answered.error();
  if (progress_.completed > completed) latest_ = std::max(latest_, now + patience());
  settled_ = *answered && all_published && progress_.unsettled == 0;
  return {};
}

// Without a number of tasks, as many as will be done when the time is over.
bool Show::more_wanted(Moment now) const {
  if (ended_by_key_) return false;
  if (setting_.tasks) return publishers_.made() < *setting_.tasks;
  return publishers_.made() == 0 || now < end_ - 2 * setting_.work;
}

void Show::kill_one(Moment now) {
  next_kill_ = now + random_.about(kBetweenKills);
  const std::vector<std::size_t> working = fleet_.working();
  if (!working.empty()) kill(working[random_.below(working.size())]);
}

// On both queues.
void Show::kill(std::size_t agent, std::string_view by) {
  if (const auto back = fleet_.kill(agent, by)) plain_fleet_.kill(agent, *back);
}

Result<bool> Show::ask_zone() {
  const auto status = zone_.status();
  if (!status) return away(status.error()) ? Result<bool>(false) : status.error();
  const Effects effects = effects_in(setting_.effects());
  const Effects plain = effects_in(setting_.plain_effects());
  progress_ = {.effects = effects.lines,
               .effects_again = effects.again(),
               .plain_effects = plain.lines,
               .plain_effects_again = plain.again()};
  for (const QueueStatus& queue : status->queues) {
    for (const auto& [state, tasks] : queue.tasks) {
      progress_.published += tasks;
      if (state == State::completed) progress_.completed += tasks;
      if (state == State::waiting) progress_.waiting += tasks;
      if (std::ranges::find(kOpen, state) != kOpen.end()) progress_.unsettled += tasks;
    }
  }
  return true;
}

void Show::take_keys() {
  for (auto key = terminal_ ? terminal_->key() : std::nullopt; key; key = terminal_->key()) {
    if (*key >= '1' && *key <= '9') kill(static_cast<std::size_t>(*key - '1'), " by you");
    if (*key == 'd') publish_again({}, "you published");
    if (*key == 'c') publish_again(kOtherTitle, "you published");
    if (*key == 'q' && !ended_by_key_) {
      ended_by_key_ = closing_ = true;
      diary_.say("you end it: nothing new is published or killed, what is open is finished");
    }
  }
}

// A post that is published already; with another title, a conflict. The plain queue takes both.
void Show::publish_again(std::string_view title, std::string_view who) {
  if (!publishers_.any_answered()) {
    diary_.say("nothing is published yet that could be published again");
    return;
  }
  const Post& post = publishers_.one_answered();
  const auto receipt = zone_.publish(post.task(title));
  plain_queue_.publish(post.name);
  conflict_sent_ = conflict_sent_ || !title.empty();
  if (receipt) {
    diary_.say(fmt::format("{} {} again: it is #{} already, nothing was added", who, receipt->id,
                           receipt->sequence));
  } else {
    conflicts_ += receipt.error().code == Code::conflicting_duplicate ? 1U : 0U;
    diary_.say(fmt::format("{} {} with another title, refused: {}", who, post.id,
                           printable(receipt.error().message)));
  }
}

Scene Show::scene() const {
  return {.setting = setting_,
          .fleet = fleet_,
          .publishers = publishers_,
          .diary = diary_,
          .progress = progress_,
          .closing = closing_,
          .keys = terminal_ && terminal_->has_keys()};
}

void Show::tell(const Diary::Entry& entry) {
  if (!paint_ && !session_.json)
    session_.out.line(fmt::format("{:6.1f}  {}", entry.second, entry.text));
}

}  // namespace once::cli::demo
