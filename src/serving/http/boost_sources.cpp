// The compiled parts of Asio and Beast, once for the library (BOOST_ASIO_SEPARATE_COMPILATION in CMakeLists.txt).
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
#include <utility>  // which Boost 1.74 forgets under C++20
