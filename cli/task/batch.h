// once publish --batch FILE|-
#pragma once

#include <string>

namespace once::cli {

class Session;

int publish_batch(Session& session, const std::string& path);

}  // namespace once::cli
