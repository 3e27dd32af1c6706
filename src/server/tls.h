// The certificate and key of a server that speaks TLS. Only http_server.cpp includes this file.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "once/result.h"
#include "server/http_server.h"

namespace once::server {

// The errors are those of check_files().
Result<std::unique_ptr<boost::asio::ssl::context>> tls_context(const TlsFiles& files);

// Whether a handshake failed because the client sent a request of plain HTTP.
bool sent_plain_http(const boost::system::error_code& failed);

}  // namespace once::server
