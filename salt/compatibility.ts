/**
 * The compatibility table of Salt's runners, wheel functions, template functions, filters, options,
 * target types and exit codes. Each row shows whether this master serves the element, serves it
 * differently, or rejects it. Tables in docs/compatibility/ are generated from it, and error
 * messages contain its texts.
 */

import { optionStatuses } from '#config';
import { targetTypeRows } from '#minion-protocol';
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
import { timeFunctions } from './render/time-functions.ts';
import { insteadOfFunction, unservedFunctions } from './render/unserved-functions.ts';

type CallKind = 'runner' | 'wheel' | 'function' | 'filter';

/** Kind of an element of Salt, for example a runner, an option or an exit code. */
export type CompatibilityKind = CallKind | 'option' | 'target type' | 'exit code';

/** An element of Salt and its status in this master. */
export interface CompatibilityRow {
  readonly kind: CompatibilityKind;
  readonly name: string;
  readonly status: 'served' | 'different' | 'refused';
  /**
   * For `different`, the difference from Salt. For `refused`, the reason, with an alternative.
   * Empty for `served`.
   */
  readonly text: string;
}

/** Names of the runners and wheel functions of a running master. */
export interface ServedFunctions {
  readonly runners: ReadonlySet<string>;
  readonly wheel: ReadonlySet<string>;
}

const pythonModules =
  'returns `[]` if the file roots contain no such modules; otherwise fails and lists their names';
const aboutMinion =
  'compares with the minion whose pillar is compiled; in Salt, with the master unless minion_id is given. An expression with lookaround or back-references is an error';
const closedRunners = 'in pillar, only read-only runners; if the runner fails, the rendering fails';

/**
 * Differences from Salt, as printed in docs/compatibility/, by kind and then by name or `module.*`.
 */
const differences: Readonly<Record<CallKind, Readonly<Record<string, string>>>> = {
  runner: {
    'jobs.master':
      'lists only runners of this process, with itself as in Salt 3008; up to Salt 3007, the list is empty for runners of salt-run',
    'manage.versions':
      'compares minions with releases 3000 to 3008; `Master` is the version of saltbridge',
    'salt.cmd':
      'calls only functions that templates may call; the only grain is id; a result is at most 1 MiB',
    'saltutil.*': pythonModules,
    'state.event':
      'count is required; returns all lines at the end, after an hour at most; only local callers may use it',
    'state.soft_kill': 'fails if no orchestration runs with this jid',
  },
  wheel: {
    'file_roots.find': 'after links are resolved, files outside the root are rejected',
    'file_roots.read':
      'after links are resolved, files outside the root are rejected; text is UTF-8, up to 16 MiB',
    'file_roots.write':
      'after links are resolved, paths outside the root are rejected; text up to 16 MiB',
  },
  function: {
    'config.get':
      'options that minions may not read are refused; options that saltbridge does not support are not read',
    'config.option': "without wildcard and without Salt's defaults for modules",
    'cp.get_file_str': 'only files below salt://',
    'match.*': aboutMinion,
    'mine.get': 'returns values of the mine; in Salt, the result is always empty on a master',
    'pillar.ext':
      'only the modules minion_files and minion_http, if on_demand_ext_pillar lists them; others are refused, and Salt omits them',
    'pillar.file_exists': 'only in pillar; paths outside the roots are rejected',
    'saltutil.cmd': 'only in orchestrations; without batch and ssh',
    'saltutil.runner': closedRunners,
    'saltutil.wheel': 'only in orchestrations',
    'test.sleep': 'only in orchestrations; an hour at most',
    'slsutil.renderer': 'only files below salt://; only the renderers jinja, yaml and json',
  },
  filter: {},
};

/** The part of the compatibility table that concerns templates. */
export interface TemplateCompatibility {
  /** Functions that templates of pillar or of orchestrations may call. */
  readonly functions: ReadonlySet<string>;
  /** Returns the reason why a function is refused, with an alternative if there is one. */
  readonly insteadOf: (fun: string) => string;
  /** Reasons why filters of Salt are refused, by filter. */
  readonly filterRefusals: ReadonlyMap<string, string>;
}

/** Returns the part of the compatibility table that concerns templates. */
export function templateCompatibility(): TemplateCompatibility {
  return {
    functions: new Set(templateFunctionNames()),
    insteadOf: insteadOfFunction,
    filterRefusals,
  };
}

/**
 * Returns the sorted names of all functions that templates of pillar or of orchestrations may call.
 */
function templateFunctionNames(): readonly string[] {
  const grains = new TracedGrains({}, new GrainReads());
  const setting = { pillar: new Map(), raisesOnMissing: false, masterOptions: {} };
  const noFiles = new PillarSources({
    backend: servedFiles(new FileServer([])),
    trimBlocks: false,
    lstripBlocks: false,
  });
  const unreachable = async (): Promise<never> => {
    throw new TypeError(
      'internal error: this function table only lists names and cannot run a runner',
    );
  };
  const tables = [
    saltFunctions({ grains, setting }),
    matchFunctions({ id: '', grains, nodegroups: {} }),
    randomFunctions(() => {}),
    timeFunctions(() => new Date(0)),
    fileFunctions(noFiles, 'base'),
    pillarCalls({ runRunner: unreachable, log: () => {} }),
  ];
  const names = tables.flatMap((table) => Object.keys(table));
  const others = [...orchestrationCalls, 'pillar.ext', 'pillar.file_exists', 'slsutil.renderer'];
  return [...new Set([...names, ...others])].sort();
}

