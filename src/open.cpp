// Opens a store by its URL. This is the only file that names every store.
#include <algorithm>

#include "api/open_store.h"
#include "store/memory/memory_store.h"
#include "store/sqlite/bare_sql.h"
#include "store/sqlite/sqlite_store.h"
#include "tooling/bare_store_baseline.h"
#ifdef ONCE_NATS
#include "store/nats/bare_jetstream.h"
#include "store/nats/nats_store.h"
#endif

namespace once::api {
namespace {

#ifdef ONCE_NATS
// SCHEME://host:port[,host:port...][/ZONE]
Result<store::NatsOptions> nats_options(const std::string& scheme, std::string_view rest,
                                        const OpenOptions& options) {
  if (!rest.starts_with("//"))
    return Error{.code = Code::invalid_input,
                 .message = "the address of a NATS store is written " + scheme +
                            "://HOST:PORT[,HOST:PORT...][/ZONE]; nothing was done"};
  rest.remove_prefix(2);
  // Process lists and logs show addresses. So the error does not repeat the login.
  if (rest.find('@') != std::string_view::npos)
    return Error{.code = Code::invalid_input,
                 .message =
                     "a NATS address holds no login, because everybody sees the address; "
                     "nothing was done; give the login apart from the address",
                 .reason = Reason::login_in_address};
  store::NatsOptions nats{.login = options.nats,
                          .create = options.create,
                          .allow_unsafe = options.allow_unsafe,
                          .log = options.log,
                          .clock = options.clock};
  if (const std::size_t slash = rest.find('/'); slash != std::string_view::npos) {
    if (slash + 1 < rest.size()) nats.zone = rest.substr(slash + 1);
    rest = rest.substr(0, slash);
  }
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    if (comma > 0) nats.servers.push_back(scheme + "://" + std::string(rest.substr(0, comma)));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  if (nats.servers.empty())
    return Error{.code = Code::invalid_input,
                 .message = "the NATS address names no server; use " + scheme +
                            "://HOST:PORT[,HOST:PORT...][/ZONE]"};
  return nats;
}

Result<std::unique_ptr<store::Store>> open_nats(const std::string& scheme, std::string_view rest,
                                                const OpenOptions& options) {
  const auto nats = nats_options(scheme, rest, options);
  if (!nats) return nats.error();
  return store::open_nats(*nats);
}

Result<std::unique_ptr<BareStoreBaseline>> open_bare_jetstream(const std::string& scheme,
                                                               std::string_view rest,
                                                               const OpenOptions& options) {
  const auto nats = nats_options(scheme, rest, options);
  if (!nats) return nats.error();
  return store::open_bare_jetstream(*nats);
}
#else
Error without_nats() {
  return Error{.code = Code::invalid_input,
               .message =
                   "this once was built without NATS; use a file: sqlite:PATH or a plain "
                   "path, or build it with ONCE_NATS"};
}

Result<std::unique_ptr<store::Store>> open_nats(const std::string&, std::string_view,
                                                const OpenOptions&) {
  return without_nats();
}

Result<std::unique_ptr<BareStoreBaseline>> open_bare_jetstream(const std::string&, std::string_view,
                                                               const OpenOptions&) {
  return without_nats();
}
#endif

// A URL in parts. For SQLite, `rest` is the path, which is not empty.
struct Named {
  std::string scheme{};  // "sqlite", "memory", "nats" or "tls"
  std::string_view rest{};
};

Result<Named> named_by(std::string_view url) {
  if (url == "memory:") return Named{.scheme = "memory"};
  const std::size_t colon = url.find(':');
  const std::size_t slash = url.find('/');
  std::string_view path = url;
  if (url.starts_with("sqlite:")) {
    path.remove_prefix(7);
  } else if (colon != std::string_view::npos && colon < slash) {
    const std::string scheme(url.substr(0, colon));
    if (scheme == "nats" || scheme == "tls")
      return Named{.scheme = scheme, .rest = url.substr(colon + 1)};
    return Error{.code = Code::invalid_input,
                 .message = "no store is called '" + scheme +
                            ":'; use a path, sqlite:PATH, nats://HOST:PORT[/ZONE] or tls://"
                            "HOST:PORT[/ZONE]"};
  }
  if (path.empty())
    return Error{.code = Code::invalid_input,
                 .message = "the store's path is empty; use sqlite:PATH or a plain path"};
  return Named{.scheme = "sqlite", .rest = path};
}

}  // namespace

Result<std::unique_ptr<store::Store>> open_store(std::string_view url, const OpenOptions& options) {
  const auto named = named_by(url);
  if (!named) return named.error();
  if (named->scheme == "memory") return store::open_memory(options.clock);
  if (named->scheme != "sqlite") return open_nats(named->scheme, named->rest, options);
  return store::open_sqlite({.path = std::string(named->rest),
                             .create = options.create,
                             .clock = options.clock,
                             .allow_unsafe = options.allow_unsafe});
}

Result<std::unique_ptr<BareStoreBaseline>> open_baseline(std::string_view url,
                                                         const OpenOptions& options) {
  const auto named = named_by(url);
  if (!named) return named.error();
  if (named->scheme == "memory")
    return Error{.code = Code::invalid_input,
                 .message =
                     "a store in memory has nothing to be measured by; use a file or a "
                     "NATS server"};
  if (named->scheme != "sqlite") return open_bare_jetstream(named->scheme, named->rest, options);
  return store::open_bare_sql(std::string(named->rest));
}

}  // namespace once::api
