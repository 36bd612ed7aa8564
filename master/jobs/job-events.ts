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

/** Event about a failed state. */
interface StateErrorEvent {
  /** Tag of the job. */
  readonly tag: string;
  /**
   * Event tag that older Salt versions use: module and function of the state, for example
   * `pkg.installed`. A minion chooses both names and thereby the tag, so it needs the same
   * permission as to send a signal with this tag. `undefined` if the names do not form a valid tag.
   */
  readonly oldTag: string | undefined;
  readonly data: WireMap;
}

/** Maximum number of failed states in one return that get an event each. */
const maxErrorEvents = 100;

const oldTagForm = /^[\w-]{1,64}\.[\w-]{1,64}$/;

/**
 * Returns the events about the failed states in a return. If there are more than
 * {@link maxErrorEvents}, the last event states the number of the others.
 */
export function stateErrorEvents(load: WireMap, jid: string, minionId: string): StateErrorEvent[] {
  const { fun, retcode } = load;
  const results = load.return;
  if (!stateFunctions.has(fun ?? null) || !retcode || !isWireMap(results)) return [];
  const tag = tags.stateError(jid, minionId, String(fun));
  const eventOf = (entry: WireMap, failed: string): WireMap => ({
    ...entry,
    jid,
    id: minionId,
    retcode,
    success: false,
    return: `Error: ${failed}`,
    fun: fun ?? null,
    user: load.user ?? null,
  });
  const events: StateErrorEvent[] = [];
  let others = 0;
  for (const key in results) {
    const entry = results[key];
    if (!isWireMap(entry) || entry.result !== false) continue;
    if (events.length === maxErrorEvents) {
      others += 1;
      continue;
    }
    const parts = key.split('_|-');
    const failed = `${parts[0] ?? ''}.${parts.at(-1) ?? ''}`;
    const oldTag = oldTagForm.test(failed) ? failed : undefined;
    events.push({ tag, oldTag, data: eventOf(entry, failed) });
  }
  if (others > 0) {
    events.push({ tag, oldTag: undefined, data: eventOf({}, `${others} further failed states`) });
  }
  return events;
}
