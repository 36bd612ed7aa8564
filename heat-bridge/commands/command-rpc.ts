/** RPC methods of commands on the local socket, whose clients have all rights. */

import Type from 'typebox';
import { type ExtensionHost, extensionMethod, extensionStream, type RpcTable } from '#master';
import { callableCommands } from './callers.ts';
import type { CommandApi } from './command-api.ts';
import { publicCommandInfo } from './command-info.ts';
import type { CommandCaller, CommandHandle } from './command-request.ts';
import type { Parameters } from './parameters.ts';

const strict = { additionalProperties: false };

export const Text = Type.String({ minLength: 1, maxLength: 65_536 });

/**
 * Parameters that name the caller. The rules for this caller then apply. Default: the operator, who
 * is exempt from rules.
 */
export const callerParameters = {
  /** Token that identifies the caller. */
  token: Type.Optional(Text),
  /** Name of the service that is the caller. */
  service: Type.Optional(Text),
};

/** Parameters of a run of a command or a plan. */
export const runParameters = {
  // Unparsed parameters. The schema of the command validates them.
  params: Type.Optional(Type.Unsafe<Parameters>(Type.Object({}))),
  idempotencyKey: Type.Optional(Text),
  project: Type.Optional(Text),
  ...callerParameters,
};

const RunParameters = Type.Object(
  {
    command: Text,
    tgt: Type.Union([Text, Type.Array(Text)]),
    tgtType: Type.Optional(Text),
    ...runParameters,
  },
  strict,
);

/**
 * Parameters of methods that return lists. If they name a caller, the list contains only commands
 * or plans that rules can permit to this caller.
 */
export const ListParameters = Type.Object(callerParameters, strict);

/** First item in the stream of updates of a run. */
export interface RunStarted {
  readonly type: 'begun';
  readonly id: string;
  readonly minions: readonly string[];
  /** Minion ids in the target's list that do not receive the command. */
  readonly missing: readonly string[];
  readonly isRepeated: boolean;
}

/** Returns the RPC methods of commands: `bridge.<name>`. */
export function commandMethods(api: CommandApi, host: ExtensionHost): RpcTable {
  return {
    commands: extensionMethod({
      access: 'user',
      parameters: ListParameters,
      call: async (_master, { token, service }) => {
        const mayCall = await callableCommands(host, rpcCallerOf(token, service));
        const shown = api.list().filter(({ name }) => mayCall(name));
        return token === undefined ? shown : shown.map(publicCommandInfo);
      },
    }),
    command: extensionMethod({
      parameters: Type.Object({ name: Text }, strict),
      call: async (_master, { name }) => api.show(name),
    }),
    run: extensionStream({
      access: 'user',
      parameters: RunParameters,
      call: async function* (_master, { command, tgt, tgtType, token, service, ...rest }, end) {
        const target = { tgt, ...(tgtType === undefined ? {} : { tgtType }) };
        const caller = rpcCallerOf(token, service);
        const handle = await api.run(command, { ...rest, target, caller });
        yield* streamRun(handle, firstRunUpdate(handle), end);
      },
      audit: { action: 'job.publish', writtenBy: 'jobs' },
    }),
  };
}

/** Returns the first item in the stream of updates of a run. */
export function firstRunUpdate({ id, minions, missing, isRepeated }: CommandHandle): RunStarted {
  return { type: 'begun', id, minions, missing, isRepeated };
}

/** Returns the caller of a method: the operator if neither a token nor a service is given. */
export function rpcCallerOf(token: string | undefined, service: string | undefined): CommandCaller {
  if (token !== undefined) return { token };
  return service === undefined ? 'local' : { kind: 'service', name: service };
}

/**
 * Yields the updates of a run. If the reader disconnects, the run continues.
 * @param first - item to yield before the updates
 */
export async function* streamRun<First, Update>(
  run: { updates(): AsyncIterable<Update> },
  first: First,
  end: AbortSignal,
): AsyncGenerator<First | Update, void, void> {
  yield first;
  for await (const update of run.updates()) {
    if (end.aborted) return;
    yield update;
  }
}
