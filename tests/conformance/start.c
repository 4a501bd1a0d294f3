// SPDX-License-Identifier: Apache-2.0
/* Starting the driver, names of errors, what devices say of themselves. */
#include "check.h"

static void init_may_be_repeated(void)
{
	int count = -1;

	must(cu->init(0));
	must(cu->device_get_count(&count));
	that(count == cu->nr_devices && count > 0);
}

static void init_refuses_flags(void)
{
	answers(cu->init(1), INVALID_VALUE);
}

static void version_is_one_that_has_these_calls(void)
{
	int version = 0;

	must(cu->driver_get_version(&version));
	that(version == cu->driver_version);
	that(version >= 11040 && version < 100000);
	/* The batched copies came in these versions, and that is when they were exported. */
	that(!(cu->features & KCU_F_BATCH12) || version >= 12080);
	that(!(cu->features & KCU_F_BATCH13) || version >= 13000);
}

static void version_refuses_null(void)
{
	answers(cu->driver_get_version(NULL), INVALID_VALUE);
}

#define ERROR_VALUE(name, value, class, err)	value,
static const kcu_result errors[] = { KCU_ERRORS(ERROR_VALUE) };

/* The table that this library has, because a stub of a driver has none. */
static void error_names_are_those_of_our_table(void)
{
	u32 nr_known = 0;

	for (u32 i = 0; i < ARRAY_SIZE(errors); i++) {
		const char *name = NULL;

		if (cu->get_error_name(errors[i], &name))
			continue;
		that(name && !strcmp(name, kcu_error_name(errors[i])));
		nr_known++;
	}
	that(nr_known > ARRAY_SIZE(errors) / 2);
}

static void error_name_of_an_unknown_code(void)
{
	const char *name = "x";
	kcu_result result = cu->get_error_name(12345, &name);

	that(!name);
	answers(result, INVALID_VALUE);
}

static void error_text_says_something_else_for_each(void)
{
	const char *one = NULL, *two = NULL;

	must(cu->get_error_string(KCU_E_INVALID_VALUE, &one));
	must(cu->get_error_string(KCU_E_OUT_OF_MEMORY, &two));
	that(one && two && *one && *two && strcmp(one, two));
}

static void error_text_of_an_unknown_code(void)
{
	const char *text = "x";
	kcu_result result = cu->get_error_string(12345, &text);

	that(!text);
	answers(result, INVALID_VALUE);
}

static void device_behind_the_last(void)
{
	kcu_device dev;

	answers(cu->device_get(&dev, cu->nr_devices), INVALID_DEVICE);
}

static void device_of_a_negative_number(void)
{
	kcu_device dev;

	answers(cu->device_get(&dev, -1), INVALID_DEVICE);
}

static void devices_have_names(void)
{
	for (int i = 0; i < cu->nr_devices; i++) {
		char name[128];
		kcu_device dev;

		memset(name, 'x', sizeof(name));
		must(cu->device_get(&dev, i));
		must(cu->device_get_name(name, sizeof(name), dev));
		that(memchr(name, 0, sizeof(name)) && strlen(name) > 1);
	}
}

static void device_name_stays_in_its_buffer(void)
{
	char name[8];

	memset(name, '#', sizeof(name));
	cu->device_get_name(name, 4, device);
	that(is_byte(name + 4, 4, '#'));
}

static void devices_have_different_uuids(void)
{
	kcu_uuid uuid[8] = { 0 }, again, none = { 0 };

	for (int i = 0; i < cu->nr_devices && i < 8; i++) {
		must(cu->device_get_uuid(&uuid[i], i));
		must(cu->device_get_uuid(&again, i));
		that(!memcmp(&uuid[i], &again, sizeof(again)));
		that(memcmp(&uuid[i], &none, sizeof(none)));
		for (int j = 0; j < i; j++)
			that(memcmp(&uuid[i], &uuid[j], sizeof(none)));
	}
}

static void device_has_as_much_memory_as_its_context_says(void)
{
	size_t total = 0, context_total = 0, free_bytes = 0;

	must(cu->device_total_mem(&total, device));
	must(cu->mem_get_info(&free_bytes, &context_total));
	that(total >= 16u << 20 && total == context_total);
	that(free_bytes > 0 && free_bytes <= total);
}

static void device_attributes_are_sane(void)
{
	that(device_attribute(KCU_ATTR_SM_COUNT) > 0);
	that(device_attribute(KCU_ATTR_CC_MAJOR) >= 7);
	that(device_attribute(KCU_ATTR_CC_MINOR) >= 0);
	that(device_attribute(KCU_ATTR_L2_BYTES) > 0);
	that(device_attribute(KCU_ATTR_UVA) == 1);
	that(device_attribute(KCU_ATTR_ASYNC_ENGINES) > 0);
}

static void device_attribute_that_there_is_not(void)
{
	int value;

	answers(cu->device_get_attribute(&value, 100000, device), INVALID_VALUE);
}

static void device_attribute_of_no_device(void)
{
	int value;

	answers(cu->device_get_attribute(&value, KCU_ATTR_SM_COUNT, cu->nr_devices),
		INVALID_DEVICE);
}

/* "0000:0a:00.0", which is also what the attributes say. */
static void pci_id_agrees_with_the_attributes(void)
{
	unsigned int domain, bus, slot;
	char id[32] = "";

	must(cu->device_get_pci_bus_id(id, sizeof(id), device));
	that(sscanf(id, "%x:%x:%x", &domain, &bus, &slot) == 3);
	that((int)domain == device_attribute(KCU_ATTR_PCI_DOMAIN));
	that((int)bus == device_attribute(KCU_ATTR_PCI_BUS));
	that((int)slot == device_attribute(KCU_ATTR_PCI_DEVICE));
}

#define CHECK(name)	{ "start." #name, name, 0, 0 }
const struct check checks_start[] = {
	CHECK(init_may_be_repeated),
	CHECK(init_refuses_flags),
	CHECK(version_is_one_that_has_these_calls),
	CHECK(version_refuses_null),
	CHECK(error_names_are_those_of_our_table),
	CHECK(error_name_of_an_unknown_code),
	CHECK(error_text_says_something_else_for_each),
	CHECK(error_text_of_an_unknown_code),
	CHECK(device_behind_the_last),
	CHECK(device_of_a_negative_number),
	CHECK(devices_have_names),
	CHECK(device_name_stays_in_its_buffer),
	CHECK(devices_have_different_uuids),
	CHECK(device_has_as_much_memory_as_its_context_says),
	CHECK(device_attributes_are_sane),
	CHECK(device_attribute_that_there_is_not),
	CHECK(device_attribute_of_no_device),
	CHECK(pci_id_agrees_with_the_attributes),
	{ NULL, NULL, 0, 0 },
};
