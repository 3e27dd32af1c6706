#include "shapes/retention_json.h"

#include "shapes/json_line.h"
#include "shapes/values.h"

namespace once::cli {

std::string retention_json(const Retention& ages) {
  return JsonLine{}
      .text("bodies", format_duration(ages.bodies))
      .text("records", format_duration(ages.records))
      .text("ids", format_duration(ages.ids))
      .str();
}

}  // namespace once::cli
