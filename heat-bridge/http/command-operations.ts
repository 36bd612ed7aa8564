/** What routes of commands take and give. */
import type { Static, TSchema } from 'typebox';
import Type from '#typebox';
import { Compile } from '#typebox/compile';
import type { Parameters } from '../catalog/argument-values.ts';
import type { CommandRequest } from '../run/request.ts';
import { readForm } from './form.ts';
import { described, type Operation } from './operation.ts';

/** The `config` of a route. */
export interface Described {
  readonly openapi: Operation;
}

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 4096 });
const RunForm = Type.Object(
  {
    target: Type.Union([Text, Type.Array(Text, { minItems: 1, maxItems: 100_000 })]),
    targetType: Type.Optional(Text),
    params: Type.Optional(Type.Object({})),
    idempotencyKey: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
    project: Type.Optional(Type.String({ maxLength: 255 })),
    /** Milliseconds since 1970. */
    deadline: Type.Optional(Type.Number({ minimum: 0 })),
  },
  strict,
);
const runForm = Compile(RunForm);

/** @throws BridgeError ERR_COMMAND_PARAMETERS, without a value */
export function readRun(body: unknown): CommandRequest {
  const { target, targetType, params, ...rest }: Static<typeof RunForm> = readForm(runForm, body);
  const tgtType = targetType ?? (typeof target === 'string' ? 'glob' : 'list');
  // JSON, as it came; the command's schema looks at it.
  return { ...rest, target: { tgt: target, tgtType }, params: (params ?? {}) as Parameters };
}

const word: TSchema = Type.String();
const texts: TSchema = Type.Array(word);
const Command = Type.Object({
  name: word,
  description: word,
  version: Type.Integer(),
  function: word,
  state: Type.Optional(word),
  standing: Type.Union(['reviewed', 'unsafe', 'unknown'].map((it) => Type.Literal(it))),
  parameters: Type.Unknown(),
  secret: texts,
  timeout: Type.Number(),
  retries: Type.Integer(),
  idempotent: Type.Boolean(),
  concurrency: Type.Object({}),
  returns: Type.Optional(Type.Unknown()),
  deprecated: Type.Optional(word),
});
const resultStates = ['succeeded', 'failed', 'silent', 'reconnecting', 'unfinished'];
/** What became of a command at a minion. */
export const RunResult: TSchema = Type.Object({
  minion: word,
  state: Type.Union(resultStates.map((it) => Type.Literal(it))),
  return: Type.Optional(Type.Unknown()),
  retcode: Type.Optional(Type.Unknown()),
  reason: Type.Optional(word),
});
const Outcome = Type.Object({
  id: word,
  command: word,
  status: Type.Union(
    ['succeeded', 'failed', 'timeout', 'cancelled', 'interrupted'].map((it) => Type.Literal(it)),
  ),
  results: Type.Array(RunResult),
  jids: texts,
});
/** One line of a run. */
const Told = Type.Union([
  Type.Object({
    type: Type.Literal('begun'),
    id: word,
    minions: texts,
    isRepeated: Type.Boolean(),
  }),
  Type.Object({
    type: Type.Union([Type.Literal('published'), Type.Literal('running')]),
    jid: word,
    minions: texts,
  }),
  Type.Object({ type: Type.Literal('result'), jid: word, result: RunResult }),
  Type.Object({ type: Type.Literal('outcome'), outcome: Outcome }),
  Type.Object({ type: Type.Literal('error'), code: word, message: word }),
]);
const lines = { answer: Told, answerTypes: ['application/x-ndjson'] } as const;

/** Of each route, what it is. */
export const commandOperations: Readonly<
  Record<'list' | 'show' | 'run' | 'follow' | 'cancel', Described>
> = {
  list: described({
    summary: 'The commands of the catalog',
    answer: Type.Object({ commands: Type.Array(Command) }),
  }),
  show: described({ summary: 'One command', answer: Command }),
  run: described({
    summary: 'Calls a command; with Prefer: respond-async (202) only its beginning is told',
    body: RunForm,
    ...lines,
  }),
  follow: described({ summary: "What a run of the caller's tells, from its beginning", ...lines }),
  cancel: described({ summary: "Ends a run of the caller's", answer: Outcome }),
};
