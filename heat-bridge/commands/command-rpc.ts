/** Commands at the local socket. A client of the socket may do everything. */

import Type, { type TObject, type TOptional, type TString } from 'typebox';
import { type ExtensionHost, extensionMethod, extensionStream, type RpcTable } from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import { callableCommands } from './callers.ts';
import type { CommandApi } from './command-api.ts';
import type { CommandCaller, CommandHandle, CommandUpdate } from './command-request.ts';
import type { Parameters } from './parameters.ts';

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
export function firstRunUpdate({ id, minions, missing, isRepeated }: CommandHandle): RunStarted {
  return { type: 'begun', id, minions, missing, isRepeated };
}

/** The operator, where nobody else is named. */
export function rpcCallerOf(token: string | undefined, service: string | undefined): CommandCaller {
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
