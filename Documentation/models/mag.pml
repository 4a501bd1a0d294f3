/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A magazine between its owner, who takes and gives blocks without a lock, and whoever drains it with
 * the pool's lock: percpu/mag.h. The owner's stores wait in a buffer, first in first out, and become
 * visible some time; its loads do not wait for them. That is what x86 does, and the only way in which
 * the two can miss each other; other machines need acquire and release besides, which are there.
 *
 * Either the one who drains has all threads pass a fence (kv_fence_all() empties the buffer), or,
 * where the system has none, the owner has a fence of its own.
 *
 * Asserted: never are both inside; the one who drains finds what the owner has left, and the owner
 * what was loaded.
 *
 * Mutants, each of which the checker has to notice: -DBUG_NO_FENCE drains without a fence;
 * -DBUG_NO_WAIT does not wait for an owner that is inside; -DBUG_LOOK_FIRST looks whether it is
 * armed before it says that it is busy; -DBUG_LEAVE_FIRST says that it is not before it has written;
 * -DBUG_NO_OWN_FENCE has no fence at all where the system has none.
 */
#define BUSY		0
#define NR		1
#define EMPTY_BUFFER	(len(stores) == 0)

#define NR_CALLS	3
#define NR_DRAINS	2

/* Memory. */
byte busy = 0, nr = 2, armed = 1;

/* The owner's stores that nobody else sees yet. */
chan stores = [4] of { byte, byte };
byte nr_waiting = 0;		/* of them those of nr, */
byte nr_last;			/* and the last one, which the owner itself does see */

bool fenced;			/* fixed before anybody starts */
byte truth = 2;			/* ghost: what is in the magazine */
bool owner_inside = false, drainer_inside = false;	/* ghosts */

inline apply()
{
	d_step {
		stores?where, what;
		if
		:: where == BUSY -> busy = what
		:: else -> nr = what; nr_waiting--
		fi;
		where = 0;
		what = 0
	}
}

/* Stores become visible some time. */
proctype buffer()
{
	byte where, what;

end:	do
	:: atomic { !EMPTY_BUFFER -> apply() }
	od
}

inline own_fence()
{
	if
#ifndef BUG_NO_OWN_FENCE
	:: fenced -> EMPTY_BUFFER
#endif
	:: else -> skip
	fi
}

/* mag_enter(), mag_alloc_one() or mag_free_one(), mag_leave(). */
proctype owner()
{
	byte calls = 0, mine, seen;

	do
	:: calls < NR_CALLS ->
		calls++;
#ifdef BUG_LOOK_FIRST
		seen = armed;
		stores!BUSY, 1;
		own_fence();
#else
		stores!BUSY, 1;
		own_fence();
		seen = armed;
#endif
		if
		:: seen ->
			atomic { owner_inside = true; assert(!drainer_inside) }
			atomic {
				mine = (nr_waiting > 0 -> nr_last : nr);
				assert(mine == truth)
			}
#ifdef BUG_LEAVE_FIRST
			stores!BUSY, 0;
#endif
			if
			:: mine > 0 -> mine--
			:: mine < 3 -> mine++
			fi;
			atomic {
				stores!NR, mine;
				nr_last = mine;
				nr_waiting++;
				truth = mine
			}
			atomic { assert(!drainer_inside); owner_inside = false }
#ifndef BUG_LEAVE_FIRST
			stores!BUSY, 0
#endif
		:: else ->
			stores!BUSY, 0
		fi
	:: else -> break
	od
}

inline fence_all()
{
	if
#ifndef BUG_NO_FENCE
	:: !fenced ->
		atomic {
			do
			:: !EMPTY_BUFFER -> apply()
			:: else -> break
			od
		}
#endif
	:: else -> skip
	fi
}

/* mags_drain(), and later on arm(). */
proctype drainer()
{
	byte where, what, drains = 0;

	do
	:: drains < NR_DRAINS ->
		drains++;
		armed = 0;
		fence_all();
#ifndef BUG_NO_WAIT
		busy == 0;
#endif
		atomic { drainer_inside = true; assert(!owner_inside) }
		atomic { assert(nr == truth); nr = 0; truth = 0 }
		atomic { nr = 2; truth = 2 }	/* __mag_fill() */
		atomic { assert(!owner_inside); drainer_inside = false }
		armed = 1
	:: else -> break
	od
}

init {
	if
	:: fenced = false
	:: fenced = true
	fi;
	run buffer();
	run owner();
	run drainer()
}
