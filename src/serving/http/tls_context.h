// The certificate and the rules of the server's TLS.  Used by the HttpServer when it opens.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "base/status.h"

namespace deepinfer::serving {

// TLS 1.2 and 1.3, HTTP/1.1 by ALPN.  kNotFound and kCorruptFile name the file.
Result<std::unique_ptr<boost::asio::ssl::context>> make_tls_context(const std::string& certificate_file,
                                                                    const std::string& key_file);

}  // namespace deepinfer::serving
