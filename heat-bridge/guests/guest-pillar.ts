/** What guests find in their pillar: the profile of `sdb://`, and values that are known. */

import type { ExtPillar } from '../../master/index.ts';
import type { DataSpaces } from './data-spaces.ts';
import type { DataValues } from './data-values.ts';
import { dataRunner, type GuestRequests } from './guest-requests.ts';
import { keyOf, unreadKeys } from './roles.ts';

export interface GuestPillarDeps {
  readonly spaces: DataSpaces;
  readonly values: DataValues;
  readonly requests: Pick<GuestRequests, 'permits'>;
}

/**
 * `saltbridge:driver` makes `saltbridge` a profile of `sdb://`. `saltbridge:data` has `reads` and
 * `writes` (attribute → key), `unread` (keys that nobody reads) and `attributes` (values that are
 * there when the pillar is made).
 */
export function guestPillar({ spaces, values, requests }: GuestPillarDeps): ExtPillar {
  return {
    name: 'bridge',
    provide: async ({ id }) => {
      const membership = spaces.membershipOf(id);
      if (membership === undefined) return undefined;
      const { space, role } = membership;
      const { reads = {}, writes = {} } = space.roles[role] ?? {};
      const known = await values.attributesOf(membership);
      // protection: pillar-of-guests
      const permitted = [...known].filter(([, { key }]) =>
        requests.permits(id, dataRunner.get, { key }),
      );
      const data = {
        role,
        reads: { ...reads },
        writes: Object.fromEntries(
          Object.entries(writes).map(([name, { attribute = name }]) => [
            attribute,
            keyOf(role, name),
          ]),
        ),
        unread: [...unreadKeys(space.roles)].filter((key) => key.startsWith(`${role}/`)),
        attributes: Object.fromEntries(permitted.map(([name, { value }]) => [name, value])),
      };
      return { saltbridge: { driver: 'saltbridge_data', data } };
    },
  };
}
