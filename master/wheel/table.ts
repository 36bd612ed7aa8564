/** The wheel functions that are served. */
import { userInfo } from 'node:os';
import type { WireMap } from '../../minion-protocol/index.ts';
import type { MasterConfig } from '../config/options.ts';
import { saltValues } from '../config/salt-values.ts';
import type { PresentMinion } from '../presence/present.ts';
import { type FunctionTable, masterFunction } from '../runners/function.ts';
import { type FileRootsWheelParts, fileRootsWheel } from './file-roots.ts';
import { type KeyWheelParts, keyWheel } from './key.ts';
import { newKeyWheel } from './new-keys.ts';

/** What they need. */
export interface WheelParts extends KeyWheelParts, FileRootsWheelParts {
  readonly config: MasterConfig;
  readonly present: () => readonly PresentMinion[];
}

export function wheelTable(parts: WheelParts): FunctionTable {
  return {
    ...keyWheel(parts),
    ...newKeyWheel(parts),
    ...fileRootsWheel(parts),
    'config.values': masterFunction({
      summary: "The master's options under Salt's names; secret ones are left out.",
      parameters: {},
      call: () => ({
        ...saltValues(parts.config),
        external_auth: namesOf(parts.config.externalAuth),
        user: parts.config.user ?? processUser(),
      }),
    }),
    'minions.connected': masterFunction({
      summary: 'The minions that are connected.',
      parameters: {},
      call: () =>
        parts
          .present()
          .map(({ id }) => id)
          .sort(),
    }),
  };
}

/** Who has rights by what they log in by; not which, and no options, some of which are secret. */
function namesOf(externalAuth: MasterConfig['externalAuth']): WireMap {
  const backends = Object.entries(externalAuth).map(([eauth, users]): [string, WireMap] => {
    const names = Object.keys(Object(users)).filter((name) => !name.startsWith('^'));
    return [eauth, Object.fromEntries(names.map((name) => [name, []]))];
  });
  return Object.fromEntries(backends);
}

/** Whom the master runs as where `user` is not set, as Salt has it; null: an account without a name. */
function processUser(): string | null {
  try {
    return userInfo().username;
  } catch {
    return null;
  }
}
