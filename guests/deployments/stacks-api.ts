/** Interfaces to registered stacks: for programs, at the local socket, with audit records. */

import Type, { type Static } from 'typebox';
import { listOf, type OutboxEntry, type RegistrationsApi, registrationMethods } from '#heat-bridge';
import type { RpcTable } from '#master';
import { Texts } from '#store';
import type { DeploymentEnd } from '../run-result.ts';
import type { DeploymentRecord } from './deployment-records.ts';
import { type StackInfo, type StackRegistration, StackSchema } from './stacks.ts';

const Text = Type.String();

/** A deployment, without inputs, outputs and secrets. */
const DeploymentSchema = Type.Object({
  id: Text,
  server: Text,
  minion: Text,
  name: Text,
  action: Type.Optional(Text),
  command: Type.Optional(Text),
  /** `running`, `signalling` (Heat has no result yet) or `done`. */
  state: Type.Enum(['done', 'running', 'signalling']),
  end: Type.Optional(Type.Unsafe<DeploymentEnd>(Text)),
  reason: Type.Optional(Text),
  /** Milliseconds since 1970. */
  begunAt: Type.Integer(),
  endedAt: Type.Optional(Type.Integer()),
});

/** A deployment, without inputs, outputs and secrets. */
export type DeploymentInfo = Readonly<Static<typeof DeploymentSchema>>;

/** A signal for which no handle is registered. */
const UnclaimedSchema = Type.Object({
  id: Text,
  alias: Text,
  minion: Text,
  member: Type.Optional(Text),
  /** `held` until a handle is registered; `dead`: it was given up. */
  state: Type.Enum(['dead', 'held']),
  acceptedAt: Type.Integer(),
  reason: Type.Optional(Text),
});

/** A signal for which no handle is registered. */
export type UnclaimedSignal = Readonly<Static<typeof UnclaimedSchema>>;

/** A registered stack, its servers now, and its latest deployments. */
export const StackDetailsSchema = Type.Object({
  ...StackSchema.properties,
  followed: listOf(
    Type.Object({
      server: Text,
      serverId: Text,
      minion: Type.Optional(Text),
      /** Time of the last read, in milliseconds since 1970. */
      readAt: Type.Optional(Type.Integer()),
      /** Reason for which it could not be read, or for which its next deployment waits. */
      problem: Type.Optional(Text),
      warnings: Type.Optional(Texts),
    }),
  ),
  /** The oldest first; at most 1,000. */
  deployments: Type.Unsafe<readonly DeploymentInfo[]>(Type.Array(DeploymentSchema)),
  /** Signals of its minions for which no handle was registered; the oldest first, at most 1,000. */
  unclaimed: Type.Unsafe<readonly UnclaimedSignal[]>(Type.Array(UnclaimedSchema)),
});

/** A registered stack, its servers now, and its latest deployments. */
export type StackDetails = Readonly<Static<typeof StackDetailsSchema>>;

/**
 * Stacks whose software deployments the bridge runs. Services that are not listed under `handles:
 * endpoints` are not asked: `unlisted` names them. If a stack is removed, what runs on minions ends
 * by itself, and Heat is not told.
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

/** The methods, called at the local socket as `bridge.stacks.add` and so on. */
export function stackMethods(stacks: StacksApi): RpcTable {
  return {
    stacks: registrationMethods(stacks, {
      subject: 'stack',
      key: 'name',
      detailsOf: (stack) => ({ on: minionsOfStack(stack) }),
    }),
  };
}
