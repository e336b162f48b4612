#include "backends/cuda/sm90_ops.h"
