#include "support/nats_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

#include "support/eventually.h"

namespace once::testing {
namespace {

constexpr std::chrono::seconds kComesUp{30};
constexpr Duration kOneQuestion{1'000};

// By looking again and again: a server says to nobody that it is ready, or that it follows a leader.
template <class Condition>
bool comes_true(Condition condition) {
  return testing::eventually(condition, kComesUp);
}

std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The server speaks first.
bool greets(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  char byte{};
  const bool well = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                    ::read(fd, &byte, 1) == 1;
  ::close(fd);
  return well;
}

std::filesystem::path given_or_fetched(const char* variable, std::filesystem::path fetched) {
  if (const char* given = getenv(variable)) return given;
  return std::filesystem::exists(fetched) ? fetched : std::filesystem::path();
}

// Ports that are free now. Routes name each other's, so these can't be chosen by the servers.
template <std::size_t count>
std::array<int, count> free_ports() {
  std::array<int, count> sockets{};
  std::array<int, count> ports{};
  for (std::size_t i = 0; i < count; ++i) {
    sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (bind(sockets[i], reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        getsockname(sockets[i], reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("no free port");
    ports[i] = ntohs(address.sin_port);
  }
  for (const int each : sockets) ::close(each);
  return ports;
}

}  // namespace

std::filesystem::path NatsServer::program() {
  return given_or_fetched("ONCE_NATS_SERVER", ONCE_NATS_SERVER_FETCHED);
}

std::filesystem::path NatsServer::old_program() {
  return given_or_fetched("ONCE_NATS_SERVER_OLD", ONCE_NATS_SERVER_OLD_FETCHED);
}

NatsServer::NatsServer(std::string more, std::filesystem::path file)
    : more_(std::move(more)), file_(std::move(file)) {
  start();
}

NatsServer::~NatsServer() { kill(); }

void NatsServer::start() {
  const std::string configuration = folder_ / "server.conf";
  const std::string log = folder_ / "log";
  std::ofstream(configuration) << "listen: 127.0.0.1:" << port_ << "\nmax_payload: 8MB\n"
                               << "ports_file_dir: \"" << folder_.path().string() << "\"\n"
                               << "jetstream { store_dir: \"" << data().string() << "\" }\n"
                               << more_ << "\n";
  const std::string file = file_;
  const pid_t test = getpid();
  process_ = fork();
  if (process_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != test) _exit(127);  // it died before that
    const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    dup2(out, 1);
    dup2(out, 2);
    execl(file.c_str(), file.c_str(), "-c", configuration.c_str(), nullptr);
    _exit(127);
  }
  if (port_ == -1) find_port();
  if (!comes_true([&] { return greets(port_) || died(); }) || !runs())
    throw std::runtime_error("nats-server did not come up:\n" + content_of(log));
}

void NatsServer::find_port() {
  const std::filesystem::path file =
      folder_ / (file_.filename().string() + "_" + std::to_string(process_) + ".ports");
  std::string ports;
  const auto found = [&] {
    ports = content_of(file);
    return ports.find("\"nats\"") != std::string::npos && ports.find('}') != std::string::npos;
  };
  if (!comes_true([&] { return found() || died(); }) || !runs())
    throw std::runtime_error("nats-server told no port:\n" + content_of(folder_ / "log"));
  const std::size_t at = ports.find(':', ports.find("://") + 3);
  port_ = std::stoi(ports.substr(at + 1));
}

bool NatsServer::died() {
  if (waitpid(process_, nullptr, WNOHANG) != process_) return false;
  process_ = -1;
  return true;
}

void NatsServer::end(int signal) {
  if (process_ == -1) return;
  ::kill(process_, signal);
  waitpid(process_, nullptr, 0);
  process_ = -1;
}

void NatsServer::stop() { end(SIGTERM); }
void NatsServer::kill() { end(SIGKILL); }
void NatsServer::pause() {
  ::kill(process_, SIGSTOP);
  waitpid(process_, nullptr, WUNTRACED);  // a signal takes a moment
}
void NatsServer::resume() { ::kill(process_, SIGCONT); }
void NatsServer::wipe() { std::filesystem::remove_all(data()); }

encoding::Json NatsServer::ask(const std::string& api, const std::string& body) const {
  const auto mux = store::nats::RequestMux::open({.servers = {url()}}).value();
  return store::nats::JetStreamClient(*mux).call(api, body).value().json;
}

// --- NatsCluster ------------------------------------------------------------------------------

NatsCluster::NatsCluster(std::size_t nodes) : routes_(free_ports<kNodes>()) {
  for (std::size_t i = 0; i < nodes; ++i) start(i);
  if (nodes == kNodes && !comes_true([&] { return all_take_streams(nodes); }))
    throw std::runtime_error("the nats-servers did not become a cluster");
}

void NatsCluster::start(std::size_t which) {
  if (nodes_[which]) return nodes_[which]->start();
  std::string routes;
  for (const int port : routes_) routes += "\"nats://127.0.0.1:" + std::to_string(port) + "\",";
  nodes_[which] = std::make_unique<NatsServer>(
      "server_name: node" + std::to_string(which) + "\ncluster {\n  name: once\n  listen: \"" +
      "127.0.0.1:" + std::to_string(routes_[which]) + "\"\n  routes: [" + routes + "]\n}");
}

std::vector<std::string> NatsCluster::urls() const {
  std::vector<std::string> urls;
  for (const auto& node : nodes_)
    if (node) urls.push_back(node->url());
  return urls;
}

std::string NatsCluster::url() const {
  std::string joined;
  for (const std::string& url : urls())
    joined += joined.empty() ? url : "," + url.substr(url.find("//") + 2);
  return joined;
}

encoding::Json NatsCluster::ask(const std::string& api, const std::string& body) {
  constexpr int kNotNow = 10008;
  encoding::Json answer;
  const bool answered = comes_true([&] {
    for (const auto& node : nodes_) {
      if (!node || !node->runs()) continue;
      const auto mux = store::nats::RequestMux::open({.servers = {node->url()}});
      if (!mux) continue;
      auto response = store::nats::JetStreamClient(**mux, kOneQuestion).call(api, body);
      if (!response || response->error == kNotNow) continue;
      answer = std::move(response->json);
      return true;
    }
    return false;
  });
  if (!answered) throw std::runtime_error("the cluster did not answer " + api);
  return answer;
}

bool NatsCluster::all_take_streams(std::size_t replicas) {
  const auto made = ask("STREAM.CREATE.PROBE", R"({"name":"PROBE","subjects":["probe"],)"
                                               R"("num_replicas":)" +
                                                   std::to_string(replicas) + "}");
  if (made.member("error")) return false;
  wait_until_whole("PROBE");
  ask("STREAM.DELETE.PROBE");
  return true;
}

std::size_t NatsCluster::leader_of(const std::string& stream) {
  std::size_t leader = kNodes;
  const bool found = comes_true([&] {
    const auto info = ask("STREAM.INFO." + stream);
    const encoding::Json* cluster = info.member("cluster");
    const std::string name = cluster ? store::nats::text_of(*cluster, "leader") : "";
    if (!name.starts_with("node")) return false;
    leader = static_cast<std::size_t>(name.back() - '0');
    return nodes_.at(leader)->runs();
  });
  if (!found) throw std::runtime_error("nobody leads " + stream);
  return leader;
}

void NatsCluster::step_down(const std::string& stream) {
  const std::size_t before = leader_of(stream);
  const bool changed = comes_true([&] {
    ask("STREAM.LEADER.STEPDOWN." + stream);
    return leader_of(stream) != before;
  });
  if (!changed) throw std::runtime_error("no other node leads " + stream);
}

void NatsCluster::wait_until_whole(const std::string& stream) {
  const auto whole = [&] {
    const auto info = ask("STREAM.INFO." + stream);
    const encoding::Json* cluster = info.member("cluster");
    const encoding::Json* replicas = cluster ? cluster->member("replicas") : nullptr;
    if (!replicas) return cluster != nullptr && !info.member("error");
    for (const encoding::Json& each : replicas->items()) {
      const encoding::Json* current = each.member("current");
      if (!current || !current->boolean()) return false;
    }
    return true;
  };
  if (!comes_true(whole)) throw std::runtime_error("a replica of " + stream + " is missing");
}

}  // namespace once::testing
