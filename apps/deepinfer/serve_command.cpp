// `deepinfer serve`: an endpoint that speaks the protocols of OpenAI and Anthropic.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "command.h"
#include "number_option.h"
#include "serve/server_run.h"

namespace deepinfer::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  deepinfer serve                                     the demonstration model on http://127.0.0.1:8000
  deepinfer serve --host 0.0.0.0 --api-key-file keys.txt --tls-cert chain.pem --tls-key key.pem
  deepinfer serve --config deepinfer.toml --access-log access.jsonl
  deepinfer serve --admin-listen unix:/run/deepinfer/admin.sock --log-level warning --access-log -
  deepinfer serve --unix /run/deepinfer.sock --served-model-name my-model

The page at / is a chat, its #engine a view of the engine at work.
Routes: /v1/chat/completions, /v1/completions, /v1/responses, /v1/messages, /v1/messages/count_tokens, /v1/models, /v1/files,
/v1/batches, /tokenize, /detokenize, /version, /health/live, /health/ready, /metrics; docs/server.md describes them. The key
file holds one key a line, with limits behind it: KEY [requests-per-minute=N] [tokens-per-minute=N] [concurrency=N]
[highest-priority=N] [name=NAME].
--admin-listen opens a listener for operators (/admin/state, flush-prefix-cache, drain, pause, resume, profile, log-level);
docs/operations.md describes it.
SIGTERM or Ctrl-C: new requests are refused, those that run are finished or, after --drain-seconds, ended with an error
event. Exit code 0: every request was answered; 6: some were ended; 7: the engine has failed.)";

}  // namespace

void add_serve_command(CLI::App& program, Action& action) {
  auto options = std::make_shared<ServerOptions>();
  CLI::App& command = *program.add_subcommand("serve", "Serve the model over HTTP: OpenAI's and Anthropic's protocols");
  command.footer(kExamples);
  command
      .add_option("--host", options->host,
                  "address to listen at (default: 127.0.0.1); others than this machine's own need --api-key-file")
      ->type_name("ADDRESS");
  add_number<int32_t>(command, "--port", options->port, {.lowest = 0, .highest = 65535},
                      "TCP port (default: 8000; 0: any that is free)");
  command.add_option("--unix", options->unix_path, "listen at this Unix socket instead")->type_name("PATH");
  command.add_option("--tls-cert", options->tls_certificate, "certificate chain (PEM): serve HTTPS")->type_name("FILE");
  command.add_option("--tls-key", options->tls_key, "its private key (PEM)")->type_name("FILE");
  command.add_option("--api-key-file", options->api_key_file, "keys of those who may use the server, one a line")
      ->type_name("FILE");
  command.add_flag("--insecure-no-auth", options->insecure_no_auth,
                   "let everybody who reaches the server use it, from other machines too");
  add_protocol_options(command, "--served-model-name", options->protocol);
  add_file_options(command, options->files);
  command
      .add_option("--cors-origin", options->cors_origins,
                  "a page's origin, such as https://chat.example, that may use the server; *: all (may be repeated)")
      ->type_name("ORIGIN")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  add_number<int32_t>(command, "--drain-seconds", options->drain_seconds, {.lowest = 0, .highest = 86400},
                      "how long running requests may go on after SIGTERM (default: 30)");
  command.add_option("--access-log", options->access_log, "append one line of JSON a request; -: standard error")
      ->type_name("FILE");
  command
      .add_option_function<std::string>(
          "--log-level",
          [options](const std::string& name) {
            const auto level = serving::log_level(name);
            if (!level)
              throw CLI::ValidationError("--log-level",
                                         "`" + name + "` is not allowed, allowed: " + std::string(serving::kLogLevels));
            options->log_level = *level;
          },
          "what the access log holds: debug (also health checks), info (default), warning, error")
      ->type_name("NAME");
  command
      .add_option(
          "--admin-listen", options->admin_listen,
          "listen there for operators: HOST:PORT or unix:PATH (default: nowhere); addresses that other machines "
          "reach need --admin-key-file")
      ->type_name("WHERE");
  command.add_option("--admin-key-file", options->admin_key_file, "keys of operators, one a line")->type_name("FILE");
  command.add_option("--config", "options of this command in TOML, such as `port = 8080`; those given here win")
      ->type_name("FILE");
  add_engine_options(command, options->engine);
  add_request_log_option(command, options->engine);
  command.callback([options, &command, &action] {
    options->given = command.config_to_str();
    action = [options] { return run_server(*options); };
  });
}

}  // namespace deepinfer::cli