/** Exit codes of `salt`, `salt-cp`, `salt-key` and `salt-run`, with their differences from Salt. */
const exitCodes: readonly Omit<CompatibilityRow, 'kind'>[] = [
  { name: '0', status: 'served', text: '' },
  { name: '1', status: 'served', text: '' },
  { name: '2', status: 'served', text: '' },
  { name: '42', status: 'served', text: '' },
  {
    name: '64',
    status: 'different',
    text: 'also for words of salt-key that belong to no option; Salt ignores them',
  },
  { name: '69', status: 'different', text: 'no master runs; Salt ends with 67 or 2' },
  {
    name: '77',
    status: 'different',
    text: 'the account has no permission (Salt: 67 or 2), or a log-in fails (Salt: 0, or 2 if salt does not support the eauth)',
  },
  { name: '78', status: 'different', text: 'the configuration is not valid; Salt ends with 1' },
];

/**
 * Returns all rows of the compatibility table, grouped by kind.
 * @param served - runners and wheel functions that this master has
 */
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
    ...optionStatuses().map((row): CompatibilityRow => ({ kind: 'option', ...row })),
    ...targetTypeRows.map((row): CompatibilityRow => ({ kind: 'target type', ...row })),
    ...exitCodes.map((row): CompatibilityRow => ({ kind: 'exit code', ...row })),
  ];
}

function rowsOf(
  kind: CallKind,
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

/**
 * Returns the Markdown table of one kind of elements. For filters, it lists the refused ones. For
 * options, target types and exit codes, it lists those that differ from Salt, and states how many
 * are supported unchanged. For all other kinds, it lists modules.
 */
function compatibilityTable(rows: readonly CompatibilityRow[], kind: CompatibilityKind): string {
  const own = rows.filter((row) => row.kind === kind);
  const lines = linesOf(kind, own);
  return `${lines.join('\n')}\n`;
}

function linesOf(kind: CompatibilityKind, rows: readonly CompatibilityRow[]): string[] {
  switch (kind) {
    case 'filter':
      return filterLines(rows);
    case 'option':
    case 'target type':
    case 'exit code':
      return statusLines(kind, rows);
    default:
      return moduleLines(rows);
  }
}

/**
 * Returns the lines of a table with the elements that differ from Salt. A sentence with the number
 * of unchanged elements precedes the table. Elements with the same text share a row.
 */
function statusLines(kind: CompatibilityKind, rows: readonly CompatibilityRow[]): string[] {
  const others = rows.filter(({ status }) => status !== 'served');
  const unchanged = rows.length - others.length;
  const list = kind === 'option' ? '' : ` (${namesOf(rows, 'served').join(', ')})`;
  return [
    `saltbridge supports ${unchanged} of ${rows.length} ${kind}s of Salt with Salt's meaning${list}.`,
    '',
    `| ${kind} | status | difference, or alternative |`,
    '|---|---|---|',
    ...(['different', 'refused'] as const).flatMap((status) =>
      byText(
        others.filter((row) => row.status === status),
        (name) => `\`${name}\``,
      ).map(([text, names]) => `| ${names} | ${status} | ${text} |`),
    ),
  ];
}

function namesOf(
  rows: readonly CompatibilityRow[],
  status: CompatibilityRow['status'],
): readonly string[] {
  return rows.filter((row) => row.status === status).map(({ name }) => `\`${name}\``);
}

function filterLines(rows: readonly CompatibilityRow[]): string[] {
  const refused = rows.filter(({ status }) => status === 'refused');
  return [
    `saltbridge supports ${rows.length - refused.length} of ${rows.length} filters.`,
    '',
    '| not served | why |',
    '|---|---|',
    ...byText(refused, (name) => `\`${name}\``).map(([text, names]) => `| ${names} | ${text} |`),
  ];
}

function moduleLines(rows: readonly CompatibilityRow[]): string[] {
  const modules = new Set(rows.map(({ name }) => name.split('.')[0] ?? ''));
  return [
    '| module | served | different from Salt | not served, with alternative |',
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

/** Kinds of the tables that are generated on each page, by path of the page in the repository. */
export const compatibilityPages: Readonly<Record<string, readonly CompatibilityKind[]>> = {
  'docs/compatibility/runners.md': ['runner'],
  'docs/compatibility/wheel.md': ['wheel'],
  'docs/compatibility/templates.md': ['function', 'filter'],
  'docs/compatibility/configuration.md': ['option'],
  'docs/compatibility/targets.md': ['target type'],
  'docs/compatibility/command-line.md': ['exit code'],
};

/**
 * Replaces the tables of the given kinds in a page, and the sentence above each table. Finds each
 * table by its header row.
 * @throws TypeError if the page does not contain a table of a kind
 */
export function withCompatibilityTables(
  page: string,
  rows: readonly CompatibilityRow[],
  kinds: readonly CompatibilityKind[],
): string {
  return kinds.reduce((text, kind) => {
    const table = compatibilityTable(rows, kind);
    const head = table.split('\n').find((line) => line.startsWith('|')) ?? '';
    const at = text.indexOf(`\n${head}\n`) + 1;
    if (at === 0)
      throw new TypeError(
        `the page has no table for the kind "${kind}"; add its header row: ${head}`,
      );
    const [sentence = ''] =
      /(?:(?:Of|saltbridge supports) \d.*\n\n)?$/.exec(text.slice(0, at)) ?? [];
    const rest = text.slice(at).replace(/^(?:\|.*\n)*/, '');
    return `${text.slice(0, at - sentence.length)}${table}${rest}`;
  }, page);
}
