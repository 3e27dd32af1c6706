// A load client for HTTP servers: one thread, epoll, connections that stay. It counts what the server
// answers and how long each answer takes.
//
//   once_http publish HOST:PORT --connections 64 --requests 50000 --path /v1/topics/t
//       Durable publishes, each with an Idempotency-Key of its own. Works with any server that takes
//       such a POST.
//   once_http work HOST:PORT --queue q --connections 4 --batch 64 --tasks 50000
//       Offers, starts and settles in batches; a settlement asks for the next offers.
//   once_http polls HOST:PORT --queue q --topic t --connections 10000 --publishes 200
//       Long polls that wait together. Prints "parked", waits for a line on standard input, then
//       publishes one task after the other and times each until a poll has its offer.
//
// The last line of output is a JSON object.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using SteadyClock = std::chrono::steady_clock;

struct Options {
  std::string mode{}, host{};
  std::uint16_t port = 0;
  std::map<std::string, std::string> more{};

  std::string text(const std::string& name, const std::string& otherwise = {}) const {
    const auto found = more.find(name);
    return found == more.end() ? otherwise : found->second;
  }
  std::size_t number(const std::string& name, std::size_t otherwise) const {
    const auto found = more.find(name);
    return found == more.end() ? otherwise : std::stoul(found->second);
  }
};

Options options_of(int argc, char** argv) {
  if (argc < 3)
    throw std::runtime_error("usage: once_http publish|work|polls HOST:PORT [--name value]...");
  Options options{.mode = argv[1]};
  const std::string address = argv[2];
  const std::size_t colon = address.rfind(':');
  options.host = address.substr(0, colon);
  options.port = static_cast<std::uint16_t>(std::stoul(address.substr(colon + 1)));
  for (int i = 3; i + 1 < argc; i += 2) options.more[std::string(argv[i]).substr(2)] = argv[i + 1];
  return options;
}

struct Response {
  int status = 0;
  std::string body{};
};

// One connection with one request at a time.
class Connection {
 public:
  using Answered = std::function<void(Connection&, Response)>;

