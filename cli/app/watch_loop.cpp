#include "cli/app/watch_loop.h"

namespace once::cli {

WatchLoop::WatchLoop(Session& session, bool repeats) : session_(session) {
  if (repeats) patience_.emplace(session, signals_.emplace(), Patience::For::service);
}

Result<Zone> WatchLoop::open() {
  if (!patience_) return session_.open(Missing::refuse);
  return (*patience_)([this] { return session_.open(Missing::refuse, Stays::longer); });
}

int WatchLoop::failed(const Error& error) {
  return patience_ ? patience_->ended(error) : session_.fail(error);
}

bool WatchLoop::next(Duration after) {
  return signals_ && session_.out.flush() && !signals_->wait(after) && !session_.out.reader_left();
}

}  // namespace once::cli
