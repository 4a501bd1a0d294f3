/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One entry between two who look it up, one who upgrades a weak handle, and one who evicts it and
 * gives it another name. Steps are those of include/kv/entry.h; a swap of the word is atomic, what
 * is read and written around it is not. Memory is sequentially consistent: which orders that needs
 * on real machines is in Documentation/ordering.rst.
 *
 * Asserted: who holds a reference has the name he asked for, and the content of it, until he lets
 * go; references are counted; a claimed block has no holder; a handle is good for one block only.
 *
 * Mutants, each of which the checker has to notice: -DBUG_NAME_FIRST reads the name before the
 * word; -DBUG_NO_GEN swaps a word of another generation; -DBUG_CLAIM claims in spite of references;
 * -DBUG_WEAK upgrades without looking at the generation.
 */
#define FREE		0
#define PRIVATE		1
#define STAGED		2
#define REGISTERED	3
#define EVICTING	4

#define NR_LIVES	3
#define NOTHING		9

/* The word. */
byte state = FREE, refs = 0, gen = 0;

byte name = NOTHING;		/* ->key and the rest of it */
byte content = NOTHING;		/* what is in the block */
byte birth = 0;			/* of the block: one for each generation */
byte handle = 0;		/* generation of a handle that was given to the weak holder */

byte holders = 0;		/* ghost: readers between taking and dropping */
byte owners = 0;		/* ghost: 1 while the owner has its reference */

inline put(ghost)
{
	/* kv_edge_put */
	atomic {
		assert(state == REGISTERED && refs > 0);
		refs--;
		ghost--;
	}
}

/* line_take(): load the word, compare the name, swap that very word. */
proctype reader(byte wanted)
{
	byte w_state, w_refs, w_gen, seen;
	byte tries = 0;

	do
	:: tries < 2 ->
		tries++;
#ifdef BUG_NAME_FIRST
		seen = name;
#endif
		d_step { w_state = state; w_refs = refs; w_gen = gen; }
		if
		:: w_state != REGISTERED -> skip
		:: else ->
#ifndef BUG_NAME_FIRST
			seen = name;
#endif
			if
			:: seen != wanted -> skip
			:: else ->
				atomic {
					if
#ifdef BUG_NO_GEN
					:: state == w_state && refs == w_refs ->
#else
					:: state == w_state && refs == w_refs && gen == w_gen ->
#endif
						refs++;
						holders++;
						goto taken
					:: else -> skip
					fi
				}
			fi
		fi;
		goto next;
taken:
		assert(name == wanted);
		assert(content == wanted);
		assert(state == REGISTERED);
		put(holders);
next:		skip
	:: else -> break
	od
}

/* kv_edge_try_get() by a handle: one load and one swap. */
proctype weak()
{
	byte w_gen, was;
	byte tries = 0;

	do
	:: tries < 2 ->
		tries++;
		w_gen = handle;
		was = w_gen;
		atomic {
			if
#ifdef BUG_WEAK
			:: w_gen > 0 && state == REGISTERED ->
#else
			:: w_gen > 0 && state == REGISTERED && gen == w_gen ->
#endif
				refs++;
				holders++;
				goto taken
			:: else -> goto next
			fi
		}
taken:
		assert(birth == was);
		assert(content != NOTHING);
		put(holders);
next:		skip
	:: else -> break
	od
}

/* take, stage, publish, put; claim, recycle under the next name. */
proctype writer()
{
	byte lives = 0;

	d_step { state = PRIVATE; refs = 1; gen = 1; owners = 1; }
	do
	:: lives < NR_LIVES ->
		birth = gen;
		content = lives % 2;
		name = lives % 2;
		d_step { assert(state == PRIVATE); state = STAGED; }
		d_step { assert(state == STAGED && refs == 1); state = REGISTERED; }
		handle = gen;
		put(owners);
		/* kv_edge_claim; it waits here for the holders to go */
		atomic {
#ifdef BUG_CLAIM
			state == REGISTERED;
#else
			(state == REGISTERED && refs == 0);
			assert(holders == 0 && owners == 0);
#endif
			state = EVICTING;
		}
		content = NOTHING;
		/* kv_entry_recycle() */
		d_step { assert(state == EVICTING); state = PRIVATE; refs = 1; gen++; owners = 1; }
		lives++
	:: else -> break
	od
}

/* References are counted at every moment. */
active proctype counted()
{
	end: !(refs == holders + owners) -> assert(false)
}

init
{
	atomic { run reader(0); run reader(1); run weak(); run writer() }
}
