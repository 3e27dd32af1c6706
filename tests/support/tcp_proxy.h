// Stands between a client and a server on the loopback, and breaks what is between them: holds what
// goes one way, or cuts every connection.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace once::testing {

class TcpProxy {
 public:
  // Takes connections on a port of its own and carries them to `port`.
  explicit TcpProxy(int port);
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  std::string url() const { return "nats://127.0.0.1:" + std::to_string(port_); }
  // While they are held, bytes wait in the sockets. Cutting then loses them for good.
  void hold_questions(bool hold) { hold_questions_ = hold; }
  void hold_answers(bool hold) { hold_answers_ = hold; }
  // Holds questions once about so many bytes of them were carried.
  void hold_questions_after(std::int64_t bytes) { questions_left_ = bytes; }
  // Cuts a connection after exactly so many more bytes of answers were carried, once.
  void cut_after_answers(std::int64_t bytes) { answers_left_ = bytes; }
  bool has_cut_answers() const { return answers_left_ == INT64_MAX; }
  void cut();                                     // all that there are; new ones are taken
  void refuse(bool refuse) { refuse_ = refuse; }  // new ones
  int taken() const { return taken_; }            // connections so far

 private:
  struct Line {
    int client = -1;
    int server = -1;
  };
  void run();
  ssize_t carry(int from, int to, std::int64_t most = INT64_MAX);
  bool carry_answers(const Line& line);  // false: the line is over
  void close(Line& line);

  const int to_;
  int listener_ = -1;
  int port_ = -1;
  std::atomic<bool> hold_questions_{false};
  std::atomic<bool> hold_answers_{false};
  std::atomic<std::int64_t> questions_left_{INT64_MAX};
  std::atomic<std::int64_t> answers_left_{
      INT64_MAX};  // until a cut; the largest: none is asked for
  std::atomic<bool> refuse_{false};
  std::atomic<int> cuts_asked_{0};
  std::atomic<int> cuts_done_{0};
  std::atomic<int> taken_{0};
  std::atomic<bool> over_{false};
  std::vector<Line> lines_;  // the thread's own
  std::thread thread_;
};

}  // namespace once::testing
