/** Commands at the local socket, for the command line: whoever may use it may do everything. */
import Type from '#typebox';
import { extensionMethod, type RpcMethod } from '../../master/index.ts';
import type { WireMap, WireValue } from '../../minion-protocol/index.ts';
import type { Parameters } from '../catalog/argument-values.ts';
import type { CommandApi } from './command-api.ts';
import type { CommandCaller, CommandHandle, CommandUpdate } from './request.ts';

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 65_536 });
const Run = Type.Object(
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

/** What the first item of a run says of it. */
export interface BegunRun {
  readonly type: 'begun';
  readonly id: string;
  readonly minions: readonly string[];
  readonly isRepeated: boolean;
}

/** By name; called as `bridge.<name>`. */
export function commandMethods(api: CommandApi): ReadonlyMap<string, RpcMethod> {
  return new Map([
    [
      'commands',
      extensionMethod({ parameters: Type.Object({}, strict), call: async () => api.list() }),
    ],
    [
      'command',
      extensionMethod({
        parameters: Type.Object({ name: Text }, strict),
        call: async (_master, { name }) => api.show(name),
      }),
    ],
    [
      'run',
      extensionMethod({
        parameters: Run,
        call: async function* (
          _master,
          { command, tgt, tgtType, params, token, service, ...rest },
          end,
        ) {
          const target = { tgt, ...(tgtType === undefined ? {} : { tgtType }) };
          const caller = callerOf(token, service);
          // JSON, as it came.
          const given = (params ?? {}) as Readonly<Record<string, WireValue>> as Parameters;
          const handle = await api.run(command, { ...rest, target, caller, params: given });
          yield* told(handle, end);
        },
      }),
    ],
  ]);
}

/** The first item of a run. */
export function begunRun({ id, minions, isRepeated }: CommandHandle): BegunRun {
  return { type: 'begun', id, minions, isRepeated };
}

/** The operator, where nobody else is named. */
export function callerOf(token: string | undefined, service: string | undefined): CommandCaller {
  if (token !== undefined) return { token };
  return service === undefined ? 'local' : { kind: 'service', name: service };
}

/** Who reads no more leaves the run to itself. */
async function* told(
  handle: CommandHandle,
  end: AbortSignal,
): AsyncGenerator<BegunRun | CommandUpdate, void, void> {
  yield begunRun(handle);
  for await (const update of handle.updates()) {
    if (end.aborted) return;
    yield update;
  }
}
