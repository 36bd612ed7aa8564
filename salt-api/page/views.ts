/** What everybody who looks at the status page is shown alike, looked up once for all of them. */
import type { KeyInfo, MasterStatus } from '../../master/index.ts';
import type { ServedMaster } from '../context.ts';
import type { History, MinionSince } from './history.ts';
import { Shared } from './shared.ts';

/** Milliseconds for which it is shown; readers look every two seconds. */
const freshMs = 1900;

/** See above. */
export interface Views {
  readonly history: History;
  readonly status: Shared<MasterStatus>;
  readonly minions: Shared<readonly MinionSince[]>;
  /** Keys that wait. */
  readonly pending: Shared<readonly KeyInfo[]>;
}

export function createViews(master: ServedMaster, history: History): Views {
  return {
    history,
    status: new Shared(() => master.status(), freshMs),
    minions: new Shared(() => history.minions(), freshMs),
    pending: new Shared(() => master.keys.list({ state: 'pending' }), freshMs),
  };
}
