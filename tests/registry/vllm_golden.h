/* SPDX-License-Identifier: Apache-2.0 */
/* Of vLLM 0.33.0; tests/registry/vllm_golden.py has written it. */
#ifndef TESTS_REGISTRY_VLLM_GOLDEN_H
#define TESTS_REGISTRY_VLLM_GOLDEN_H

#include <kv/types.h>

static const struct vllm_golden {
	const char *name;
	const char *hash[3];
	u64 number[3];		/* in events */
} vllm_golden[] = {
	{ "plain", {
		"31007bb4ed2da2fb03f02597de77e4f77a923a2e762c93387996c7918cda9e5e",
		"ea0a35c803e8142cfc7e893b956f4c1d31a0c4f4b786bed3fa2b8078da6c6277",
		"008290c44ce3367b24aca4ff7c55100a584af1171a8c8f4cc7997a2b9687ee0c",
	}, {
		0x7996c7918cda9e5eull,
		0xfa2b8078da6c6277ull,
		0xc7997a2b9687ee0cull,
	} },
	{ "seed", {
		"fc84391b61367f417c89779302c7ff7629f960d0b1501220b70e10df38cea689",
		"841437145150a1dae7829ae4e81ab168d04b475f9a84e3d71c5031457036e637",
		"de80a89d75cebfdaaac64d838d8678a0f3e12b45cf956a066e88c34a5d075682",
	}, {
		0xb70e10df38cea689ull,
		0x1c5031457036e637ull,
		0x6e88c34a5d075682ull,
	} },
	{ "lora", {
		"2bed32e23fe52ab996b12b97a82fa103e0a4c478c8569c02c0d4ee270918181c",
		"d41a37104273d0c1b195a9ba2a7be8606fe8ef701155bb80559d31f067df010d",
		"c0b30192002ea51b2f0a580720628807c7d5bb7df87215eaf9e858ee7f8cb75b",
	}, {
		0xc0d4ee270918181cull,
		0x559d31f067df010dull,
		0xf9e858ee7f8cb75bull,
	} },
	{ "salt", {
		"0383cd8fa74ec340d89dc8806ae75bf5a737c9b005de2e9ff01b514fedad92f3",
		"32a05cfb572781c31ec57ecdfc5da998f03fdcdd3de34e665689875085711a6a",
		"bd37855775c45c8b6d40acf887075e158703972e126384aec273dbfdf9933702",
	}, {
		0xf01b514fedad92f3ull,
		0x5689875085711a6aull,
		0xc273dbfdf9933702ull,
	} },
	{ "lora_as_salt", {
		"91a6964d26714a22029eac9a676d8317f9fe7aaaaecde34e6a9377305df85700",
		"7c9ccd9f381abd47bbf1302e4d9cb0380b138bf9eb7eeb07d6609feb803955b2",
		"7488432a1f516b132523c8f9309ce3fa87971dda1b189fa6d664b8a21245811a",
	}, {
		0x6a9377305df85700ull,
		0xd6609feb803955b2ull,
		0xd664b8a21245811aull,
	} },
	{ "images", {
		"0094ed9602dae0619df80c8001327566c202374c7e354bfd4ebaaf7a1bc5e13e",
		"00000dc5a37a936ce3b8e3945c36b4238f239636718ba16a54a209ec64c15f7e",
		"f03823aedafd20189982258d891d62a82be1a1fb31737428f00f60bc07b84b18",
	}, {
		0x4ebaaf7a1bc5e13eull,
		0x54a209ec64c15f7eull,
		0xf00f60bc07b84b18ull,
	} },
	{ "embeds", {
		"5edb8bef01261f2ff7cae7a84f21f672fe5dbac919dc8b9c3fc62050ec4dc5d7",
		"cda730577e45712c8b8f266a25ffb8bf05f3d87a9b37155c223b2ed0b4daca4c",
		"b4ff099c4170a9cd8a0c3f9ff09c672b5720b0bf6330a7acd306dc93a86bcace",
	}, {
		0x3fc62050ec4dc5d7ull,
		0x223b2ed0b4daca4cull,
		0xd306dc93a86bcaceull,
	} },
	{ "everything", {
		"e6ff293c4e095dc6f9a68d8e965c07746e687f48ed7e3a804f4b69812c4149d6",
		"c8ba2eb55f881aa60254bff52fe735ddc879bf49a688e9806b695164c74c8359",
		"575dd61681099b5ad700cdb3b5c5f4191793494f4bd38aaf3d99d49c6a05a390",
	}, {
		0x4f4b69812c4149d6ull,
		0x6b695164c74c8359ull,
		0x3d99d49c6a05a390ull,
	} },
};

#endif /* TESTS_REGISTRY_VLLM_GOLDEN_H */
