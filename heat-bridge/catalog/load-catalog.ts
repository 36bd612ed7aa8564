/**
 * The files of a catalog: YAML, a map of names to commands in each, plans below `plans`, and code of
 * software deployments below `deployments`.
 */

import { readFile } from 'node:fs/promises';
import { parseYaml } from '../../master/index.ts';
import { listYamlFiles } from '../../runtime/index.ts';
import { Catalog } from '../commands/command-catalog.ts';
import {
  type CommandDefinition,
  catalogError,
  isPlainMap,
  parseCommandEntry,
} from '../commands/command-definition.ts';
import { CodeCatalog, type CodeDefinition, parseCodeEntry } from '../deployments/code-catalog.ts';
import { BridgeError } from '../errors.ts';
import { compilePlan } from '../plans/plan-catalog.ts';
import { type PlanDefinition, parsePlanEntry } from '../plans/plan-definition.ts';

const maxFileBytes = 1_048_576;

/** What is wrong with a file. */
export interface CatalogFinding {
  readonly file: string;
  readonly problem: string;
}

/** The commands and plans of files, and what is wrong with the rest. */
export interface LoadedCatalog {
  readonly definitions: readonly CommandDefinition[];
  readonly plans: readonly PlanDefinition[];
  /** Code that software deployments may run. */
  readonly code: readonly CodeDefinition[];
  readonly findings: readonly CatalogFinding[];
}

/** No command is called so. */
const plansKey = 'plans';
const codeKey = 'deployments';

/** What stands behind a name, and where. */
interface CatalogEntry {
  readonly file: string;
  readonly name: string;
  readonly value: unknown;
}

/**
 * Reads `*.yaml` and `*.yml` files, and those of directories, by name.
 * @param known - commands of the program, of which plans may have steps as well
 * @throws BridgeError ERR_CATALOG where one of the places cannot be read
 */
export async function loadCatalog(
  places: readonly string[],
  known: readonly CommandDefinition[] = [],
): Promise<LoadedCatalog> {
  const findings: CatalogFinding[] = [];
  const commands: CatalogEntry[] = [];
  const plans: CatalogEntry[] = [];
  const code: CatalogEntry[] = [];
  const files = (await Promise.all(places.map(listCatalogFiles))).flat();
  for (const file of files) {
    try {
      const { [plansKey]: planned = {}, [codeKey]: coded = {}, ...rest } = await readYamlMap(file);
      commands.push(...entriesOf(file, rest));
      plans.push(...entriesOf(file, planned));
      code.push(...entriesOf(file, coded));
    } catch (error) {
      findings.push({ file, problem: messageOf(error) });
    }
  }
  // By itself: one that cannot be used is named, and the others are looked at.
  const definitions = parseEntries(
    commands,
    findings,
    parseCommandEntry,
    (one) => new Catalog([one]),
  );
  const catalog = new Catalog([...definitions, ...known.filter((it) => !isIn(definitions, it))]);
  const read = parseEntries(plans, findings, parsePlanEntry, (one) => compilePlan(one, catalog));
  const permitted = parseEntries(code, findings, parseCodeEntry, (one) => new CodeCatalog([one]));
  findings.sort((a, b) => files.indexOf(a.file) - files.indexOf(b.file));
  return { definitions, plans: read, code: permitted, findings };
}

/** The same, of which all must be well. @throws BridgeError ERR_CATALOG with all problems */
export async function requireCatalog(
  places: readonly string[],
  known: readonly CommandDefinition[],
): Promise<Omit<LoadedCatalog, 'findings'>> {
  const { findings, ...loaded } = await loadCatalog(places, known);
  if (findings.length === 0) return loaded;
  const lines = findings.map(({ file, problem }) => `${file}: ${problem}`);
  throw new BridgeError('ERR_CATALOG', lines.join('\n'));
}

function entriesOf(file: string, map: unknown): CatalogEntry[] {
  if (!isPlainMap(map)) throw new BridgeError('ERR_CATALOG', 'expected a map of names');
  return Object.entries(map).map(([name, value]) => ({ file, name, value }));
}

function parseEntries<D extends { readonly name: string }>(
  written: readonly CatalogEntry[],
  findings: CatalogFinding[],
  read: (name: string, value: unknown) => D,
  check: (definition: D) => unknown,
): readonly D[] {
  const definitions = new Map<string, D>();
  for (const { file, name, value } of written) {
    try {
      const definition = read(name, value);
      if (definitions.has(name)) throw catalogError(name, '', 'it is defined twice');
      check(definition);
      definitions.set(name, definition);
    } catch (error) {
      findings.push({ file, problem: messageOf(error) });
    }
  }
  return [...definitions.values()];
}

function isIn(definitions: readonly CommandDefinition[], { name }: CommandDefinition): boolean {
  return definitions.some((it) => it.name === name);
}

async function listCatalogFiles(place: string): Promise<string[]> {
  try {
    return await listYamlFiles(place);
  } catch (cause) {
    throw new BridgeError('ERR_CATALOG', `${place}: cannot be read`, { cause });
  }
}

async function readYamlMap(file: string): Promise<Readonly<Record<string, unknown>>> {
  const bytes = await readFile(file);
  if (bytes.length > maxFileBytes) throw new BridgeError('ERR_CATALOG', 'the file is too large');
  const value: unknown = parseYaml(bytes.toString('utf8'));
  if (value === null) return {};
  if (isPlainMap(value)) return value;
  throw new BridgeError('ERR_CATALOG', 'expected a map of names to commands');
}

/** Of a file of the operator's own: nothing in it is anybody else's. */
function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : 'it cannot be read';
}
