#include "server/tls.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <boost/asio/ssl/error.hpp>

namespace once::server {
namespace {

namespace ssl = boost::asio::ssl;

Error unusable(const std::string& file, std::string_view why) {
  return {.code = Code::invalid_input,
          .message = fmt::format("{}: {}; nothing was started", file, why)};
}

// OpenSSL would ask for the password on the terminal.
int no_password(char*, int, int, void*) { return 0; }

Result<void> check_dates(SSL_CTX* context, const std::string& file) {
  const X509* const certificate = SSL_CTX_get0_certificate(context);
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0)
    return unusable(file, "the certificate has expired");
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0)
    return unusable(file, "the certificate is not valid yet");
  return {};
}

Result<void> read_files(SSL_CTX* context, const TlsFiles& files) {
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) != 1)
    return unusable(files.certificate, "this is no readable certificate in PEM");
  SSL_CTX_set_default_passwd_cb(context, no_password);
  if (SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    const bool other = ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH ||
                       ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_TYPE_MISMATCH;
    return unusable(files.key, other ? fmt::format("the key is not that of {}", files.certificate)
                                     : "this is no readable key in PEM without a password");
  }
  if (SSL_CTX_check_private_key(context) != 1)
    return unusable(files.key, fmt::format("the key is not that of {}", files.certificate));
  return check_dates(context, files.certificate);
}

}  // namespace

Result<std::unique_ptr<ssl::context>> tls_context(const TlsFiles& files) {
  auto context = std::make_unique<ssl::context>(ssl::context::tls_server);
  SSL_CTX* const native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  auto read = read_files(native, files);
  ERR_clear_error();
  if (!read) return read.error();
  return context;
}

Result<void> check_files(const TlsFiles& files) {
  auto context = tls_context(files);
  return context ? Result<void>() : context.error();
}

bool sent_plain_http(const boost::system::error_code& failed) {
  return failed.category() == boost::asio::error::get_ssl_category() &&
         ERR_GET_REASON(static_cast<unsigned long>(failed.value())) == SSL_R_HTTP_REQUEST;
}

}  // namespace once::server
