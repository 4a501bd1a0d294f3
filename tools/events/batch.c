// SPDX-License-Identifier: Apache-2.0
/* Batches of MessagePack, read and printed. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../tool.h"
#include "print.h"
#include "wire.h"
#include "wire_read.h"

static const char *const kinds[KVMM_NR_EVENT_KINDS] = {
	"BlockStored", "BlockRemoved", "AllBlocksCleared",
};

static const char *const media[KVMM_NR_MEDIA + 1] = { "device", "host", "disk", "external", "-" };

static void free_batch(struct wire_batch *batch)
{
	free(batch->event);
	free(batch->hash);
	free(batch->token);
}

/* Reads twice: how much there is, and then into room for that much. */
static int64_t read_batch(const void *bytes, size_t nr, struct wire_batch *batch)
{
	int64_t used;

	memset(batch, 0, sizeof(*batch));
	used = wire_read(bytes, nr, batch);
	if (used != -ENOSPC)
		return used;
	batch->event = calloc(batch->nr_events + 1, sizeof(*batch->event));
	batch->hash = calloc((size_t)batch->nr_hashes + 1, sizeof(*batch->hash));
	batch->token = calloc((size_t)batch->nr_tokens + 1, sizeof(*batch->token));
	if (!batch->event || !batch->hash || !batch->token)
		return -ENOMEM;
	batch->max_events = batch->nr_events;
	batch->max_hashes = batch->nr_hashes;
	batch->max_tokens = batch->nr_tokens;
	return wire_read(bytes, nr, batch);
}

/* ---- for programs ---- */

static void json_event(FILE *out, const struct wire_batch *batch,
		       const struct wire_event *event)
{
	fprintf(out, "{\"type\": \"%s\"", kinds[event->kind]);
	if (event->kind != KVMM_EVENT_CLEARED) {
		fputs(", \"block_hashes\": [", out);
		for (uint32_t i = 0; i < event->nr_hashes; i++)
			fprintf(out, "%s%" PRIu64, i ? ", " : "", batch->hash[event->first_hash + i]);
		fprintf(out, "], \"medium\": \"%s\", \"group\": %" PRIu64, media[event->medium],
			event->group);
	}
	if (event->has_parent)
		fprintf(out, ", \"parent\": %" PRIu64, event->parent);
	if (event->kind == KVMM_EVENT_STORED) {
		fprintf(out, ", \"block_size\": %" PRIu64 ", \"token_ids\": [", event->block_size);
		for (uint32_t i = 0; i < event->nr_tokens; i++)
			fprintf(out, "%s%" PRIu32, i ? ", " : "", batch->token[event->first_token + i]);
		fputc(']', out);
	}
	fputc('}', out);
}

static void json_batch(FILE *out, const struct wire_batch *batch)
{
	fprintf(out, "{\"time\": %.6f, \"rank\": ", batch->seconds);
	if (batch->rank == WIRE_NONE)
		fputs("null", out);
	else
		fprintf(out, "%" PRIu64, batch->rank);
	fputs(", \"events\": [", out);
	for (uint32_t i = 0; i < batch->nr_events; i++) {
		fputs(i ? ", " : "", out);
		json_event(out, batch, &batch->event[i]);
	}
	fputs("]}\n", out);
}

/* ---- for people ---- */

static void say_event(const struct printer *printer, const struct wire_batch *batch,
		      const struct wire_event *event)
{
	FILE *out = printer->out;
	unsigned int at = 18;
	char word[32];

	fprintf(out, "  %s%-16s%s", colour_of(printer, event->kind), kinds[event->kind],
		colour_end(printer));
	if (event->kind == KVMM_EVENT_CLEARED) {
		fputc('\n', out);
		return;
	}
	at += fprintf(out, " %-8s group %" PRIu64 " %" PRIu32 " blocks", media[event->medium], event->group,
		      event->nr_hashes);
	if (event->kind == KVMM_EVENT_STORED)
		at += fprintf(out, " of %" PRIu64 ", %" PRIu32 " tokens", event->block_size,
			      event->nr_tokens);
	if (event->has_parent) {
		snprintf(word, sizeof(word), " after %016" PRIx64, event->parent);
		at = print_words(out, word, at, 4, printer->width);
	}
	fputc(':', out);
	for (uint32_t i = 0; i < event->nr_hashes; i++) {
		snprintf(word, sizeof(word), " %016" PRIx64, batch->hash[event->first_hash + i]);
		at = print_words(out, word, at + !i, 4, printer->width);
	}
	fputc('\n', out);
}

static void say_batch(const struct printer *printer, const struct wire_batch *batch)
{
	fprintf(printer->out, "%.6f", batch->seconds);
	if (batch->rank != WIRE_NONE)
		fprintf(printer->out, " rank %" PRIu64, batch->rank);
	fprintf(printer->out, ", %" PRIu32 " events\n", batch->nr_events);
	for (uint32_t i = 0; i < batch->nr_events; i++)
		say_event(printer, batch, &batch->event[i]);
}

int64_t batch_print(const struct printer *printer, const void *bytes, size_t nr, uint64_t *nr_events)
{
	struct wire_batch batch;
	int64_t used = read_batch(bytes, nr, &batch);

	if (used > 0) {
		*nr_events += batch.nr_events;
		if (printer->json)
			json_batch(printer->out, &batch);
		else
			say_batch(printer, &batch);
	}
	free_batch(&batch);
	return used;
}
