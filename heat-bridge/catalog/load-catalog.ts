/**
 * Loads catalog files. Each file is a YAML map from names to commands. Plans are below the key
 * `plans`, and entries of extensions are below keys of the extensions.
 */

import { readFile } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import { placeOf, yamlLines } from '#config';
import { parseYaml } from '#master';
import { plainNumbers } from '#minion-protocol';
import type { ValuePath } from '#runtime';
import { Catalog } from '../commands/command-catalog.ts';
import {
  type CommandDefinition,
  catalogError,
  isPlainMap,
  parseCommandEntry,
} from '../commands/command-definition.ts';
import { BridgeError, CatalogError, type DefinitionMistake, describeMistake } from '../errors.ts';
import { compilePlan } from '../plans/plan-catalog.ts';
import { type PlanDefinition, parsePlanEntry } from '../plans/plan-definition.ts';
import { type LenientlyRead, readLeniently, valueAt } from '../read-leniently.ts';
import type { CatalogKindSource, EntriesOf } from './entry-kind.ts';
import { listYamlFiles } from './yaml-files.ts';

const maxFileBytes = 1_048_576;

/** Error in a catalog file. */
export interface CatalogFinding {
  readonly file: string;
  /** Line, starting at 1. 0 for the whole file. */
  readonly line: number;
  readonly problem: string;
}

/** Valid commands and plans of catalog files, and the errors in the invalid ones. */
export interface LoadedCatalog {
  readonly definitions: readonly CommandDefinition[];
  readonly plans: readonly PlanDefinition[];
  /** Returns the catalog entries of one kind, for example all entries of `deployments:`. */
  readonly entriesOf: EntriesOf;
  readonly findings: readonly CatalogFinding[];
}

/** Key of the plans in a catalog file. No command can have this name. */
const plansKey = 'plans';

/** Named entry of a file, before it is parsed. */
interface CatalogEntry {
  readonly file: CatalogFile;
  /** Keys that lead from the start of the file to the map with this entry. */
  readonly above: ValuePath;
  readonly name: string;
  readonly value: unknown;
}

/** Catalog file, parsed as YAML. */
interface CatalogFile {
  readonly file: string;
  readonly map: Readonly<Record<string, unknown>>;
  /** Returns the line of the value at a path, or of its nearest parent. */
  readonly lineOf: (path: ValuePath) => number;
}

/**
 * Loads catalog files. For a directory, loads the files `*.yaml` and `*.yml` in it, sorted by name.
 * @param known - commands that the embedding program defines; steps of plans may use them
 * @param kinds - kinds of entries to load besides commands and plans
 * @throws BridgeError ERR_CATALOG if one of the paths cannot be read
 */
export async function loadCatalog(
  places: readonly string[],
  known: readonly CommandDefinition[] = [],
  kinds: readonly CatalogKindSource[] = [],
): Promise<LoadedCatalog> {
  const findings: CatalogFinding[] = [];
  const commands: CatalogEntry[] = [];
  const plans: CatalogEntry[] = [];
  const others = new Map<string, CatalogEntry[]>(kinds.map(({ key }) => [key, []]));
  const files = (await Promise.all(places.map(listCatalogFiles))).flat();
  for (const file of files) {
    try {
      const read = await readCatalogFile(file);
      const sections = Object.entries(read.map);
      const isCommand = ([key]: [string, unknown]): boolean => key !== plansKey && !others.has(key);
      commands.push(...entriesOf(read, [], Object.fromEntries(sections.filter(isCommand))));
      const below = (key: string): CatalogEntry[] =>
        Object.hasOwn(read.map, key) ? entriesOf(read, [key], read.map[key]) : [];
      plans.push(...below(plansKey));
      for (const [key, list] of others) list.push(...below(key));
    } catch (error) {
      findings.push({ file, line: 0, problem: messageOf(error) });
    }
  }
  // Validate each command separately, so that an error in one does not hide errors in others.
  const definitions = parseEntries(
    commands,
    findings,
    parseCommandEntry,
    (one) => new Catalog([one]),
  );
  const catalog = new Catalog([...definitions, ...known.filter((it) => !isIn(definitions, it))]);
  const refused = new Set(
    commands.map(({ name }) => name).filter((name) => !isIn(definitions, { name })),
  );
  // Errors in invalid commands have already been reported. Report only errors that concern several
  // commands.
  const isReported = ({ problem }: DefinitionMistake, named: unknown): boolean =>
    problem.startsWith('no command') && typeof named === 'string' && refused.has(named);
  const read = parseEntries(
    plans,
    findings,
    parsePlanEntry,
    (one) => compilePlan(one, catalog),
    isReported,
  );
  const entries = new Map<string, readonly { readonly name: string }[]>();
  for (const { key, load } of kinds) {
    const written = others.get(key) ?? [];
    if (written.length === 0) continue;
    const kind = await load();
    const check = (one: { readonly name: string }): void => kind.check(one, catalog);
    const parse: typeof kind.parse = (name, value) => kind.parse(name, plainNumbers(value));
    entries.set(key, parseEntries(written, findings, parse, check, isReported));
  }
  const order = new Map(files.map((file, index) => [file, index]));
  const orderOf = ({ file }: CatalogFinding): number => order.get(file) ?? 0;
  findings.sort((a, b) => orderOf(a) - orderOf(b) || a.line - b.line);
  return {
    definitions,
    plans: read,
    // The cast is safe, because this kind has parsed the entries.
    entriesOf: (kind) => (entries.get(kind.key) ?? []) as ReturnType<typeof kind.parse>[],
    findings,
  };
}