  explicit Connection(const Options& options) {
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(options.port);
    ::inet_pton(AF_INET, options.host.c_str(), &to.sin_addr);
    if (socket_ < 0 || ::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
      throw std::runtime_error(std::string("cannot connect: ") + std::strerror(errno));
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  ~Connection() { ::close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int socket() const { return socket_; }
  Answered answered{};
  SteadyClock::time_point sent_at{};
  std::size_t number = 0;

  // A request fits into the buffer of a socket, so a blocking write does not wait.
  void post(std::string_view path, std::string_view body, std::string_view headers = {}) {
    std::string text = "POST ";
    text.append(path).append(" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
    text.append(headers).append("Content-Length: ").append(std::to_string(body.size()));
    text.append("\r\n\r\n").append(body);
    sent_at = SteadyClock::now();
    for (std::string_view left = text; !left.empty();) {
      const ssize_t sent = ::send(socket_, left.data(), left.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) throw std::runtime_error("the server closed the connection");
      left.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  void read() {
    static std::array<char, 1 << 16> part;
    const ssize_t got = ::recv(socket_, part.data(), part.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) throw std::runtime_error("the server closed the connection");
    in_.append(part.data(), static_cast<std::size_t>(got));
    const std::size_t head = in_.find("\r\n\r\n");
    if (head == std::string::npos) return;
    const std::size_t length = content_length(head);
    if (in_.size() < head + 4 + length) return;
    Response response{.status = std::atoi(in_.c_str() + sizeof "HTTP/1.1"),
                      .body = in_.substr(head + 4, length)};
    in_.erase(0, head + 4 + length);
    answered(*this, std::move(response));
  }

 private:
  std::size_t content_length(std::size_t head) const {
    std::string name = in_.substr(0, head);
    std::transform(name.begin(), name.end(), name.begin(), ::tolower);
    const std::size_t at = name.find("\r\ncontent-length:");
    return at == std::string::npos ? 0
                                   : std::stoul(name.substr(at + sizeof "\r\ncontent-length:" - 1));
  }

  int socket_ = -1;
  std::string in_{};
};

class Loop {
 public:
  Loop() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}
  ~Loop() { ::close(epoll_); }

  Connection& add(const Options& options) {
    connections_.push_back(std::make_unique<Connection>(options));
    Connection& made = *connections_.back();
    made.number = connections_.size() - 1;
    epoll_event event{.events = EPOLLIN, .data = {.ptr = &made}};
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, made.socket(), &event);
    return made;
  }

  void run_until(const std::function<bool()>& done) {
    std::array<epoll_event, 256> events{};
    while (!done()) {
      const int count = ::epoll_wait(epoll_, events.data(), events.size(), 60'000);
      if (count == 0) throw std::runtime_error("no answer within a minute");
      for (int i = 0; i < count; ++i)
        static_cast<Connection*>(events[static_cast<std::size_t>(i)].data.ptr)->read();
    }
  }

 private:
  int epoll_;
  std::vector<std::unique_ptr<Connection>> connections_{};
};

// The times of requests, and the statuses of their answers.
struct Measured {
  std::vector<double> ms{};
  std::map<int, std::size_t> statuses{};

  void note(const Connection& connection, const Response& response) {
    ms.push_back(
        std::chrono::duration<double, std::milli>(SteadyClock::now() - connection.sent_at).count());
    ++statuses[response.status];
    if (response.status >= 300 && response.status != 422)
      throw std::runtime_error("the server answered " + std::to_string(response.status) + ": " +
                               response.body);
  }
  double at(double part) {
    if (ms.empty()) return 0;
    std::sort(ms.begin(), ms.end());
    return ms[std::min(ms.size() - 1,
                       static_cast<std::size_t>(part * static_cast<double>(ms.size())))];
  }
  void print(std::size_t done, double seconds) {
    std::cout << "{\"done\":" << done << ",\"seconds\":" << seconds
              << ",\"per_second\":" << static_cast<double>(done) / seconds
              << ",\"median_ms\":" << at(0.5) << ",\"p99_ms\":" << at(0.99) << "}" << std::endl;
  }
};

double since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

// The values of every `"name":"value"` of a JSON text. Claims have no escaped characters.
std::vector<std::string> values_of(std::string_view json, std::string_view name) {
  const std::string mark = "\"" + std::string(name) + "\":\"";
  std::vector<std::string> values;
  for (std::size_t at = json.find(mark); at != json.npos; at = json.find(mark, at)) {
    at += mark.size();
    values.emplace_back(json.substr(at, json.find('"', at) - at));
  }
  return values;
}

void publish(const Options& options) {
  const std::size_t requests = options.number("requests", 50'000);
  const std::string path = options.text("path", "/v1/topics/t");
  const std::string body = "{\"text\":\"" + std::string(options.number("bytes", 100), 'x') + "\"}";
  const std::string run = std::to_string(::getpid());
  std::size_t sent = 0, done = 0;
  Measured measured;
  Loop loop;
  const auto next = [&](Connection& connection) {
    if (sent == requests) return;
    connection.post(path, body, "Idempotency-Key: " + run + "-" + std::to_string(sent++) + "\r\n");
  };
  const auto start = SteadyClock::now();
  for (std::size_t i = 0; i < options.number("connections", 64); ++i) {
    Connection& connection = loop.add(options);
    connection.answered = [&](Connection& by, const Response& response) {
      measured.note(by, response);
      ++done;
      next(by);
    };
    next(connection);
  }
  loop.run_until([&] { return done == requests; });
  measured.print(done, since(start));
}

void work(const Options& options) {
  const std::size_t tasks = options.number("tasks", 50'000);
  const std::string batch = std::to_string(options.number("batch", 64));
  const std::string worker = "\"worker\":\"load\"";
  std::size_t done = 0;
  Measured measured;
  Loop loop;
  const auto offers = [&](Connection& by) {
    by.post("/v1/queues/" + options.text("queue", "q") + "/claims",
            "{" + worker + ",\"max\":" + batch + ",\"wait\":\"1s\"}");
  };
  const auto start_all = [&](Connection& by, const std::vector<std::string>& claims) {
    std::string body;
    for (const std::string& claim : claims)
      body.append(body.empty() ? "{\"claims\":[\"" : ",\"").append(claim).append("\"");
    by.post("/v1/claims:start", body + "]}");
  };
  const auto settle_all = [&](Connection& by, const std::vector<std::string>& claims) {
    std::string body;
    for (const std::string& claim : claims)
      body.append(body.empty() ? "{\"claims\":[" : ",")
          .append("{\"claim\":\"" + claim + "\",\"outcome\":\"completed\"}");
    by.post("/v1/claims:settle", body + "]," + worker + ",\"next\":" + batch + "}");
  };
  enum class Phase { offered, started, settled };
  std::map<std::size_t, Phase> phases;
  const auto start = SteadyClock::now();
  for (std::size_t i = 0; i < options.number("connections", 4); ++i) {
    Connection& connection = loop.add(options);
    phases[connection.number] = Phase::offered;
    connection.answered = [&](Connection& by, const Response& response) {
      measured.note(by, response);
      if (response.body.find("\"error\"") != std::string::npos)
        throw std::runtime_error("a claim failed: " + response.body.substr(0, 500));
      Phase& phase = phases[by.number];
      std::string_view body = response.body;
      if (phase == Phase::settled) {
        const std::size_t next = body.rfind("\"next\":");
        done += values_of(body.substr(0, next), "state").size();
        body.remove_prefix(next);
      }
      const auto claims = values_of(body, "claim");
      if (phase == Phase::offered || phase == Phase::settled) {
        if (claims.empty() && done >= tasks) return;
        phase = claims.empty() ? Phase::offered : Phase::started;
        return claims.empty() ? offers(by) : start_all(by, claims);
      }
      phase = Phase::settled;
      settle_all(by, claims);
    };
    offers(connection);
  }
  loop.run_until([&] { return done >= tasks; });
  measured.print(done, since(start));
}

void polls(const Options& options) {
  const std::size_t count = options.number("connections", 10'000);
  const std::size_t publishes = options.number("publishes", 200);
  rlimit files{.rlim_cur = 20'000, .rlim_max = 20'000};
  rlimit now{};
  ::getrlimit(RLIMIT_NOFILE, &now);
  files.rlim_max = now.rlim_max;
  files.rlim_cur = std::min<rlim_t>(files.rlim_cur, now.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &files);
  const std::string path = "/v1/queues/" + options.text("queue", "q") + "/claims";
  Measured measured;
  Loop loop;
  SteadyClock::time_point published{};
  std::size_t offered = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Connection& poll = loop.add(options);
    poll.answered = [&](Connection& by, const Response& response) {
      if (values_of(response.body, "claim").size() != 1)
        throw std::runtime_error("a poll ended without an offer: " + response.body);
      measured.ms.push_back(
          std::chrono::duration<double, std::milli>(SteadyClock::now() - published).count());
      ++offered;
      by.post(path, "{\"worker\":\"w" + std::to_string(by.number) + "\",\"wait\":\"300s\"}");
    };
    poll.post(path, "{\"worker\":\"w" + std::to_string(i) + "\",\"wait\":\"300s\"}");
  }
  std::cout << "parked" << std::endl;
  std::string line;
  std::getline(std::cin, line);
  Connection& publisher = loop.add(options);
  bool receipt = false;
  publisher.answered = [&](Connection&, const Response& response) {
    if (response.status != 201) throw std::runtime_error("not published: " + response.body);
    receipt = true;
  };
  const std::string run = std::to_string(::getpid());
  const auto start = SteadyClock::now();
  for (std::size_t i = 0; i < publishes; ++i) {
    receipt = false;
    published = SteadyClock::now();
    publisher.post("/v1/topics/" + options.text("topic", "t"), "{}",
                   "Idempotency-Key: poll-" + run + "-" + std::to_string(i) + "\r\n");
    loop.run_until([&] { return receipt && offered == i + 1; });
  }
  measured.print(publishes, since(start));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = options_of(argc, argv);
    const std::map<std::string, void (*)(const Options&)> modes{
        {"publish", publish}, {"work", work}, {"polls", polls}};
    const auto mode = modes.find(options.mode);
    if (mode == modes.end()) throw std::runtime_error("unknown mode " + options.mode);
    mode->second(options);
  } catch (const std::exception& error) {
    std::cerr << "once_http: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
