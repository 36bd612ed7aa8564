/** Recorded orchestrations of Salt, and a master whose minions answer as recorded. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { type FunctionCall, type Master, parseArguments } from '#master';
import { isWireMap, type MinionFunction, type WireMap, type WireValue } from '#minion-protocol';
import { type FileTree, layOut } from '../../helpers/file-tree.ts';
import { startFleet } from '../../helpers/fleet.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

/** A recorded orchestration; see test/fixtures/orchestrate/README.md. */
export interface RecordedCase {
  readonly name: string;
  readonly call: { readonly fun: string; readonly args: readonly string[] };
  readonly files: Readonly<Record<string, string>>;
  readonly pillar?: Readonly<Record<string, string>>;
  /** Data of the events `salt/run/<jid>/args`. */
  readonly told?: readonly WireMap[];
  readonly returned: WireValue;
  readonly code: number;
}

interface RecordedAnswer {
  readonly minion: string;
  readonly fun: string;
  readonly arg: readonly WireValue[];
  readonly return: WireValue;
}

const fixture = new URL('../../../test/fixtures/orchestrate/cases.json', import.meta.url);

export const recorded: {
  readonly cases: readonly RecordedCase[];
  readonly answers: readonly RecordedAnswer[];
} = JSON.parse(readFileSync(fixture, 'utf8'));

/** Returns the environment of a case. Each case has its own, so that one master can serve all. */
function environmentOf({ name }: RecordedCase): string {
  return `env-${name.replace(/\W/g, '-')}-vne`;
}

function inEnvironment(files: FileTree, environment: string): FileTree {
  return Object.fromEntries(
    Object.entries(files).map(([name, text]) => [
      name,
      String(text).replaceAll('base', environment),
    ]),
  );
}

/** Starts a master with the files of all cases, and the minions `m1` and `m2`. */
export async function startRecorded(t: ExecutionContext): Promise<Master> {
  const directory = temporaryDirectory(t);
  const fileRoots: Record<string, string[]> = { base: [] };
  const pillarRoots: Record<string, string[]> = { base: [] };
  for (const it of recorded.cases) {
    const environment = environmentOf(it);
    const states = path.join(directory, environment, 'states');
    layOut(states, inEnvironment(it.files, environment));
    fileRoots[environment] = [states];
    if (it.pillar === undefined) continue;
    const pillar = path.join(directory, environment, 'pillar');
    layOut(pillar, inEnvironment(it.pillar, environment));
    pillarRoots[environment] = [pillar];
  }
  const { master } = await startFleet(t, {
    ids: ['m1', 'm2'],
    functions: answering(),
    grains: { role: 'test' },
    config: { id: 'north_master', fileRoots, pillarRoots, pillarenv: 'base' },
  });
  return master;
}

/** Returns functions that give the recorded returns for the recorded arguments. */
function answering(): Record<string, MinionFunction> {
  const functions: Record<string, MinionFunction> = {};
  for (const fun of new Set(recorded.answers.map((answer) => answer.fun))) {
    if (fun === 'nope.nothing') continue;
    const known = recorded.answers.filter((answer) => answer.fun === fun);
    functions[fun] = ({ args, kwargs }, { id }) => {
      const arg =
        Object.keys(kwargs).length === 0 ? args : [...args, { __kwarg__: true, ...kwargs }];
      const asked = asText(arg);
      const found = known.find((answer) => answer.minion === id && asText(answer.arg) === asked);
      if (found === undefined) throw new Error(`nobody asked ${id} for ${fun} ${asked}`);
      return found.return;
    };
  }
  return functions;
}

/** Converts a value to text. The order of keys does not matter. */
function asText(value: unknown): string {
  return JSON.stringify(inBase(sorted(value)));
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, inner]) => [key, sorted(inner)]),
  );
}

/** Returns the call that Salt's command line makes. */
export function callOf(it: RecordedCase): FunctionCall {
  const { arg, kwarg } = parseArguments(it.call.args);
  const environment = environmentOf(it);
  const pillarenv = it.pillar === undefined ? {} : { pillarenv: environment };
  const place = { saltenv: environment, ...pillarenv, ...kwarg };
  return { fun: it.call.fun, arg, kwarg: it.call.fun.endsWith('single') ? kwarg : place };
}

function inBase(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value).replaceAll(/env-[\w-]+?-vne/g, 'base'));
}

/** Removes values that differ in each run, and texts in which the implementations differ. */
export function comparable(value: unknown): unknown {
  return inBase(withoutTimes(value));
}

const times: ReadonlySet<string> = new Set(['start_time', 'duration']);

function withoutTimes(value: unknown): unknown {
  if (typeof value === 'string') return comparableText(value);
  if (Array.isArray(value)) return value.map(withoutTimes);
  if (value instanceof Map) return withoutTimes(Object.fromEntries(value));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => !times.has(key))
      .map(([key, inner]) => [key, withoutTimes(inner)]),
  );
}

/** Texts of Salt about its internals, with our texts. */
const otherWords: ReadonlyMap<string, string> = new Map([
  ["KeyError: 'nope.nothing'", "'nope.nothing' is not available."],
  ['The following keyword arguments are not valid: nonsense=1', 'unknown argument nonsense'],
]);

function comparableText(text: string): string {
  const [start, reason = ''] = text.split(/(?<=^An exception occurred in this state: )/);
  return `${start}${otherWords.get(reason) ?? reason}`
    .replaceAll(/\b20\d{18}\b/g, '<jid>')
    .replace(/seen in [\d.e-]+ seconds/, 'seen in <n> seconds')
    .replace(/^(Rendering SLS '[^']*' failed): .*$/s, '$1')
    .replaceAll(/(on minions: |ran on |Updating |made to )(m2, m1)/g, '$1m1, m2');
}

/** Removes members of the published arguments that only Salt's own client needs. */
export function comparableTold({ _stamp, ...data }: WireMap): unknown {
  const { args } = data;
  if (!isWireMap(args)) return comparable(data);
  const { _cmd_meta, ssh, ...rest } = args;
  return comparable({ ...data, args: rest });
}
