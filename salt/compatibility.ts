/**
 * The compatibility table: what of Salt's runners, wheel functions, functions of templates and
 * filters is served, other than in Salt, or refused. docs/compatibility.md is generated from it, and
 * refusals print the same texts.
 */

import { filterRefusals, filters } from '#template';
import { FileServer } from './file-trees/file-server.ts';
import { servedFiles } from './file-trees/served-files.ts';
import { insteadOfRunner, insteadOfWheel, saltRunners, saltWheels } from './not-served.ts';
import { orchestrationCalls } from './orchestrate/template-calls.ts';
import { pillarCalls } from './pillar/pillar-calls.ts';
import { fileFunctions } from './render/file-functions.ts';
import { GrainReads, TracedGrains } from './render/grains.ts';
import { matchFunctions } from './render/match-functions.ts';
import { PillarSources } from './render/pillar-sources.ts';
import { randomFunctions } from './render/random-functions.ts';
import { saltFunctions } from './render/template-functions.ts';
import { insteadOfFunction, unservedFunctions } from './render/unserved-functions.ts';

/** Kinds of rows, in the order of the document. */
const compatibilityKinds = ['runner', 'wheel', 'function', 'filter'] as const;

type CompatibilityKind = (typeof compatibilityKinds)[number];

/** One element of Salt, and how this master serves it. */
export interface CompatibilityRow {
  readonly kind: CompatibilityKind;
  readonly name: string;
  readonly status: 'served' | 'different' | 'refused';
  /** How it differs, or why it is refused and what to use; empty where it is served. */
  readonly text: string;
}

/** The runners and wheel functions of a running master. */
export interface ServedFunctions {
  readonly runners: ReadonlySet<string>;
  readonly wheel: ReadonlySet<string>;
}

const pythonModules =
  '`[]` where the file roots have no such modules, else refused with their names';
const aboutMinion =
  'in pillar it is about the minion that the pillar is for; in Salt about the master, unless minion_id is given';
const closedRunners =
  'in pillar only for runners that read; a runner that fails ends the rendering';

/** Differences by kind and name, or by module with a dot and a star. */
const differences: Readonly<Record<CompatibilityKind, Readonly<Record<string, string>>>> = {
  runner: {
    'jobs.master': 'the runners of this process',
    'manage.versions': 'compares minions with the release of saltbridge',
    'salt.cmd': 'functions that templates have, no others; the only grain is id',
    'saltutil.*': pythonModules,
    'state.event':
      'count is needed; the lines are returned at the end, after an hour at the latest; for the local interface alone',
    'state.soft_kill': 'fails where no orchestration runs under the jid',
  },
  wheel: {
    'file_roots.find': 'no file outside of the root after every link',
    'file_roots.read': 'no file outside of the root after every link; text is UTF-8, up to 16 MiB',
    'file_roots.write': 'no place outside of the root after every link; text up to 16 MiB',
  },
  function: {
    'cp.get_file_str': 'files below salt:// only',
    'match.*': aboutMinion,
    'mine.get': 'what the mine holds; in Salt always empty on a master',
    'pillar.file_exists': 'in pillar only; no path leaves a root',
    'saltutil.cmd': 'in orchestrations only; without batch and ssh',
    'saltutil.runner': closedRunners,
    'saltutil.wheel': 'in orchestrations only',
    'slsutil.renderer': 'files below salt:// only; the renderers jinja, yaml and json',
  },
  filter: {},
};

/** Names of the functions that templates of pillar or orchestrations may call, sorted. */
export function templateFunctionNames(): readonly string[] {
  const grains = new TracedGrains({}, new GrainReads());
  const setting = { pillar: new Map(), raisesOnMissing: false, opts: {} };
  const noFiles = new PillarSources({
    backend: servedFiles(new FileServer([])),
    trimBlocks: false,
    lstripBlocks: false,
  });
  const unreachable = async (): Promise<never> => {
    throw new TypeError('only the names are asked for');
  };
  const tables = [
    saltFunctions({ grains, setting }),
    matchFunctions({ id: '', grains, nodegroups: {} }),
    randomFunctions(() => {}),
    fileFunctions(noFiles, 'base'),
    pillarCalls({ runRunner: unreachable, log: () => {} }),
  ];
  const names = tables.flatMap((table) => Object.keys(table));
  const others = [...orchestrationCalls, 'pillar.file_exists', 'slsutil.renderer'];
  return [...new Set([...names, ...others])].sort();
}

