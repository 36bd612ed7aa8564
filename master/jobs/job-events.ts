/** Data of the events about new jobs and failed states [WIRE 14.2, 14.3]. */

import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { tags } from '../events/index.ts';
import type { JobRecord } from './job-row.ts';

/** Returns the data of the event `salt/job/<jid>/new` [WIRE 14.2]. */
export function newJobEvent(record: JobRecord): WireMap {
  return {
    jid: record.jid,
    tgt_type: record.tgtType,
    tgt: typeof record.tgt === 'string' ? record.tgt : [...record.tgt],
    user: record.user,
    fun: typeof record.fun === 'string' ? record.fun : [...record.fun],
    arg: [...record.arg],
    minions: [...record.minions],
    missing: [...record.missing],
    ...(record.isNarrowed ? { narrowed: true } : {}),
  };
}

const stateFunctions: ReadonlySet<WireValue> = new Set(['state.highstate', 'state.sls']);

interface NamedEvent {
  readonly tag: string;
  readonly data: WireMap;
}

/**
 * Returns two events for each failed state: one with Salt's old tag, and one with the tag of the
 * job.
 */
export function stateErrorEvents(load: WireMap, jid: string, minionId: string): NamedEvent[] {
  const { fun, retcode } = load;
  const results = load.return;
  if (!stateFunctions.has(fun ?? null) || !retcode || !isWireMap(results)) return [];
  return Object.entries(results).flatMap(([key, entry]) => {
    if (!isWireMap(entry) || entry.result !== false) return [];
    const parts = key.split('_|-');
    const failed = `${parts[0] ?? ''}.${parts.at(-1) ?? ''}`;
    const data: WireMap = {
      ...entry,
      jid,
      id: minionId,
      retcode,
      success: false,
      return: `Error: ${failed}`,
      fun: fun ?? null,
      user: load.user ?? null,
    };
    return [
      { tag: failed, data },
      { tag: tags.stateError(jid, minionId, String(fun)), data },
    ];
  });
}
