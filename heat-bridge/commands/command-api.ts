/** Interfaces to named commands: for programs, at the local socket, and for reactions. */

import type { TObject, TOptional, TString } from 'typebox';
import Type from 'typebox';
import {
  type ExtensionHost,
  extensionMethod,
  extensionStream,
  inTime,
  type NamedCommands,
  type ReactionOutcome,
  type ReactionResult,
  type RpcTable,
} from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import { BridgeError, type BridgeErrorCode } from '../errors.ts';
import { callableCommands } from './callers.ts';
import { type Catalog, type CommandInfo, describeCommand } from './command-catalog.ts';
import type {
  CommandCaller,
  CommandHandle,
  CommandOutcome,
  CommandRequest,
  CommandUpdate,
} from './command-request.ts';
import type { CommandRunner } from './command-runner.ts';
import type { Parameters } from './parameters.ts';

/** Commands: what there is, and calls. */
export interface CommandApi {
  /** In the order of their names. */
  list(): readonly CommandInfo[];
  /** @throws BridgeError ERR_COMMAND_UNKNOWN */
  show(name: string): CommandInfo;
  /** See `Bridge.run`. */
  run(name: string, request: CommandRequest): Promise<CommandHandle>;
  /** See `Bridge.find`. */
  find(id: string, caller: CommandCaller): Promise<CommandHandle>;
}

export function createCommandApi(catalog: Catalog, runner: CommandRunner): CommandApi {
  return {
    list: () => catalog.list().map(describeCommand),
    show: (name) => describeCommand(catalog.get(name)),
    run: (name, request) => runner.run(name, request, { isCarried: true }),
    find: (id, caller) => runner.find(id, caller),
  };
}

// Commands at the local socket. Whoever may use it may do everything.

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 65_536 });
const RunParameters = Type.Object(
  {
    command: Text,
    tgt: Type.Union([Text, Type.Array(Text)]),
    tgtType: Type.Optional(Text),
    params: Type.Optional(Type.Unsafe<WireMap>(Type.Object({}))),
    idempotencyKey: Type.Optional(Text),
    project: Type.Optional(Text),
    /** Whoever it is of calls, and rules are asked. */
    token: Type.Optional(Text),
    /** This service calls, and rules are asked. */
    service: Type.Optional(Text),
  },
  strict,
);

/** Whoever is named sees what rules may permit them; otherwise all is listed. */
export const ListParameters: TObject<{
  token: TOptional<TString>;
  service: TOptional<TString>;
}> = Type.Object({ token: Type.Optional(Text), service: Type.Optional(Text) }, strict);

/** What the first item of a run says of it. */
export interface RunStarted {
  readonly type: 'begun';
  readonly id: string;
  readonly minions: readonly string[];
  readonly isRepeated: boolean;
}

/** By name; called as `bridge.<name>`. */
export function commandMethods(api: CommandApi, host: ExtensionHost): RpcTable {
  return {
    commands: extensionMethod({
      access: 'user',
      parameters: ListParameters,
      call: async (_master, { token, service }) => {
        const mayCall = await callableCommands(host, rpcCallerOf(token, service));
        return api.list().filter(({ name }) => mayCall(name));
      },
    }),
    command: extensionMethod({
      parameters: Type.Object({ name: Text }, strict),
      call: async (_master, { name }) => api.show(name),
    }),
    run: extensionStream({
      access: 'user',
      parameters: RunParameters,
      call: async function* (
        _master,
        { command, tgt, tgtType, params, token, service, ...rest },
        end,
      ) {
        const target = { tgt, ...(tgtType === undefined ? {} : { tgtType }) };
        const caller = rpcCallerOf(token, service);
        // JSON, as it came.
        const given = (params ?? {}) as Readonly<Record<string, WireValue>> as Parameters;
        const handle = await api.run(command, { ...rest, target, caller, params: given });
        yield* streamRun(handle, end);
      },
      audit: { action: 'job.publish', writtenBy: 'jobs' },
    }),
  };
}

/** The first item of a run. */
export function firstRunUpdate({ id, minions, isRepeated }: CommandHandle): RunStarted {
  return { type: 'begun', id, minions, isRepeated };
}

/** The operator, where nobody else is named. */
export function rpcCallerOf(token: string | undefined, service: string | undefined): CommandCaller {
  // protection: services-of-users
  if (token !== undefined) return { token };
  return service === undefined ? 'local' : { kind: 'service', name: service };
}

/** Who reads no more leaves the run to itself. */
async function* streamRun(
  handle: CommandHandle,
  end: AbortSignal,
): AsyncGenerator<RunStarted | CommandUpdate, void, void> {
  yield firstRunUpdate(handle);
  for await (const update of handle.updates()) {
    if (end.aborted) return;
    yield update;
  }
}

// Commands for reactions.

/** The job id of a reaction is its key: after a crash the same run is gone on with. */
export function createReactionCommands(runner: Pick<CommandRunner, 'run'>): NamedCommands {
  return {
    run: async ({ jid, caller, command, target, params }, deadline) => {
      try {
        // Whatever they are, the command's schema looks at them.
        // protection: commands-of-reactions
        const request = { target, params: params as Parameters, caller, idempotencyKey: jid };
        const { outcome } = await runner.run(command, request, { jid });
        const ended = await inTime(outcome, deadline);
        return ended === undefined ? { outcome: 'timeout' } : reactionResultOf(ended);
      } catch (error) {
        if (error instanceof BridgeError) return reactionRefusalOf(error);
        throw error;
      }
    },
  };
}

function reactionResultOf({ status, results }: CommandOutcome): ReactionResult {
  switch (status) {
    case 'succeeded':
    case 'timeout':
    case 'interrupted':
      return { outcome: status };
    case 'cancelled':
      return { outcome: 'failed', reason: 'it was cancelled' };
    case 'failed': {
      const failed = results.filter(({ state }) => state !== 'succeeded').length;
      return {
        outcome: 'failed',
        reason: `${failed} of ${results.length} minions did not succeed`,
      };
    }
  }
}

const reactionOutcomes: Partial<Readonly<Record<BridgeErrorCode, ReactionOutcome>>> = {
  ERR_COMMAND_BUSY: 'failed',
  ERR_COMMAND_DENIED: 'denied',
  ERR_COMMAND_TARGET: 'nobody',
};

function reactionRefusalOf({ code, message }: BridgeError): ReactionResult {
  return { outcome: reactionOutcomes[code] ?? 'unusable', reason: message };
}
