/** Interfaces to registered stacks: for programs, at the local socket, with audit records. */

import { type RegistrationsApi, registrationMethods } from '#heat-bridge';
import type { RpcTable } from '#master';
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
}

/**
 * Stacks whose software deployments the bridge runs. Services that are not listed under `handles:
 * endpoints` are not asked: `unlisted` names them. If a stack is removed, what runs on minions ends
 * by itself, and Heat is not told.
 */
export type StacksApi = RegistrationsApi<StackRegistration, StackInfo, StackDetails>;

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
