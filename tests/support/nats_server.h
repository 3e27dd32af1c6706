// A nats-server of the test's own: JetStream on one node, on a free port of the loopback, with its
// data in a folder that outlives a restart. It dies with the test: with the thread that started it.
// And three of them as a cluster.
#pragma once

#include <sys/types.h>

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "store/nats/client/jetstream_client.h"
#include "support/temp_folder.h"

namespace once::testing {

class NatsServer {
 public:
  // The program: $ONCE_NATS_SERVER, or what tools/nats-server has put into the build folder. Empty:
  // there is none.
  static std::filesystem::path program();
  // One that is too old for Once: $ONCE_NATS_SERVER_OLD, or what tools/nats-server --old has put
  // there. Empty: there is none.
  static std::filesystem::path old_program();

  // Starts it, with more lines of configuration if need be; throws when it does not come up.
  explicit NatsServer(std::string more = {}, std::filesystem::path file = program());
  ~NatsServer();
  NatsServer(const NatsServer&) = delete;
  NatsServer& operator=(const NatsServer&) = delete;

  std::string url() const { return "nats://127.0.0.1:" + std::to_string(port_); }
  void start();  // where and with what it had before
  void stop();   // in good order
  void kill();   // as kill -9 does
  void pause();
  void resume();
  bool runs() const { return process_ != -1; }
  std::filesystem::path data() const { return folder_ / "data"; }
  void wipe();  // its data; it must not run
  // As somebody does who asks JetStream beside Once.
  encoding::Json ask(const std::string& api, const std::string& body = {}) const;

 private:
  void end(int signal);
  bool died();  // by itself
  void find_port();

  TempFolder folder_;
  std::string more_;
  std::filesystem::path file_;
  pid_t process_ = -1;
  int port_ = -1;  // the server chooses one the first time
};

// Three nodes with routes to each other, each with data of its own.
class NatsCluster {
 public:
  static constexpr std::size_t kNodes = 3;

  // Starts the first `nodes` of them; when that is all, waits until they take streams with three
  // replicas. Throws when they do not come up.
  explicit NatsCluster(std::size_t nodes = kNodes);

  NatsServer& node(std::size_t which) { return *nodes_.at(which); }
  void start(std::size_t which);  // for the first time, or again
  std::vector<std::string> urls() const;
  std::string url() const;  // all of them, as --store takes it
  // Asks the nodes that run until one answers, also while they choose a leader.
  encoding::Json ask(const std::string& api, const std::string& body = {});

  // Which node leads the stream now; waits until one does.
  std::size_t leader_of(const std::string& stream);
  // Has another node lead it, and waits until one does.
  void step_down(const std::string& stream);
  // Until every replica of the stream is there and has caught up.
  void wait_until_whole(const std::string& stream);

 private:
  bool all_take_streams(std::size_t replicas);

  std::array<int, kNodes> routes_{};  // ports
  std::array<std::unique_ptr<NatsServer>, kNodes> nodes_;
};

}  // namespace once::testing
