/** The files of a catalog: YAML, a map of names to commands in each. */
import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { parseYaml } from '../../master/index.ts';
import { BridgeError } from '../errors.ts';
import { Catalog } from './catalog.ts';
import { type CommandDefinition, isMap, readDefinition } from './definition.ts';

const maxFileBytes = 1_048_576;

/** What is wrong with a file. */
export interface CatalogFinding {
  readonly file: string;
  readonly problem: string;
}

/** The commands of files, and what is wrong with the rest. */
export interface LoadedCatalog {
  readonly definitions: readonly CommandDefinition[];
  readonly findings: readonly CatalogFinding[];
}

/**
 * Reads `*.yaml` and `*.yml` files, and those of directories, by name.
 * @throws BridgeError ERR_CATALOG where one of the places cannot be read
 */
export async function loadCatalog(places: readonly string[]): Promise<LoadedCatalog> {
  const definitions = new Map<string, CommandDefinition>();
  const findings: CatalogFinding[] = [];
  for (const file of (await Promise.all(places.map(filesOf))).flat()) {
    try {
      for (const [name, value] of await readCommands(file)) {
        findings.push(...tryAdd(definitions, file, name, value));
      }
    } catch (error) {
      findings.push({ file, problem: messageOf(error) });
    }
  }
  return { definitions: [...definitions.values()], findings };
}

/** The same, of which all must be well. @throws BridgeError ERR_CATALOG with the first problem */
export async function requireCatalog(
  places: readonly string[],
): Promise<readonly CommandDefinition[]> {
  const { definitions, findings } = await loadCatalog(places);
  const [first] = findings;
  if (first === undefined) return definitions;
  throw new BridgeError('ERR_CATALOG', `${first.file}: ${first.problem}`);
}

function tryAdd(
  definitions: Map<string, CommandDefinition>,
  file: string,
  name: string,
  value: unknown,
): CatalogFinding[] {
  try {
    const definition = readDefinition(name, value);
    if (definitions.has(name)) return [{ file, problem: `${name}: it is defined twice` }];
    // By itself: one that cannot be used is named, and the others are looked at.
    new Catalog([definition]);
    definitions.set(name, definition);
    return [];
  } catch (error) {
    return [{ file, problem: messageOf(error) }];
  }
}

async function filesOf(place: string): Promise<string[]> {
  try {
    if (!(await stat(place)).isDirectory()) return [place];
    const names = await readdir(place);
    const files = names.filter((name) => /^[^.].*\.ya?ml$/.test(name)).sort();
    return files.map((name) => path.join(place, name));
  } catch (cause) {
    throw new BridgeError('ERR_CATALOG', `${place}: cannot be read`, { cause });
  }
}

async function readCommands(file: string): Promise<[string, unknown][]> {
  const bytes = await readFile(file);
  if (bytes.length > maxFileBytes) throw new BridgeError('ERR_CATALOG', 'the file is too large');
  const value: unknown = parseYaml(bytes.toString('utf8'));
  if (value === null) return [];
  if (isMap(value)) return Object.entries(value);
  throw new BridgeError('ERR_CATALOG', 'expected a map of names to commands');
}

/** Of a file of the operator's own: nothing in it is anybody else's. */
function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : 'it cannot be read';
}
