#include "once/audit.h"

#include "api/zone_impl.h"
#include "inspect/auditor.h"

namespace once::inline v1 {

Result<Audit> Zone::audit(const AuditOptions& options) const {
  return engine::Auditor(*impl_->store, options).run();
}

}  // namespace once::inline v1
