// Publishers that retry, as those behind a webhook do: each is a real `once publish --batch -` that is
// fed line by line. Some are killed with -9 in the middle, and their successors, who cannot know how
// far they came, begin again at the top. Now and then a line is sent twice, or again under another id.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "cli/demo/child.h"
#include "cli/demo/diary.h"
#include "cli/demo/lines.h"

namespace once::cli::demo {

// A post to be written. What is sent again under another id is the same post.
struct Post {
  std::string id{};
  std::string name{};

  Task task(std::string_view title = {}) const;  // none: its own title
  std::string line() const;                      // for `publish --batch`
};

// The post that is published under this id.
std::string post_of(const std::string& id);

// What publishers were answered, as they wrote it down.
struct Answer {
  std::string id{};
  std::uint64_t sequence{};
  bool duplicate{};
};
// None: no receipt.
std::optional<Answer> answer_from(const std::string& line);

class Publishers {
 public:
  // `answered` is told the id of each publish that got its receipt.
  Publishers(const Setting& setting, Diary& diary, Random& random,
             std::function<void(const std::string& id)> answered);

  // Goes on with what is begun; `more`: new posts are wanted; `kills`: some may be killed.
  Result<void> tick(bool more, bool kills);
  bool busy() const;  // something is not answered yet
  bool any_answered() const { return !answered_.empty(); }
  const Post& one_answered() { return answered_[random_.below(answered_.size())]; }
  void stop();  // what is not answered stays so

  std::uint64_t made() const { return made_; }  // posts
  std::uint64_t kills() const { return kills_; }
  std::uint64_t answers() const { return answers_; }
  std::uint64_t duplicates() const { return duplicates_; }  // of the answers

 private:
  struct Publisher {
    std::string name{};
    std::vector<Post> batch{};  // empty: idle
    std::size_t sent = 0;
    std::optional<std::size_t> dies_after{};  // so many lines
    int lives = 0;                            // for this batch
    Moment next{};
    int feed = -1;  // its standard input
    Child process{};
  };

  void plan(Publisher& publisher);
  Result<void> begin(Publisher& publisher, bool kills);
  void feed(Publisher& publisher);
  void look(Publisher& publisher);
  void close(Publisher& publisher);
  void read_answers();

  const Setting& setting_;
  Diary& diary_;
  Random& random_;
  std::function<void(const std::string&)> told_;
  Tail receipts_;
  std::array<Publisher, 2> publishers_;
  std::vector<Post> answered_;  // those that are in the log
  std::uint64_t made_ = 0;
  std::uint64_t kills_ = 0;
  std::uint64_t answers_ = 0;
  std::uint64_t duplicates_ = 0;
};

}  // namespace once::cli::demo
