// TLS: a certificate made here, a client of OpenSSL's.
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "held_exchanges.h"
#include "raw_client.h"

namespace deepinfer::serving {
namespace {

using namespace std::chrono_literals;
using testing::event_stream;
using testing::eventually;
using testing::HeldExchanges;
using testing::open_server;
using testing::RawClient;
using testing::refusals;

// A key and a certificate that it signs itself, as two PEM files.
struct Certificate {
  Certificate() {
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* certificate = X509_new();
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME* name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"), -1, -1,
                               0);
    X509_set_issuer_name(certificate, name);
    X509_sign(certificate, key, EVP_sha256());
    std::FILE* file = std::fopen(key_file.c_str(), "w");
    PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
    file = std::fopen(certificate_file.c_str(), "w");
    PEM_write_X509(file, certificate);
    std::fclose(file);
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  ~Certificate() {
    std::remove(key_file.c_str());
    std::remove(certificate_file.c_str());
  }

  const std::string base = ::testing::TempDir() + "deepinfer_tls_" + std::to_string(::getpid());
  const std::string key_file = base + ".key";
  const std::string certificate_file = base + ".pem";
};

struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

class TlsClient {
 public:
  explicit TlsClient(int port, int newest = TLS1_3_VERSION, const char* protocol = nullptr)
      : socket_(RawClient::to_port(port)), context_(SSL_CTX_new(TLS_client_method())) {
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_VERSION);
    SSL_CTX_set_max_proto_version(context_.get(), newest);
    SSL_CTX_set_cipher_list(context_.get(), "ALL:@SECLEVEL=0");
    ssl_.reset(SSL_new(context_.get()));
    if (protocol != nullptr)
      SSL_set_alpn_protos(ssl_.get(), reinterpret_cast<const unsigned char*>(protocol),
                          static_cast<unsigned>(std::string_view(protocol).size()));
    SSL_set_fd(ssl_.get(), socket_.fd());
    connected_ = SSL_connect(ssl_.get()) == 1;
  }

  bool connected() const { return connected_; }
  void send(std::string_view bytes) { SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())); }
  // All until `text` has come, or the end.
  std::string read_until(std::string_view text) {
    std::string all;
    char buffer[4096];
    while (all.find(text) == all.npos) {
      const int got = SSL_read(ssl_.get(), buffer, sizeof buffer);
      if (got <= 0) {
        orderly_end_ = SSL_get_error(ssl_.get(), got) == SSL_ERROR_ZERO_RETURN;
        break;
      }
      all.append(buffer, static_cast<std::size_t>(got));
    }
    return all;
  }
  bool orderly_end() const { return orderly_end_; }
  void reset() { socket_.reset(); }
  std::string protocol() const {
    const unsigned char* name = nullptr;
    unsigned bytes = 0;
    SSL_get0_alpn_selected(ssl_.get(), &name, &bytes);
    return {reinterpret_cast<const char*>(name), bytes};
  }

 private:
  RawClient socket_;
  std::unique_ptr<SSL_CTX, FreeSsl> context_;
  std::unique_ptr<SSL, FreeSsl> ssl_;
  bool connected_ = false;
  bool orderly_end_ = false;
};

class HttpTlsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HttpServerOptions options;
    options.listeners = {{.tls = true}, {}};
    options.tls_certificate_file = certificate_.certificate_file;
    options.tls_key_file = certificate_.key_file;
    options.header_timeout = 3s;  // also of a handshake
    server_ = open_server(std::move(options), held_.handler());
  }
  int tls_port() { return server_->ports()[0]; }

  Certificate certificate_;
  HeldExchanges held_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpTlsTest, AnswersAndStreams) {
  TlsClient client(tls_port());
  ASSERT_TRUE(client.connected());
  client.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_NE(client.read_until("GET /a  ").find("HTTP/1.1 200 OK\r\n"), std::string::npos);
  client.send("GET /held HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  const auto exchange = held_.next();
  exchange->begin_stream(event_stream());
  exchange->write("data: 1\n\n");
  client.read_until("data: 1\n\n");
  exchange->write(std::string(100000, 'x'));  // several records
  exchange->end_stream();
  const std::string rest = client.read_until("never");
  EXPECT_EQ(std::count(rest.begin(), rest.end(), 'x'), 100000);
  EXPECT_TRUE(rest.ends_with("\r\n0\r\n\r\n"));
  EXPECT_TRUE(client.orderly_end());
}

TEST_F(HttpTlsTest, PlainAndTlsListenersTogether) {
  RawClient plain = RawClient::to_port(server_->ports()[1]);
  ASSERT_TRUE(plain.send("GET /held HTTP/1.1\r\nHost: h\r\n\r\n"));
  const auto exchange = held_.next();
  EXPECT_EQ(exchange->request().listener, 1u);
  exchange->respond({});
  EXPECT_EQ(plain.read_response().status, 200);
}

TEST_F(HttpTlsTest, ClientThatLeavesIsNoticed) {
  TlsClient client(tls_port());
  client.send("GET /held HTTP/1.1\r\nHost: h\r\n\r\n");
  const auto exchange = held_.next();
  std::atomic<bool> gone{false};
  exchange->on_client_gone([&] { gone = true; });
  client.reset();
  EXPECT_TRUE(eventually([&] { return gone.load(); }));
}

TEST_F(HttpTlsTest, OldVersionsOtherProtocolsAndPlainTextAreRefused) {
  EXPECT_FALSE(TlsClient(tls_port(), TLS1_1_VERSION).connected());
  EXPECT_TRUE(TlsClient(tls_port(), TLS1_2_VERSION).connected());
  TlsClient both(tls_port(), TLS1_3_VERSION, "\x02h2\x08http/1.1");
  EXPECT_TRUE(both.connected());
  EXPECT_EQ(both.protocol(), "http/1.1");
  EXPECT_FALSE(TlsClient(tls_port(), TLS1_3_VERSION, "\x02h2").connected());
  RawClient plain = RawClient::to_port(tls_port());
  ASSERT_TRUE(plain.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_TRUE(plain.is_closed());
  RawClient silent = RawClient::to_port(tls_port());
  EXPECT_TRUE(silent.is_closed());
  EXPECT_TRUE(eventually([&] { return refusals(*server_, HttpRefusal::kTlsHandshake) == 4; }));
}

TEST_F(HttpTlsTest, BadFilesAreNamed) {
  const auto error = [&](const std::string& certificate_file, const std::string& key_file) {
    HttpServerOptions options;
    options.listeners = {{.tls = true}};
    options.tls_certificate_file = certificate_file;
    options.tls_key_file = key_file;
    return HttpServer::open(options, held_.handler()).status();
  };
  EXPECT_EQ(error("/nowhere.pem", certificate_.key_file).code(), StatusCode::kNotFound);
  const Status swapped = error(certificate_.key_file, certificate_.certificate_file);
  EXPECT_EQ(swapped.code(), StatusCode::kCorruptFile);
  EXPECT_TRUE(swapped.message().starts_with(certificate_.key_file));
}

}  // namespace
}  // namespace deepinfer::serving
