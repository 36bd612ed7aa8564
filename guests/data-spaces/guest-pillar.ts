/**
 * Pillar data for guests: the profile of `sdb://`, the data space values that exist already, and
 * peers.
 */

import { BridgeError } from '#heat-bridge';
import type { ExtPillar } from '#master';
import type { WireMap } from '#minion-protocol';
import type { DataSpaces } from './data-spaces.ts';
import type { DataValues } from './data-values.ts';
import { type GuestRequests, guestRunners, peersAsWire } from './guest-requests.ts';
import { keyOf, unreadKeys } from './roles.ts';

export interface GuestPillarDeps {
  readonly spaces: DataSpaces;
  readonly values: DataValues;
  readonly requests: Pick<GuestRequests, 'permits' | 'pillarPeers'>;
}

/** Maximum number of peers in a pillar. Guests can request further ones. */
const maxPillarPeers = 100;

/**
 * Creates the external pillar of guests. A guest with a role in a data space, or with permission to
 * list its peers, gets these keys below `saltbridge`:
 * - `driver` makes `saltbridge` a profile of `sdb://`.
 * - `data` contains the role. Its maps `reads` and `writes` map attributes to keys. Its list
 *   `unread` contains the keys that the role writes and no role reads. Its map `attributes`
 *   contains the permitted values at the time of rendering. If all values together exceed the limit
 *   `pillarValueBytes`, further values are omitted, and `truncated` is true.
 * - `peers` contains the result of `saltbridge_peers.list`.
 */
export function guestPillar(deps: GuestPillarDeps): ExtPillar {
  return {
    name: 'bridge',
    provide: async ({ id }) => {
      const [data, peers] = await Promise.all([dataOf(id, deps), peersOf(id, deps)]);
      return data === undefined && peers === undefined
        ? undefined
        : { saltbridge: { ...data, ...peers } };
    },
  };
}

async function dataOf(
  id: string,
  { spaces, values, requests }: GuestPillarDeps,
): Promise<WireMap | undefined> {
  const membership = spaces.membershipOf(id);
  if (membership === undefined) return undefined;
  const { space, role } = membership;
  const { reads = {}, writes = {} } = space.roles[role] ?? {};
  // Pillars do not count towards the rates of rules, because a pillar contains many values.
  const known = await values.attributesOf(membership, (key) =>
    requests.permits(id, guestRunners.get, { key }, true),
  );
  const data = {
    role,
    reads: { ...reads },
    writes: Object.fromEntries(
      Object.entries(writes).map(([name, { attribute = name }]) => [attribute, keyOf(role, name)]),
    ),
    unread: unreadKeys(space.roles).filter((key) => key.startsWith(`${role}/`)),
    attributes: Object.fromEntries(Array.from(known.values, ([name, { value }]) => [name, value])),
    ...(known.isTruncated ? { truncated: true } : {}),
  };
  return { driver: 'saltbridge_data', data };
}

async function peersOf(id: string, { requests }: GuestPillarDeps): Promise<WireMap | undefined> {
  if (!requests.permits(id, guestRunners.peers, {}, true)) return undefined;
  try {
    return { peers: peersAsWire(await requests.pillarPeers(id, maxPillarPeers)) };
  } catch (error) {
    // A minion that was not enrolled has no peers.
    if (error instanceof BridgeError && error.code === 'ERR_ENROLL_UNKNOWN') return undefined;
    throw error;
  }
}
