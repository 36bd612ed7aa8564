/** APIs of data spaces, for programs and the local socket, with audit records. */

import { type RegistrationsApi, registrationMethods } from '#heat-bridge';
import type { RpcTable } from '#master';
import { listInSlices } from '../registrations.ts';
import {
  type DataSpaceInfo,
  type DataSpaceRegistration,
  type DataSpaces,
  infoOfSpace,
  parseDataSpace,
} from './data-spaces.ts';
import type { DataValues } from './data-values.ts';
import { readersByKey, splitKey, writtenKeys } from './roles.ts';

/** Declared value of a data space, without the value itself. */
interface DataKeyInfo {
  readonly key: string;
  readonly writer: string;
  readonly readers: readonly string[];
  readonly secret: boolean;
  readonly versioned: boolean;
  /** Size of the value, in bytes. Absent if it has not been written. */
  readonly bytes?: number;
}

/** Data space with its declared values. */
export interface DataSpaceDetails extends DataSpaceInfo {
  readonly values: readonly DataKeyInfo[];
}

/** API of data spaces: values that the minions of a stack write for each other. */
export type DataApi = RegistrationsApi<DataSpaceRegistration, DataSpaceInfo, DataSpaceDetails>;

export interface DataApiDeps {
  readonly spaces: DataSpaces;
  readonly values: DataValues;
  readonly keysPerStack: number;
}

export function createDataApi({ spaces, values, keysPerStack }: DataApiDeps): DataApi {
  return {
    add: async (given, { owner, replaces = false, ...checks } = {}) =>
      infoOfSpace(
        await spaces.add(await parseDataSpace(given, keysPerStack), owner, replaces, checks),
      ),
    list: ({ owner } = {}) =>
      listInSlices(
        spaces.all.filter((it) => owner === undefined || it.owner === owner),
        ({ roles }) =>
          Object.values(roles).reduce(
            (sum, { minions, writes = {} }) => sum + minions.length + Object.keys(writes).length,
            0,
          ),
        infoOfSpace,
        owner,
      ),
    show: async (name, { owner } = {}) => {
      const space = spaces.find(name, owner);
      const sizes = await values.list(space);
      const readers = readersByKey(space.roles);
      const keys = [...writtenKeys(space.roles)].map(([key, { secret, versioned }]) => {
        const bytes = sizes.get(key);
        return {
          key,
          writer: splitKey(key).role,
          readers: readers.get(key) ?? [],
          secret: secret ?? false,
          versioned: versioned ?? false,
          ...(bytes === undefined ? {} : { bytes }),
        };
      });
      return { ...infoOfSpace(space), values: keys };
    },
    remove: async (name, { owner } = {}) => infoOfSpace(await spaces.remove(name, owner)),
  };
}

/** Returns the RPC methods of data spaces: `bridge.data.add` and others on the local socket. */
export function dataMethods(data: DataApi): RpcTable {
  return {
    data: registrationMethods(data, {
      subject: 'data',
      key: 'name',
      detailsOf: ({ roles }) => ({ on: Object.values(roles).flat() }),
    }),
  };
}
