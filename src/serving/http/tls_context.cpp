#include "serving/http/tls_context.h"

#include <openssl/ssl.h>
#include <unistd.h>

#include <string_view>

namespace deepinfer::serving {
namespace {

namespace ssl = boost::asio::ssl;

// Clients that offer protocols must offer this one; those that offer none are served.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* chosen_bytes, const unsigned char* offered,
                    unsigned int offered_bytes, void*) {
  static constexpr std::string_view kHttp11 = "\x08http/1.1";
  const int found = SSL_select_next_proto(const_cast<unsigned char**>(chosen), chosen_bytes,
                                          reinterpret_cast<const unsigned char*>(kHttp11.data()),
                                          static_cast<unsigned int>(kHttp11.size()), offered, offered_bytes);
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

Status check_readable(const std::string& option, const std::string& file) {
  if (file.empty()) return invalid_argument(option + " is needed for a listener with TLS");
  if (::access(file.c_str(), R_OK) != 0) return not_found(option + ": cannot read " + file);
  return {};
}

}  // namespace

Result<std::unique_ptr<ssl::context>> make_tls_context(const std::string& certificate_file,
                                                       const std::string& key_file) {
  DI_RETURN_IF_ERROR(check_readable("tls_certificate_file", certificate_file));
  DI_RETURN_IF_ERROR(check_readable("tls_key_file", key_file));
  auto context = std::make_unique<ssl::context>(ssl::context::tls_server);
  boost::system::error_code error;
  context->set_options(ssl::context::default_workarounds | ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1, error);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_mode(context->native_handle(), SSL_MODE_RELEASE_BUFFERS);  // connections rest most of their time
  SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_alpn_select_cb(context->native_handle(), choose_protocol, nullptr);
  context->use_certificate_chain_file(certificate_file, error);
  if (error) return corrupt_file(certificate_file + ": no certificate chain in PEM: " + error.message());
  context->use_private_key_file(key_file, ssl::context::pem, error);
  if (error) return corrupt_file(key_file + ": no private key in PEM for the certificate: " + error.message());
  return context;
}

}  // namespace deepinfer::serving
