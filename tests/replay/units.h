/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_REPLAY_UNITS_H
#define TESTS_REPLAY_UNITS_H

#include "tools/replay/ages.h"
#include "tools/replay/maps.h"
#include "tools/replay/layout.h"
#include "tools/replay/pattern.h"
#include "tools/replay/policies.h"
#include "tools/replay/trace.h"
#include "tools/replay/workload.h"

#endif /* TESTS_REPLAY_UNITS_H */
