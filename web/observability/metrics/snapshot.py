"""Snapshot of the engine, and of what it counts anyway, from its frozen statistics when somebody asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from web.process.version import cede_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client.core import Metric

    from actors.core.places.pages import PoolStatistics
    from actors.core.places.states import StateStatistics
    from actors.engine import Engine
    from actors.kv.prefix_cache import CacheStatistics
    from actors.manager.statistics import EngineStatistics
    from web.storage.detached.runs import DetachableStatistics, Runs

Figure: TypeAlias = "tuple[str, str, float]"


class Snapshot(Collector):
    """The figures of one engine; nothing is kept between two looks.

    Args:
        engine: to be looked at, on its event loop's thread.
        runs: its requests that may outlive their clients; None where there are none.
    """

    def __init__(self, engine: Engine, runs: Runs | None = None) -> None:
        self._engine = engine
        self._runs = runs

    def collect(self) -> Iterator[Metric]:
        """Yield each figure."""
        statistics = self._engine.statistics()
        cache = statistics.manager.cache
        pool, states = statistics.manager.pool, statistics.manager.states
        for name, about, value in (*self._standing(statistics), *_pool_standing(pool), *_kv_standing(cache)):
            yield GaugeMetricFamily(name, about, value)
        for name, about, value in (*_counted(statistics), *_pool_counted(pool), *_kv_counted(cache)):
            yield CounterMetricFamily(name, about, value)
        if states is not None:
            yield from _states(states)
        if self._runs is not None:
            yield from _detachable(self._runs.statistics())
        yield _build()
        yield _by("computed_tokens", "Rows of the target's steps.", "phase", _rows(statistics))
        yield _by("kv_reused_tokens", "Tokens of prompts whose KV was found, by where.", "source", cache.hits)
        if cache.disk is not None:
            about = "Files of the disk tier that could not be used."
            yield _by("kv_disk_rejected", about, "reason", cache.disk.rejected)

    def _standing(self, statistics: EngineStatistics) -> Iterable[Figure]:
        manager, unread, pool = statistics.manager, statistics.unread, statistics.manager.pool
        used = (pool.held + pool.resident) / pool.positions
        yield "up", "Whether requests can be served.", self._engine.health() is None
        yield "num_requests_running", "Generations that hold a slot.", manager.leased
        yield "num_requests_waiting", "Generations that wait for a slot.", manager.queued
        yield "num_requests_parked", "Generations that left their slots, and wait for one again.", manager.parked
        yield "slots", "Slots.", manager.slots
        yield "kv_cache_usage_perc", "Share of the pages of KV that sequences have, idle slots' too; 1 is all.", used
        yield "unread_bytes", "Events that their readers have not taken yet.", unread.bytes
        yield "unread_readers", "Readers for whom something waits.", unread.readers


def _counted(statistics: EngineStatistics) -> Iterable[Figure]:
    manager, speculation = statistics.manager, statistics.speculation
    yield "steps", "Steps of the target that ended well.", manager.steps
    yield "steps_failed", "Steps that raised.", manager.failed_steps
    yield "parks", "Generations that left their slots to more important ones, each time.", manager.parks
    yield "resumes", "Those that had a slot again.", manager.resumes
    yield "device_losses", "Times that the device was lost.", manager.device_losses
    yield "readers_cut", "Readers that were given up because they left too much unread.", statistics.unread.cut
    yield "spec_decode_num_drafts", "Drafts that were verified.", speculation.verify_steps
    yield "spec_decode_num_draft_tokens", "Tokens of these.", speculation.drafted_tokens
    yield "spec_decode_num_accepted_tokens", "Of these, tokens that stood.", speculation.accepted_tokens


def _rows(statistics: EngineStatistics) -> Mapping[str, int]:
    return {"prefill": statistics.manager.prefill_tokens, "decode": statistics.manager.decode_tokens}


def _pool_standing(pool: PoolStatistics) -> Iterable[Figure]:
    yield "kv_pool_bytes", "KV that all sequences share.", pool.bytes
    yield "kv_pool_free_bytes", "Of it, what no sequence has, idle slots' neither.", pool.free_bytes
    yield "kv_pool_positions", "Tokens that it has room for, in pages; each page is counted once.", pool.positions
    yield "kv_pool_held_positions", "Of these, what those who run have.", pool.held
    yield "kv_pool_resident_positions", "What idle slots alone have.", pool.resident
    yield "kv_pool_shared_positions", "Of both, what several sequences have.", pool.shared
    yield "kv_pool_promised_positions", "What those who run have or may come to need.", pool.promised


def _pool_counted(pool: PoolStatistics) -> Iterable[Figure]:
    yield "kv_pool_shared_tokens", "Tokens that sequences had of others without a copy.", pool.shared_tokens
    yield "kv_pool_copied_pages", "Pages that were copied on write.", pool.copied_pages
    yield "kv_pool_given_up", "Sequences of idle slots that were evicted for room.", pool.given_up


def _states(states: StateStatistics) -> Iterator[Metric]:
    """Yield what is known of the states of recurrent layers."""
    yield GaugeMetricFamily("state_buffers", "Buffers for states of recurrent layers.", states.buffers)
    yield GaugeMetricFamily("state_buffers_named", "Of them, those that have a state.", states.named)
    yield GaugeMetricFamily("state_snapshots", "States that no running sequence goes on from.", states.snapshots)
    yield CounterMetricFamily("state_snapshots_evicted", "Snapshots that made way for others.", states.evicted)


def _detachable(runs: DetachableStatistics) -> Iterator[Metric]:
    """Yield what is known of requests that may outlive their clients."""
    standing = (
        ("detachable_running", "Requests that run and may outlive their clients.", runs.running),
        ("detachable_detached", "Of these, those that nobody reads.", runs.detached),
        ("detachable_readers", "Readers of all of them, and of answers that are kept.", runs.readers),
        ("detachable_kept", "Answers that are kept for those who come back.", runs.kept),
        ("detachable_kept_bytes", "Bytes of these.", runs.kept_bytes),
    )
    for name, about, value in standing:
        yield GaugeMetricFamily(name, about, value)
    yield CounterMetricFamily("detachable_attaches", "Readers that came after the beginning.", runs.attaches)


def _kv_standing(cache: CacheStatistics) -> Iterable[Figure]:
    yield "kv_unsaved_blocks", "Blocks in slots that are to be kept elsewhere.", cache.unsaved_blocks
    yield "kv_ram_bytes", "KV in host memory.", cache.ram.bytes
    yield "kv_ram_limit_bytes", "Budget of KV in host memory.", cache.ram.budget
    if cache.disk is not None:
        yield "kv_disk_bytes", "KV on disk.", cache.disk.bytes
        yield "kv_disk_limit_bytes", "Budget of KV on disk.", cache.disk.budget
        yield "kv_disk_suspended", "Whether the disk refuses to be written.", cache.disk.suspended


def _kv_counted(cache: CacheStatistics) -> Iterable[Figure]:
    about = "Tokens computed for cancelled generations that later ones were given, each counted once."
    yield "cancel_served_again_tokens", about, cache.served_again
    yield "kv_strikes", "Blocks that were given up because KV was found wrong.", cache.strikes
    yield "kv_audits", "Restores that were compared with what was computed again.", cache.audits
    yield "kv_audit_failures", "Of these, those that differed.", cache.audit_failures
    yield "kv_ram_evictions", "Blocks that host memory had no room for.", cache.ram.evictions
    if cache.disk is not None:
        yield "kv_disk_written_blocks", "Blocks that were written.", cache.disk.written
        yield "kv_disk_loaded_blocks", "Blocks that were read.", cache.disk.loaded
        yield "kv_disk_dropped_blocks", "Blocks that were to be written, and were not.", cache.disk.dropped
        yield "kv_disk_evictions", "Blocks that the disk's budget had no room for.", cache.disk.evicted
        yield "kv_disk_write_errors", "Writes that the disk refused.", cache.disk.write_errors


def _build() -> Metric:
    family = GaugeMetricFamily("build_info", "Always 1; its label says which cede this is.", labels=("version",))
    family.add_metric((cede_version(),), 1)
    return family


def _by(name: str, about: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, about, labels=(label,))
    for value, count in values.items():
        family.add_metric((value,), count)
    return family
