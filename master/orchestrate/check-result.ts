/** Whether what a run returned is a success [salt/utils/state.py check_result]. */
import { isWireMap, type WireValue } from '../../minion-protocol/index.ts';

/** @param recurses a value that is no map fails nothing: so it is within the returns of minions */
export function isSuccess(running: WireValue | undefined, recurses = false): boolean {
  const entries = entriesOf(running);
  if (entries === undefined || entries.length === 0) return false;
  return entries.every(([, state]) => {
    const members = entriesOf(state);
    if (members === undefined) return recurses;
    const result = members.find(([name]) => name === 'result');
    return result === undefined ? isSuccess(state, true) : result[1] !== false;
  });
}

function entriesOf(value: WireValue | undefined): [WireValue, WireValue][] | undefined {
  if (value instanceof Map) return [...value];
  return isWireMap(value) ? Object.entries(value) : undefined;
}
