/** APIs of registered stacks, for programs and the local socket, with audit records. */

import Type, { type Static } from 'typebox';
import { listOf, type OutboxEntry, type RegistrationsApi, registrationMethods } from '#heat-bridge';
import type { RpcTable } from '#master';
import { Texts } from '#store';
import type { DeploymentEnd } from '../run-result.ts';
import type { DeploymentRecord } from './deployment-records.ts';
import { type StackInfo, type StackRegistration, StackSchema } from './stacks.ts';

const Text = Type.String();

/** Deployment, without inputs, outputs and secrets. */
const DeploymentSchema = Type.Object({
  id: Text,
  server: Text,
  minion: Text,
  name: Text,
  action: Type.Optional(Text),
  command: Type.Optional(Text),
  /** State of the deployment. `signalling`: the result has not reached Heat yet. */
  state: Type.Enum(['done', 'running', 'signalling']),
  end: Type.Optional(Type.Unsafe<DeploymentEnd>(Text)),
  reason: Type.Optional(Text),
  /** Time at which the deployment started, in milliseconds since 1970. */
  begunAt: Type.Integer(),
  endedAt: Type.Optional(Type.Integer()),
});

/** Deployment, without inputs, outputs and secrets. */
export type DeploymentInfo = Readonly<Static<typeof DeploymentSchema>>;

/** Signal for which no handle is registered. */
const UnclaimedSchema = Type.Object({
  id: Text,
  alias: Text,
  minion: Text,
  member: Type.Optional(Text),
  /** State: `held` until a handle is registered, or `dead` if none was registered in time. */
  state: Type.Enum(['dead', 'held']),
  acceptedAt: Type.Integer(),
  reason: Type.Optional(Text),
});

/** Signal for which no handle is registered. */
export type UnclaimedSignal = Readonly<Static<typeof UnclaimedSchema>>;

/** Registered stack, its current servers, and its latest deployments. */
export const StackDetailsSchema = Type.Object({
  ...StackSchema.properties,
  followed: listOf(
    Type.Object({
      server: Text,
      serverId: Text,
      minion: Type.Optional(Text),
      /** Time of the last read, in milliseconds since 1970. */
      readAt: Type.Optional(Type.Integer()),
      /** Reason why the server's metadata could not be read, or why its next deployment waits. */
      problem: Type.Optional(Text),
      warnings: Type.Optional(Texts),
    }),
  ),
  /** Deployments, the oldest first; at most 1,000. */
  deployments: Type.Unsafe<readonly DeploymentInfo[]>(Type.Array(DeploymentSchema)),
  /**
   * Signals that the stack's minions sent although no handle is registered for these signals. At
   * most the 1,000 latest, the oldest first.
   */
  unclaimed: Type.Unsafe<readonly UnclaimedSignal[]>(Type.Array(UnclaimedSchema)),
});

/** Registered stack, its current servers, and its latest deployments. */
export type StackDetails = Readonly<Static<typeof StackDetailsSchema>>;

/**
 * API of the stacks whose software deployments the bridge runs. Services that are not listed under
 * `handles: endpoints` are not contacted; `unlisted` names them. If a stack is removed, its jobs on
 * minions continue, but Heat does not receive their results.
 */
export type StacksApi = RegistrationsApi<StackRegistration, StackInfo, StackDetails>;

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

/**
 * Returns the minions in the registration of a stack: those that it lists, and those of its
 * servers.
 */
export function minionsOfRegistration({
  minions = [],
  servers = [],
}: Pick<StackRegistration, 'minions' | 'servers'>): readonly string[] {
  return [...new Set([...minions, ...servers.flatMap(({ minion }) => minion ?? [])])];
}

/** Returns the minions that a stack names. */
function minionsOfStack({ minions, servers }: StackInfo): readonly string[] {
  return minionsOfRegistration({
    minions,
    servers: servers.map(({ server, minion }) =>
      minion === undefined ? { server } : { server, minion },
    ),
  });
}

/** Returns the RPC methods, called on the local socket as `bridge.stacks.add` and so on. */
export function stackMethods(stacks: StacksApi): RpcTable {
  return {
    stacks: registrationMethods(stacks, {
      subject: 'stack',
      key: 'name',
      detailsOf: (stack) => ({ on: minionsOfStack(stack) }),
    }),
  };
}
