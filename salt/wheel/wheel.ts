/** The wheel functions that this master serves. */

import { type LiveConfig, type MasterConfig, saltValues } from '#config';
import type { Auth, InProcessApi, Jobs } from '#master';
import type { WireMap } from '#minion-protocol';
import { processUser } from '#runtime';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { fileRootsWheel } from './file-roots-wheel.ts';
import { keyWheel } from './key-wheel.ts';
import { newKeyWheel } from './new-key-wheel.ts';

export interface WheelDeps {
  readonly config: LiveConfig;
  readonly auth: Auth;
  readonly jobs: Jobs;
  readonly keys: InProcessApi['keys'];
}

export function wheelTable({ config, auth, jobs, keys }: WheelDeps): FunctionTable {
  const ownKeys = (): readonly Auth['ownKeys'][number][] => auth.ownKeys;
  return {
    ...keyWheel({ keys, ownKeys }),
    ...newKeyWheel({ keys, generator: auth.generator }),
    ...(config.leftOut.includes('files') ? {} : fileRootsWheel({ config: config.fixed })),
    'config.values': masterFunction({
      summary: "Returns the options of the master by Salt's names; secrets are omitted.",
      parameters: {},
      call: () => ({
        ...saltValues(config.all, config.leftOut),
        external_auth: namesOf(config.current.externalAuth),
        user: config.fixed.user ?? processUser(),
      }),
    }),
    'minions.connected': masterFunction({
      summary: 'Lists the connected minions.',
      parameters: {},
      call: () =>
        jobs
          .present()
          .map(({ id }) => id)
          .sort(),
    }),
  };
}

/**
 * Returns the names of users and groups by eauth back end. Rights and options are left out, because
 * they may be secret.
 */
function namesOf(externalAuth: MasterConfig['externalAuth']): WireMap {
  const backends = Object.entries(externalAuth).map(([eauth, users]): [string, WireMap] => {
    const names = Object.keys(Object(users)).filter((name) => !name.startsWith('^'));
    return [eauth, Object.fromEntries(names.map((name) => [name, []]))];
  });
  return Object.fromEntries(backends);
}
