#include "store/nats/client/login.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "codec/nkey.h"
#include "json/json_string.h"
#include "store/nats/subjects.h"

namespace once::store::nats {
namespace {

constexpr std::string_view kRoot = "_INBOX_once";
constexpr std::string_view kJwt = "-----BEGIN NATS USER JWT-----";

Error bad(std::string what) {
  return {.code = Code::invalid_input, .message = std::move(what) + "; nothing was done"};
}

Result<std::string> content_of(const std::string& file, const std::string& what) {
  struct Closer {
    void operator()(std::FILE* open) const { std::fclose(open); }
  };
  const std::unique_ptr<std::FILE, Closer> in(std::fopen(file.c_str(), "re"));
  std::string content;
  char piece[4096];
  while (in) {
    content.append(piece, std::fread(piece, 1, sizeof piece, in.get()));
    if (std::feof(in.get()) != 0) return content;
    if (std::ferror(in.get()) != 0) break;
  }
  return bad("the " + what + " file cannot be read: " + std::strerror(errno));
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    while (line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);
    if (!line.empty()) lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Whose seed the file holds.
Result<std::string> user_in(const std::string& file, const std::string& what) {
  const auto content = content_of(file, what);
  if (!content) return content.error();
  for (const std::string_view line : lines_of(*content))
    if (auto user = encoding::nkey_user(line)) return std::move(*user);
  return bad("the " + what + " file holds no seed of a user (a line that begins with SU)");
}

Result<void> check_jwt(const std::string& file) {
  const auto content = content_of(file, "creds");
  if (!content) return content.error();
  const auto lines = lines_of(*content);
  const auto begin = std::find(lines.begin(), lines.end(), kJwt);
  if (begin != lines.end() && begin + 1 != lines.end() &&
      std::count((begin + 1)->begin(), (begin + 1)->end(), '.') == 2)
    return {};
  return bad("the creds file holds no user JWT (after a line " + std::string(kJwt) + ")");
}

Result<void> check(const NatsLogin& login) {
  const int ways =
      !login.user.empty() + !login.token.empty() + !login.creds.empty() + !login.nkey.empty();
  if (ways > 1)
    return bad("there is more than one login for NATS: give a user, a token, creds or an nkey");
  if (login.user.empty() != login.password.empty())
    return bad(login.user.empty() ? "there is a NATS password without a user"
                                  : "there is a NATS user without a password");
  if (login.tls_cert.empty() != login.tls_key.empty())
    return bad(login.tls_cert.empty() ? "there is a tls-key without its tls-cert"
                                      : "there is a tls-cert without its tls-key");
  return {};
}

// nats.c puts these between quotation marks as they are.
std::string escaped_for_json(const std::string& text) {
  const std::string out = encoding::json_string(text);
  return out.substr(1, out.size() - 2);
}

Result<void> apply_tls(const NatsLogin& login, natsOptions* options) {
  for (const auto& [file, what] :
       {std::pair{login.tls_ca, "tls-ca"}, std::pair{login.tls_cert, "tls-cert"},
        std::pair{login.tls_key, "tls-key"}})
    if (!file.empty())
      if (const auto content = content_of(file, what); !content) return content.error();
  if (natsOptions_SetSecure(options, true) != NATS_OK)
    return Error{.code = Code::store_unusable, .message = "this nats.c was built without TLS"};
  if (!login.tls_ca.empty() &&
      natsOptions_LoadCATrustedCertificates(options, login.tls_ca.c_str()) != NATS_OK)
    return bad("the tls-ca file holds no certificates");
  if (!login.tls_cert.empty() &&
      natsOptions_LoadCertificatesChain(options, login.tls_cert.c_str(), login.tls_key.c_str()) !=
          NATS_OK)
    return bad("the tls-cert and tls-key files are no certificate and its key");
  return {};
}

}  // namespace

Result<void> apply(const NatsLogin& login, bool tls, natsOptions* options) {
  if (auto ok = check(login); !ok) return ok;
  natsStatus status = NATS_OK;
  if (!login.user.empty()) {
    status = natsOptions_SetUserInfo(options, escaped_for_json(login.user).c_str(),
                                     escaped_for_json(login.password).c_str());
  } else if (!login.token.empty()) {
    status = natsOptions_SetToken(options, escaped_for_json(login.token).c_str());
  } else if (!login.creds.empty()) {
    if (auto ok = check_jwt(login.creds); !ok) return ok;
    if (auto user = user_in(login.creds, "creds"); !user) return user.error();
    status = natsOptions_SetUserCredentialsFromFiles(options, login.creds.c_str(), nullptr);
  } else if (!login.nkey.empty()) {
    const auto user = user_in(login.nkey, "nkey");
    if (!user) return user.error();
    status = natsOptions_SetNKeyFromSeed(options, user->c_str(), login.nkey.c_str());
  }
  if (status != NATS_OK)
    return bad(std::string("the login for NATS cannot be used: ") + natsStatus_GetText(status));
  if (tls) return apply_tls(login, options);
  return {};
}

Result<std::string> inbox_of(const NatsLogin& login) {
  if (!login.inbox.empty()) {
    const bool fits = std::none_of(login.inbox.begin(), login.inbox.end(),
                                   [](unsigned char c) {
                                     return c <= ' ' || c == 127 || c == '*' || c == '>';
                                   }) &&
                      !login.inbox.starts_with('.') && !login.inbox.ends_with('.') &&
                      login.inbox.find("..") == std::string::npos;
    if (fits) return login.inbox;
    return bad("the inbox is a subject without wildcards and spaces, such as _INBOX_once.mine");
  }
  const std::string root = std::string(kRoot) + ".";
  if (!login.user.empty()) return root + token(login.user);
  if (login.creds.empty() && login.nkey.empty()) return root + "any";
  const auto user =
      login.creds.empty() ? user_in(login.nkey, "nkey") : user_in(login.creds, "creds");
  if (!user) return user.error();
  return root + *user;
}

}  // namespace once::store::nats
