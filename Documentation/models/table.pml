/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One bucket of a table, and the same bucket of the table that replaces it, between one who looks
 * for a block that is always there, one who inserts and removes another, and one who moves the
 * bucket. Two slots stand for a chain: removing the first moves the last into its place, which is
 * how a reader can miss a block that is there.
 *
 * Asserted: the reader finds its block; a bucket holds it once.
 *
 * Mutants, each of which the checker has to notice: -DBUG_NO_SEQ believes a miss at once,
 * -DBUG_NO_MOVED does not look in the new table, -DBUG_LOST lets a writer change a bucket that has
 * moved, -DBUG_UNLOCK marks a bucket as moved after it was unlocked.
 */
#define NONE	0
#define OTHER	1
#define WANTED	2
#define LATE	3	/* inserted by who looks for it then */

#define PATIENCE	2

/* Slots 2 * table and 2 * table + 1 are those of table 0 or 1. */
byte slot[4];
byte seq[2];			/* odd: locked */
bool moved = false;		/* the bucket of table 0 */
byte current = 0;		/* the table that new callers begin with */

inline lock(t)
{
	atomic { seq[t] % 2 == 0; seq[t]++ }
}

inline unlock(t)
{
	seq[t]++
}

inline scan(t, wanted, found)
{
	found = (slot[2 * t] == wanted);
	if
	:: !found -> found = (slot[2 * t + 1] == wanted)
	:: else -> skip
	fi
}

/* lock_home(): the bucket that counts, locked, in @t. */
inline lock_home(t)
{
	t = current;
	lock(t);
#ifndef BUG_LOST
	if
	:: t == 0 && moved -> unlock(0); t = 1; lock(1)
	:: else -> skip
	fi
#endif
}

/* try_table() and find_slowly() */
proctype reader(byte wanted)
{
	byte t, begin, tries;
	bool found = false, done;

	if
	:: wanted == LATE -> lock_home(t); slot[2 * t + 1] = LATE; unlock(t)
	:: else -> skip
	fi;
	t = current;
again:
	tries = 0;
	done = false;
	do
	:: !done && tries < PATIENCE ->
		begin = seq[t];
		scan(t, wanted, found);
#ifdef BUG_NO_SEQ
		done = true;
#else
		done = (found || (begin % 2 == 0 && seq[t] == begin));
#endif
		tries++
	:: !done && tries == PATIENCE ->
		lock(t);
		scan(t, wanted, found);
		unlock(t);
		done = true
	:: else -> break
	od;
#ifndef BUG_NO_MOVED
	if
	:: !found && t == 0 && moved -> t = 1; goto again
	:: else -> skip
	fi;
#endif
	assert(found)
}

/* slot_add(), slot_del() */
proctype writer()
{
	byte t, round = 0;

	do
	:: round < 2 ->
		lock_home(t);
		if
		:: slot[2 * t] == NONE -> slot[2 * t] = OTHER
		:: slot[2 * t] != NONE -> slot[2 * t + 1] = OTHER
		fi;
		unlock(t);
		lock_home(t);
		if
		:: slot[2 * t] == OTHER ->
			slot[2 * t] = slot[2 * t + 1];
			slot[2 * t + 1] = NONE
		:: else ->
			assert(slot[2 * t + 1] == OTHER);
			slot[2 * t + 1] = NONE
		fi;
		unlock(t);
		round++
	:: else -> break
	od
}

/* move_bucket(): slots are copied one by one, the last first, and stay where they were. */
proctype resizer()
{
	lock(0);
	lock(1);
	slot[2] = (slot[1] == NONE -> slot[0] : slot[1]);
	slot[3] = (slot[1] == NONE -> NONE : slot[0]);
	unlock(1);
#ifdef BUG_UNLOCK
	unlock(0);
	moved = true;
#else
	moved = true;
	unlock(0);
#endif
	current = 1
}

inline count(t, n)
{
	n = (slot[2 * t] == WANTED) + (slot[2 * t + 1] == WANTED)
}

/* Begins with both blocks there. */
proctype remover()
{
	byte t;

	lock_home(t);
	if
	:: slot[2 * t] == OTHER ->
		slot[2 * t] = slot[2 * t + 1];
		slot[2 * t + 1] = NONE
	:: else -> slot[2 * t + 1] = NONE
	fi;
	unlock(t)
}

init
{
	byte n;

	if
	:: slot[0] = WANTED;
		atomic { run reader(WANTED); run reader(WANTED); run writer(); run resizer() }
	:: slot[0] = WANTED;
		atomic { run reader(WANTED); run reader(LATE); run resizer() }
	:: slot[0] = OTHER; slot[1] = WANTED;
		atomic { run reader(WANTED); run reader(WANTED); run remover(); run resizer() }
	fi;
	(_nr_pr == 1);
	count(current, n);
	assert(n == 1)
}
