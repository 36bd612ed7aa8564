/** The events that name each failed state of a highstate or sls return [WIRE 14.3]. */
import { isWireMap, type WireMap, type WireValue } from '../../minion-protocol/index.ts';
import { tags } from '../events/tags.ts';

const stateFunctions: ReadonlySet<WireValue> = new Set(['state.highstate', 'state.sls']);

interface NamedEvent {
  readonly tag: string;
  readonly data: WireMap;
}

/** Two events a failed state: Salt's old form, and the one under the job's tag. */
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
