#include "power/disk.h"

#include <algorithm>
#include <set>
#include <utility>

namespace once::power {
namespace {

// Puts one sector of `from` into `to`, as far as there is one.
void copy_sector(const std::string& from, std::string& to, std::size_t sector) {
  const std::size_t begin = sector * kSector;
  const std::size_t end = std::min(from.size(), begin + kSector);
  if (begin >= end) return;
  if (to.size() < end) to.resize(end);
  to.replace(begin, end - begin, from, begin, end - begin);
}

}  // namespace

std::string_view to_string(Disk::Operation operation) {
  switch (operation) {
    case Disk::Operation::write: return "write";
    case Disk::Operation::sync: return "sync";
    case Disk::Operation::truncate: return "truncation";
    case Disk::Operation::create: return "creation";
    case Disk::Operation::remove: return "deletion";
  }
  return "";
}

// --- A file ---------------------------------------------------------------------------------

void File::Change::apply(std::string& content) const {
  if (truncates) {
    content.resize(at);
    return;
  }
  if (content.size() < at + bytes.size()) content.resize(at + bytes.size());
  content.replace(at, bytes.size(), bytes);
}

void File::change(Change change) {
  change.apply(now_);
  cached_.push_back(std::move(change));
}

void File::sync() {
  for (const Change& change : cached_) change.apply(safe_);
  cached_.clear();
}

// A sector on the disk is as it was after some of the changes, and never a mixture of two moments.
std::string File::survive(std::mt19937_64& random) const {
  enum { nothing, everything, whole_writes, torn_writes };
  const auto fate = random() % 4;
  const auto reached = [&] { return fate == everything || (fate != nothing && random() % 2 == 0); };
  std::string then = safe_;  // as programs saw it
  std::string left = safe_;  // as it reached the disk
  for (const Change& change : cached_) {
    change.apply(then);
    bool arrives = reached();
    if (change.truncates) {
      if (arrives) left.resize(std::min(left.size(), change.at));
      continue;
    }
    const std::size_t last = (change.at + change.bytes.size() - 1) / kSector;
    for (std::size_t sector = change.at / kSector; sector <= last; ++sector) {
      if (arrives) copy_sector(then, left, sector);
      if (fate == torn_writes) arrives = reached();
    }
  }
  return left;
}

// --- The disk -------------------------------------------------------------------------------

Disk::Disk(const Image& image, DiskOptions options) : options_(options), random_(options.seed) {
  for (const auto& [name, content] : image) names_[name] = std::make_shared<File>(content);
  safe_names_ = names_;
}

std::size_t Disk::size(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? 0 : found->second->content().size();
}

bool Disk::begin(Operation operation, const std::string& name) {
  if (off_) return false;
  ++operations_;
  const bool passed =
      options_.passes_log_writes && operation == Operation::write && name.ends_with("-wal");
  if (passed || ++counted_ != options_.cut_at) return true;
  off_ = true;
  cut_in_ = std::string(to_string(operation)) + " of " + name.substr(name.rfind('/') + 1);
  return true;
}

std::shared_ptr<File> Disk::open(const std::string& name, bool create) {
  if (const auto found = names_.find(name); found != names_.end()) return found->second;
  if (!create || !begin(Operation::create, name)) return nullptr;
  const auto made = names_[name] = std::make_shared<File>();
  return off_ ? nullptr : made;
}

Disk::Answer Disk::write(File& file, const std::string& name, std::size_t at,
                         std::string_view bytes) {
  if (!begin(Operation::write, name)) return Answer::failed;
  if (std::exchange(full_, false)) return Answer::full;
  file.write(at, bytes);
  return off_ ? Answer::failed : Answer::done;
}

Disk::Answer Disk::truncate(File& file, const std::string& name, std::size_t size) {
  if (!begin(Operation::truncate, name)) return Answer::failed;
  file.truncate(size);
  return off_ ? Answer::failed : Answer::done;
}

Disk::Answer Disk::sync(File& file, const std::string& name, bool folder) {
  if (!begin(Operation::sync, name) || off_) return Answer::failed;
  if (syncs_fail_ > 0) {
    --syncs_fail_;
    return Answer::failed;
  }
  if (options_.ignores_syncs) return Answer::done;
  file.sync();
  if (folder) safe_names_ = names_;
  return Answer::done;
}

Disk::Answer Disk::remove(const std::string& name, bool sync_folder) {
  if (!begin(Operation::remove, name)) return Answer::failed;
  names_.erase(name);
  if (off_) return Answer::failed;
  if (sync_folder && !options_.ignores_syncs) safe_names_ = names_;
  return Answer::done;
}

Image Disk::survived() {
  std::set<std::string> all;
  for (const Names* names : {&names_, &safe_names_})
    for (const auto& [name, file] : *names) all.insert(name);
  Image image;
  for (const std::string& name : all) {
    const Names& chosen = random_() % 2 == 0 ? names_ : safe_names_;
    if (const auto found = chosen.find(name); found != chosen.end())
      image[name] = found->second->survive(random_);
  }
  return image;
}

}  // namespace once::power