/**
 * Loads catalog files, and fails if any entry is invalid.
 * @throws BridgeError ERR_CATALOG with all errors
 */
export async function requireCatalog(
  places: readonly string[],
  known: readonly CommandDefinition[],
  kinds: readonly CatalogKindSource[],
): Promise<Omit<LoadedCatalog, 'findings'>> {
  const { findings, ...loaded } = await loadCatalog(places, known, kinds);
  if (findings.length === 0) return loaded;
  const lines = findings.map((it) => `${placeOf(it)}: ${it.problem}`);
  throw new BridgeError('ERR_CATALOG', lines.join('\n'));
}

function entriesOf(file: CatalogFile, above: ValuePath, map: unknown): CatalogEntry[] {
  if (!isPlainMap(map))
    throw new BridgeError('ERR_CATALOG', 'must be a map from names to definitions');
  return Object.entries(map).map(([name, value]) => ({ file, above, name, value }));
}

/**
 * Parses and validates entries, and collects errors.
 * @param isReported - returns whether an earlier error already explains this mistake in an entry.
 * The mistake is then not reported. Default: all mistakes are reported
 */
function parseEntries<D extends { readonly name: string }>(
  written: readonly CatalogEntry[],
  findings: CatalogFinding[],
  read: (name: string, value: unknown) => D,
  check: (definition: D) => unknown,
  isReported: (mistake: DefinitionMistake, value: unknown) => boolean = () => false,
): readonly D[] {
  const definitions = new Map<string, D>();
  for (const { file, above, name, value } of written) {
    const readOne = (given: unknown): D => {
      const one = read(name, given);
      if (definitions.has(name)) throw catalogError(name, '', 'duplicate name');
      check(one);
      return one;
    };
    const { read: definition, mistakes } = readEntry(value, readOne);
    if (definition !== undefined) definitions.set(name, definition);
    for (const mistake of mistakes) {
      if (isReported(mistake, valueAt(value, mistake.path))) continue;
      const line = file.lineOf([...above, name, ...mistake.path]);
      findings.push({ file: file.file, line, problem: describeMistake(name, mistake) });
    }
  }
  return [...definitions.values()];
}

function readEntry<D>(value: unknown, read: (value: unknown) => D): LenientlyRead<D> {
  const first = readLeniently(value, read, mistakesOf);
  const lacks = ({ path, problem }: DefinitionMistake): boolean =>
    path.length === 0 && problem.endsWith('must be set') && problem.includes('description');
  if (!isPlainMap(value) || !first.mistakes.some(lacks)) return first;
  // Supply a missing description, so that validation continues and finds other errors in the entry.
  const { mistakes } = readLeniently({ description: 'none', ...value }, read, mistakesOf);
  const isNew = ({ path, problem }: DefinitionMistake): boolean =>
    !problem.endsWith('must be set') &&
    !first.mistakes.some((it) => it.problem === problem && isDeepStrictEqual(it.path, path));
  return { mistakes: [...first.mistakes, ...mistakes.filter(isNew)] };
}

function mistakesOf(error: unknown): readonly DefinitionMistake[] {
  if (error instanceof CatalogError) return error.mistakes;
  return [{ path: [], problem: messageOf(error) }];
}

function isIn(
  definitions: readonly CommandDefinition[],
  { name }: Pick<CommandDefinition, 'name'>,
): boolean {
  return definitions.some((it) => it.name === name);
}

async function listCatalogFiles(place: string): Promise<string[]> {
  try {
    return await listYamlFiles(place);
  } catch (cause) {
    throw new BridgeError('ERR_CATALOG', `cannot read the catalog ${place}`, { cause });
  }
}

async function readCatalogFile(file: string): Promise<CatalogFile> {
  const bytes = await readFile(file);
  if (bytes.length > maxFileBytes)
    throw new BridgeError('ERR_CATALOG', 'the catalog file is too large');
  const text = bytes.toString('utf8');
  const value: unknown = parseYaml(text, { keepsFloats: true }) ?? {};
  if (!isPlainMap(value)) {
    throw new BridgeError('ERR_CATALOG', 'must be a map from names to commands');
  }
  return { file, map: value, lineOf: yamlLines(text) };
}

/**
 * Returns the message of an error. It may contain text of a catalog file, because the operator
 * wrote the file.
 */
function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : 'the definition cannot be read';
}
