// What `once apply` is given: queues and workflows, declared in a file of TOML or JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "once/flows.h"
#include "shapes/queue_definition.h"

namespace once::cli {

// Where in the file something is.
struct Spot {
  std::string path{};                   // queue[1].lease
  std::optional<std::uint32_t> line{};  // of TOML
};

struct Mistake {
  Spot at{};
  std::string what{};
};

struct DeclaredQueue {
  Spot at{};
  Queue queue{};                      // without `from`
  std::optional<std::string> from{};  // start, now, a sequence or a time
};

struct DeclaredFlow {
  Spot at{};
  std::string json{};
  FlowAdded about{};  // name, version, number of steps
};

struct Declaration {
  std::vector<DeclaredQueue> queues{};
  std::vector<DeclaredFlow> flows{};
  std::vector<Mistake> mistakes{};  // all of them
};

// `file` may be - for standard input. An error: it could not be read.
Result<Declaration> read_declaration(const std::string& file);

}  // namespace once::cli
