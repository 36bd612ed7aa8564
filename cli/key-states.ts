import type { KeyInfo, KeyState } from '../master/index.ts';
import type { Colors } from './output/colors.ts';

/** The states as `salt-key -L` lists them [salt key.py]. */
export const keyStates: readonly {
  readonly state: KeyState;
  readonly heading: string;
  readonly color: keyof Colors;
}[] = [
  { state: 'accepted', heading: 'Accepted Keys:', color: 'green' },
  { state: 'denied', heading: 'Denied Keys:', color: 'magenta' },
  { state: 'pending', heading: 'Unaccepted Keys:', color: 'red' },
  { state: 'rejected', heading: 'Rejected Keys:', color: 'blue' },
];

/** Keys by state, each state there and in Salt's order. */
export function groupByState(keys: readonly KeyInfo[]): Record<KeyState, KeyInfo[]> {
  const groups: Record<KeyState, KeyInfo[]> = {
    accepted: [],
    denied: [],
    pending: [],
    rejected: [],
  };
  for (const key of keys) groups[key.state].push(key);
  return groups;
}
