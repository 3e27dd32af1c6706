#include "shapes/doctor_json.h"

#include "shapes/fixes.h"
#include "shapes/json_line.h"
#include "tooling/text.h"

namespace once::cli {

std::string finding_json(const Finding& finding) {
  return JsonLine{}
      .text("finding", finding.code)
      .text("severity", to_string(finding.severity))
      .text("about", finding.about)
      .text("what", finding.what)
      .text("harm", finding.harm)
      .text("fix", fix_for(finding))
      .str();
}

std::string checked_json(const Diagnosis& diagnosis) {
  std::vector<std::string> checked;
  for (const std::string& each : diagnosis.checked) checked.push_back(json_string(each));
  return json_array(checked);
}

}  // namespace once::cli