/** All rows, by kind and name. */
export function compatibilityRows(served: ServedFunctions): readonly CompatibilityRow[] {
  const functions = templateFunctionNames();
  const unserved = unservedFunctions.filter((name) => !functions.includes(name));
  return [
    ...rowsOf('runner', saltRunners, (name) =>
      served.runners.has(name) ? undefined : (insteadOfRunner(name) ?? ''),
    ),
    ...rowsOf('wheel', saltWheels, (name) =>
      served.wheel.has(name) ? undefined : (insteadOfWheel(name) ?? ''),
    ),
    ...rowsOf('function', [...functions, ...unserved], (name) =>
      functions.includes(name) ? undefined : insteadOfFunction(name),
    ),
    ...rowsOf('filter', filters.keys(), (name) => filterRefusals.get(name)),
  ];
}

function rowsOf(
  kind: CompatibilityKind,
  names: Iterable<string>,
  refusal: (name: string) => string | undefined,
): CompatibilityRow[] {
  return [...names].sort().map((name) => {
    const refused = refusal(name);
    if (refused !== undefined) return { kind, name, status: 'refused', text: refused };
    const table = differences[kind];
    const text = table[name] ?? table[`${name.split('.')[0]}.*`];
    return text === undefined
      ? { kind, name, status: 'served', text: '' }
      : { kind, name, status: 'different', text };
  });
}

/** The table of one kind as Markdown: a row for each module, or for each filter that is refused. */
function compatibilityTable(rows: readonly CompatibilityRow[], kind: CompatibilityKind): string {
  const own = rows.filter((row) => row.kind === kind);
  const lines = kind === 'filter' ? filterLines(own) : moduleLines(own);
  return `${lines.join('\n')}\n`;
}

function filterLines(rows: readonly CompatibilityRow[]): string[] {
  const refused = rows.filter(({ status }) => status === 'refused');
  return [
    `${rows.length - refused.length} of ${rows.length} filters are served.`,
    '',
    '| not served | why |',
    '|---|---|',
    ...byText(refused, (name) => `\`${name}\``).map(([text, names]) => `| ${names} | ${text} |`),
  ];
}

function moduleLines(rows: readonly CompatibilityRow[]): string[] {
  const modules = new Set(rows.map(({ name }) => name.split('.')[0] ?? ''));
  return [
    '| module | served | other than in Salt | not served, and what to use |',
    '|---|---|---|---|',
    ...[...modules].sort().map((module) => {
      const shown = (name: string): string =>
        name === module ? 'all others' : `\`${name.slice(module.length + 1)}\``;
      const own = rows.filter(({ name }) => name.split('.')[0] === module);
      const columns = (['served', 'different', 'refused'] as const).map((status) => {
        const found = own.filter((row) => row.status === status);
        const texts = byText(found, shown).map(([text, names]) =>
          text === '' ? names : `${names}: ${text}`,
        );
        return texts.join('; ') || '–';
      });
      return `| \`${module}\` | ${columns.join(' | ')} |`;
    }),
  ];
}

function byText(
  rows: readonly CompatibilityRow[],
  shown: (name: string) => string,
): [text: string, names: string][] {
  const groups = new Map<string, string[]>();
  for (const { name, text } of rows) groups.set(text, [...(groups.get(text) ?? []), shown(name)]);
  return Array.from(groups, ([text, names]) => [text, names.join(', ')]);
}

/** The page with its tables replaced, each between two comments that name its kind. */
export function withCompatibilityTables(page: string, rows: readonly CompatibilityRow[]): string {
  return compatibilityKinds.reduce((text, kind) => {
    const [begin, end] = [`<!-- table: ${kind} -->`, `<!-- end of table: ${kind} -->`];
    const [before, after] = [text.indexOf(begin), text.indexOf(end)];
    if (before === -1 || after < before) throw new TypeError(`the page has no table of ${kind}`);
    const head = text.slice(0, before + begin.length);
    return `${head}\n\n${compatibilityTable(rows, kind)}\n${text.slice(after)}`;
  }, page);
}
