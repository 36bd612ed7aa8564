/** Interfaces to data spaces: for programs, at the local socket, with audit records. */

import Type from 'typebox';
import { extensionMethod, type RpcTable } from '#master';
import type { StackOwner } from '../deployments/stacks-api.ts';
import {
  type DataSpaceInfo,
  type DataSpaceRegistration,
  type DataSpaces,
  infoOfSpace,
  parseDataSpace,
} from './data-spaces.ts';
import type { DataValues } from './data-values.ts';
import { readersByKey, splitKey, writtenKeys } from './roles.ts';

/** A value of a data space, without the value itself. */
interface DataKeyInfo {
  readonly key: string;
  readonly writer: string;
  readonly readers: readonly string[];
  readonly secret: boolean;
  readonly versioned: boolean;
  /** Bytes that it takes. Absent: it is not written. */
  readonly bytes?: number;
}

/** A data space and what is written in it. */
export interface DataSpaceDetails extends DataSpaceInfo {
  readonly values: readonly DataKeyInfo[];
}

/** Values that the minions of a stack write for each other. */
export interface DataApi {
  /**
   * Registers a data space; durable when it resolves.
   * @throws BridgeError ERR_DATA_FORM, ERR_DATA_QUOTA, ERR_DATA_LIMIT, ERR_DATA_EXISTS (unless it
   * `replaces` one of this owner)
   */
  add(
    registration: DataSpaceRegistration,
    options?: StackOwner & { readonly replaces?: boolean },
  ): Promise<DataSpaceInfo>;
  list(selection?: StackOwner): Promise<readonly DataSpaceInfo[]>;
  /** @throws BridgeError ERR_DATA_UNKNOWN */
  show(name: string, of?: StackOwner): Promise<DataSpaceDetails>;
  /** Forgets a data space and its values. @throws BridgeError ERR_DATA_UNKNOWN */
  remove(name: string, of?: StackOwner): Promise<DataSpaceInfo>;
}

export interface DataApiDeps {
  readonly spaces: DataSpaces;
  readonly values: DataValues;
  readonly keysPerStack: number;
}

export function createDataApi({ spaces, values, keysPerStack }: DataApiDeps): DataApi {
  return {
    add: async (given, { owner, replaces = false } = {}) =>
      infoOfSpace(await spaces.add(parseDataSpace(given, keysPerStack), owner, replaces)),
    list: async ({ owner } = {}) =>
      spaces.all.filter((it) => owner === undefined || it.owner === owner).map(infoOfSpace),
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

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 256 });
const ownerField = { owner: Type.Optional(Text) };
const Which = Type.Object({ name: Text, ...ownerField }, strict);
/** `data.add` looks at it more closely. */
const Registration = Type.Unsafe<DataSpaceRegistration>(Type.Object({ name: Text }));

function minionsOf({ roles }: DataSpaceInfo): readonly string[] {
  return Object.values(roles).flat();
}

/** The methods, called at the local socket as `bridge.data.add` and so on. */
export function dataMethods(data: DataApi): RpcTable {
  return {
    data: {
      add: extensionMethod({
        parameters: Type.Object(
          { registration: Registration, replaces: Type.Optional(Type.Boolean()), ...ownerField },
          strict,
        ),
        args: (
          registration: DataSpaceRegistration,
          options?: StackOwner & { readonly replaces?: boolean },
        ) => ({ registration, ...options }),
        call: (_api, { registration, ...options }) => data.add(registration, options),
        audit: {
          action: 'data.add',
          done: ({ registration: { name } }, space) => ({
            what: String(name),
            on: minionsOf(space),
          }),
          failed: ({ registration: { name } }) => ({ what: String(name) }),
        },
      }),
      list: extensionMethod({
        parameters: Type.Object(ownerField, strict),
        call: (_api, p) => data.list(p),
      }),
      show: extensionMethod({
        parameters: Which,
        call: (_api, { name, ...of }) => data.show(name, of),
      }),
      remove: extensionMethod({
        parameters: Which,
        args: (name: string, of?: StackOwner) => ({ name, ...of }),
        call: (_api, { name, ...of }) => data.remove(name, of),
        audit: {
          action: 'data.remove',
          done: ({ name }, space) => ({ what: name, on: minionsOf(space) }),
          failed: ({ name }) => ({ what: name }),
        },
      }),
    },
  };
}
