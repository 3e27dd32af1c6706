// The one file that names every store.
#include "api/open_store.h"
#include "store/memory/memory_store.h"
#include "store/sqlite/sqlite_store.h"

namespace once::api {

Result<std::unique_ptr<store::Store>> open_store(std::string_view url, const OpenOptions& options) {
  if (url == "memory:") return store::open_memory(options.clock);
  const std::size_t colon = url.find(':');
  const std::size_t slash = url.find('/');
  std::string_view path = url;
  if (url.starts_with("sqlite:")) {
    path.remove_prefix(7);
  } else if (colon != std::string_view::npos && colon < slash) {
    const std::string scheme(url.substr(0, colon));
    const bool nats = scheme == "nats" || scheme == "tls";
    return Error{.code = Code::invalid_input,
                 .message = nats ? "this version of once has no NATS store yet; use a file: "
                                   "sqlite:PATH or a plain path"
                                 : "no store is called '" + scheme +
                                       ":'; use sqlite:PATH, a plain path, or memory: in tests"};
  }
  if (path.empty())
    return Error{.code = Code::invalid_input,
                 .message = "the store's path is empty; use sqlite:PATH or a plain path"};
  return store::open_sqlite(
      {.path = std::string(path), .create = options.create, .clock = options.clock});
}

}  // namespace once::api
