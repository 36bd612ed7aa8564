/** Interfaces to registered stacks: for programs, at the local socket, with audit records. */

import Type from 'typebox';
import type { OutboxEntry } from '#heat-bridge';
import { extensionMethod, type RpcTable } from '#master';
import type { DeploymentEnd } from '../run-result.ts';
import type { DeploymentRecord } from './deployment-records.ts';
import type { ServerStatus } from './server-worker.ts';
import type { StackInfo, StackRegistration } from './stacks.ts';

/** A deployment as anybody may see it: without inputs, outputs and secrets. */
export interface DeploymentInfo {
  readonly id: string;
  readonly server: string;
  readonly minion: string;
  readonly name: string;
  readonly action?: string;
  readonly command?: string;
  /** `running`, `signalling` (Heat has not been told) or `done`. */
  readonly state: DeploymentRecord['state'];
  readonly end?: DeploymentEnd;
  readonly reason?: string;
  /** Milliseconds since 1970. */
  readonly begunAt: number;
  readonly endedAt?: number;
}

/** A registered stack, its servers now, and its latest deployments. */
export interface StackDetails extends StackInfo {
  readonly followed: readonly ServerStatus[];
  /** The oldest first; at most 1,000. */
  readonly deployments: readonly DeploymentInfo[];
  /** Signals of its minions for which no handle was registered; the oldest first, at most 1,000. */
  readonly unclaimed: readonly UnclaimedSignal[];
}

/** A signal for which no handle is registered. */
export type UnclaimedSignal = Pick<
  OutboxEntry,
  'acceptedAt' | 'alias' | 'id' | 'member' | 'minion' | 'reason'
> & {
  /** `held` until a handle is registered; `dead`: it was given up. */
  readonly state: 'dead' | 'held';
};

export function unclaimedOf(entry: OutboxEntry): UnclaimedSignal {
  const { acceptedAt, alias, id, member, minion, reason, state } = entry;
  return {
    id,
    alias,
    minion,
    ...(member === undefined ? {} : { member }),
    state: state === 'dead' ? 'dead' : 'held',
    acceptedAt,
    ...(reason === undefined ? {} : { reason }),
  };
}

/** Whose stack of a name is meant. Default: anybody's. */
export interface StackOwner {
  readonly owner?: string;
}

/** Stacks whose software deployments the bridge runs. */
export interface StacksApi {
  /**
   * Registers a stack; durable when it resolves. Services that are not listed under `handles:
   * endpoints` are not asked: `unlisted` names them.
   * @throws BridgeError ERR_STACK_FORM, ERR_STACK_EXISTS (unless it `replaces` one of this owner),
   * ERR_STACK_LIMIT
   */
  add(
    registration: StackRegistration,
    options?: StackOwner & { readonly replaces?: boolean },
  ): Promise<StackInfo>;
  list(selection?: StackOwner): Promise<readonly StackInfo[]>;
  /** @throws BridgeError ERR_STACK_UNKNOWN */
  show(name: string, of?: StackOwner): Promise<StackDetails>;
  /**
   * Forgets a stack, its secrets and its deployments. What runs on minions ends by itself, and Heat is
   * not told. @throws BridgeError ERR_STACK_UNKNOWN
   */
  remove(name: string, of?: StackOwner): Promise<StackInfo>;
}

export function deploymentInfoOf(record: DeploymentRecord): DeploymentInfo {
  const { id, server, minion, name, action, command, state, end, reason } = record;
  return {
    id,
    server,
    minion,
    name,
    ...(action === undefined ? {} : { action }),
    ...(command === undefined ? {} : { command }),
    state,
    ...(end === undefined ? {} : { end }),
    ...(reason === undefined ? {} : { reason }),
    begunAt: record.begunAt,
    ...(record.endedAt === undefined ? {} : { endedAt: record.endedAt }),
  };
}

/** The minions that a registration names. */
export function minionsOfRegistration({
  minions = [],
  servers = [],
}: Pick<StackRegistration, 'minions' | 'servers'>): readonly string[] {
  return [...new Set([...minions, ...servers.flatMap(({ minion }) => minion ?? [])])];
}

/** The minions that a stack names; a record holds no secrets. */
function minionsOfStack({ minions, servers }: StackInfo): readonly string[] {
  return minionsOfRegistration({
    minions,
    servers: servers.map(({ server, minion }) =>
      minion === undefined ? { server } : { server, minion },
    ),
  });
}

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 256 });
const ownerField = { owner: Type.Optional(Text) };
const Which = Type.Object({ name: Text, ...ownerField }, strict);
/** `stacks.add` looks at it more closely. */
const Registration = Type.Unsafe<StackRegistration>(Type.Object({ name: Text }));

/** The methods, called at the local socket as `bridge.stacks.add` and so on. */
export function stackMethods(stacks: StacksApi): RpcTable {
  return {
    stacks: {
      add: extensionMethod({
        parameters: Type.Object(
          { registration: Registration, replaces: Type.Optional(Type.Boolean()), ...ownerField },
          strict,
        ),
        args: (
          registration: StackRegistration,
          options?: StackOwner & { readonly replaces?: boolean },
        ) => ({ registration, ...options }),
        call: (_api, { registration, ...options }) => stacks.add(registration, options),
        audit: {
          action: 'stack.add',
          done: ({ registration: { name } }, stack) => ({
            what: String(name),
            on: minionsOfStack(stack),
          }),
          failed: ({ registration: { name } }) => ({ what: String(name) }),
        },
      }),
      list: extensionMethod({
        parameters: Type.Object(ownerField, strict),
        call: (_api, p) => stacks.list(p),
      }),
      show: extensionMethod({
        parameters: Which,
        call: (_api, { name, ...of }) => stacks.show(name, of),
      }),
      remove: extensionMethod({
        parameters: Which,
        args: (name: string, of?: StackOwner) => ({ name, ...of }),
        call: (_api, { name, ...of }) => stacks.remove(name, of),
        audit: {
          action: 'stack.remove',
          done: ({ name }, stack) => ({ what: name, on: minionsOfStack(stack) }),
          failed: ({ name }) => ({ what: name }),
        },
      }),
    },
  };
}
