/** Commands at the local socket. A client of the socket may do everything. */

import Type from 'typebox';
import { type ExtensionHost, extensionMethod, extensionStream, type RpcTable } from '#master';
import { callableCommands } from './callers.ts';
import type { CommandApi } from './command-api.ts';
import type { CommandCaller, CommandHandle } from './command-request.ts';
import type { Parameters } from './parameters.ts';

const strict = { additionalProperties: false };

export const Text = Type.String({ minLength: 1, maxLength: 65_536 });

/** Caller of a method, for whom rules decide. Default: the operator. */
export const callerParameters = {
  /** Token of the caller. */
  token: Type.Optional(Text),
  /** Name of a service that calls. */
  service: Type.Optional(Text),
};

/** Parameters of a run, of a command or a plan. */
export const runParameters = {
  // JSON, as it came; the schema of the command checks it.
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

/** If a caller is named, only what rules may permit it is listed. */
export const ListParameters = Type.Object(callerParameters, strict);

/** What the first item of a run says of it. */
export interface RunStarted {
  readonly type: 'begun';
  readonly id: string;
  readonly minions: readonly string[];
  /** Names in the target that the command is not sent to. */
  readonly missing: readonly string[];
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

/** The first item of a run. */
export function firstRunUpdate({ id, minions, missing, isRepeated }: CommandHandle): RunStarted {
  return { type: 'begun', id, minions, missing, isRepeated };
}

/** The operator, where nobody else is named. */
export function rpcCallerOf(token: string | undefined, service: string | undefined): CommandCaller {
  if (token !== undefined) return { token };
  return service === undefined ? 'local' : { kind: 'service', name: service };
}

/** Streams a run behind its first item. The run continues without its reader. */
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
