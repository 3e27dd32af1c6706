// The HTTP interface of a zone: every path under /v1, and the paths for operators.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "once/zone.h"
#include "server/origin.h"
#include "server/poll_guard.h"
#include "server/router.h"
#include "server/token_cache.h"

namespace once::server {

// Any thread may call. The zone must outlive the Api.
class Api : public Service {
 public:
  // `tokens` are those of the zone, as read just now. A site for other machines needs tokens even
  // if the zone has none.
  Api(Zone& zone, Site site, AccessTokens tokens);

  std::optional<Response> answer_at_once(Request& head) override;
  Answer answer(const Request& request) override;
  Response refuse(int status, std::string_view detail) override;

 private:
  const Site site_;
  const TokenCache tokens_;
  PollGuard poll_guard_{tokens_};
  const Router router_;
};

// The routes by subject.
std::vector<Route> publish_routes(Zone& zone);
std::vector<Route> task_routes(Zone& zone);
std::vector<Route> queue_routes(Zone& zone);
std::vector<Route> zone_routes(Zone& zone);
std::vector<Route> claim_routes(Zone& zone);
std::vector<Route> care_routes(Zone& zone);
std::vector<Route> flow_routes(Zone& zone);
std::vector<Route> ledger_routes(Zone& zone);
std::vector<Route> act_routes(Zone& zone);
// All of them, and /openapi.json, which describes them.
std::vector<Route> all_routes(Zone& zone);

// A JSON response of one line.
Response json_response(std::string line, int status = 200);

}  // namespace once::server
