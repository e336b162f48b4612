// What a service manager is told of the server: the protocol of sd_notify(3), one datagram to $NOTIFY_SOCKET.
#pragma once

#include <string_view>

namespace deepinfer::cli {

// state: "READY=1", "STOPPING=1", with "\nSTATUS=text" for people.  Nothing where no manager has asked for it.
void notify_service(std::string_view state);

}  // namespace deepinfer::cli
