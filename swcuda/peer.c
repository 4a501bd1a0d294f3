// SPDX-License-Identifier: Apache-2.0
/* Devices among each other. peers=0: they cannot reach each other's memory. */
#include "copy.h"

static bool is_pair(kcu_device a, kcu_device b)
{
	return (u32)a < sw.opt.nr_devices && (u32)b < sw.opt.nr_devices;
}

static kcu_result can_access(int *can, kcu_device dev, kcu_device peer)
{
	if (!can)
		return KCU_E_INVALID_VALUE;
	if (!is_pair(dev, peer))
		return KCU_E_INVALID_DEVICE;
	*can = sw.opt.peers && dev != peer;
	return KCU_E_SUCCESS;
}

kcu_result cuDeviceCanAccessPeer(int *can, kcu_device dev, kcu_device peer)
{
	return SW_RUN(cuDeviceCanAccessPeer, SW_INIT, can_access(can, dev, peer));
}

static kcu_result p2p_attribute(int *value, kcu_p2p_attr attr, kcu_device src, kcu_device dst)
{
	if (!value || attr < KCU_P2P_PERFORMANCE_RANK || attr > KCU_P2P_NATIVE_ATOMICS)
		return KCU_E_INVALID_VALUE;
	if (!is_pair(src, dst) || src == dst)
		return KCU_E_INVALID_DEVICE;
	*value = attr == KCU_P2P_PERFORMANCE_RANK ? 0 : sw.opt.peers;
	return KCU_E_SUCCESS;
}

kcu_result cuDeviceGetP2PAttribute(int *value, kcu_p2p_attr attr, kcu_device src, kcu_device dst)
{
	return SW_RUN(cuDeviceGetP2PAttribute, SW_INIT, p2p_attribute(value, attr, src, dst));
}

static kcu_result enable(kcu_context handle, unsigned int flags)
{
	struct sw_dev *dev = sw_current(), *peer = sw_object(SW_T_CONTEXT, (u64)handle);

	if (flags)
		return KCU_E_INVALID_VALUE;
	if (!peer || peer == dev)
		return KCU_E_INVALID_CONTEXT;
	if (!sw.opt.peers)
		return KCU_E_PEER_ACCESS_UNSUPPORTED;
	if (dev->peers & BIT(peer->ordinal))
		return KCU_E_PEER_ACCESS_ALREADY_ENABLED;
	dev->peers |= BIT(peer->ordinal);
	return KCU_E_SUCCESS;
}

kcu_result cuCtxEnablePeerAccess(kcu_context peer, unsigned int flags)
{
	return SW_RUN(cuCtxEnablePeerAccess, SW_INIT | SW_CTX, enable(peer, flags));
}

static kcu_result copy_peer(struct sw_part *part, kcu_context dst_ctx, kcu_context src_ctx,
			    kcu_stream handle)
{
	struct sw_stream *stream;
	kcu_result rc = sw_stream_here(handle, &stream);

	if (rc || !part->bytes)
		return rc;
	part->dst_dev = sw_object(SW_T_CONTEXT, (u64)dst_ctx);
	part->src_dev = sw_object(SW_T_CONTEXT, (u64)src_ctx);
	if (!part->dst_dev || !part->src_dev)
		return KCU_E_INVALID_CONTEXT;
	rc = sw_part_check(part);
	if (rc)
		return rc;
	if (!sw_is_device(part->dst) || !sw_is_device(part->src))
		return KCU_E_INVALID_VALUE;
	return sw_copy_queue(stream, part, 1, SW_cuMemcpyPeerAsync, false);
}

kcu_result cuMemcpyPeerAsync(kcu_deviceptr dst, kcu_context dst_ctx, kcu_deviceptr src,
			     kcu_context src_ctx, size_t bytes, kcu_stream stream)
{
	struct sw_part part = { .dst = dst, .src = src, .bytes = bytes };

	return SW_RUN(cuMemcpyPeerAsync, SW_INIT | SW_CTX,
		      copy_peer(&part, dst_ctx, src_ctx, stream));
}

/* ---- dma-buf: no device here can, and attribute 124 says so ---- */

static kcu_result range_handle(void *handle, u64 addr, size_t bytes, kcu_range_handle kind)
{
	if (!handle || !bytes || (addr | bytes) & (SW_PAGE - 1) || kind != KCU_RANGE_DMA_BUF_FD ||
	    !sw_is_device(addr))
		return KCU_E_INVALID_VALUE;
	return KCU_E_NOT_SUPPORTED;
}

kcu_result cuMemGetHandleForAddressRange(void *handle, kcu_deviceptr addr, size_t bytes,
					 kcu_range_handle kind, unsigned long long flags)
{
	return SW_RUN(cuMemGetHandleForAddressRange, SW_INIT | SW_CTX,
		      range_handle(handle, addr, bytes, kind));
}
