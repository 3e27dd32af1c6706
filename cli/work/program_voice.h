// What `once work` lets be heard of its programs: their standard error, line by line, each marked with its
// task; when each starts and ends; and all that they write, in files.
#pragma once

#include <memory>
#include <string>

#include "cli/app/line_printer.h"
#include "cli/app/session.h"
#include "tooling/program.h"

namespace once::cli {

class ProgramVoices {
 public:
  // `log_dir` is made if it is not there; empty: no files.
  static Result<std::unique_ptr<ProgramVoices>> open(const Session& session, std::string log_dir);

  // As Program::listener. The listeners must end before this does.
  std::unique_ptr<ProgramListener> listen(const ProgramRun& run);

 private:
  friend class Voice;
  ProgramVoices(const Session& session, std::string log_dir);

  const std::string log_dir_;
  const bool json_;
  const bool quiet_;
  const bool terminal_;  // control characters are shown as escapes
  const bool ends_;      // starts and ends are said
  LinePrinter printer_;
};

// The name of an attempt's file. Different attempts have different names.
std::string log_file_name(const ProgramRun& run);

}  // namespace once::cli
