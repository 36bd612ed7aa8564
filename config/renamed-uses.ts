/** Former names in the files of a configuration: all of them, for reports. */

import { readFile } from 'node:fs/promises';
import path from 'node:path';
import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Pair,
  parseDocument,
} from 'yaml';
import { schemaKeywords } from '#acl';
import { listYamlFiles, newNameOf, type RenameScope } from '#runtime';
import { isSettings, type Settings, textsOf } from './option-kinds.ts';

/** A former name that a file uses. */
export interface RenamedUse {
  readonly file: string;
  /** 1 is the first. */
  readonly line: number;
  /** Where it is: names of keys from the top of the file, with `:` between them. */
  readonly key: string;
  readonly newName: string;
}

/** Keys from the top of a file, `*` for any; what stands there has names of the scope. */
type Place = readonly [keys: readonly string[], scope: RenameScope];

const configPlaces: readonly Place[] = [
  [['saltbridge', 'bridge', 'handles'], 'bridge:handles'],
  [['saltbridge', 'reactions', '*'], 'reaction'],
];
const catalogPlaces: readonly Place[] = [
  [['*', 'concurrency'], 'concurrency'],
  [['*', 'parameters'], 'schema'],
  [['*', 'returns'], 'schema'],
  [['*', 'success'], 'schema'],
  [['plans', '*', 'parameters'], 'schema'],
  [['plans', '*', 'steps', '*'], 'step'],
];

/** More than this is not looked at: aliases of YAML can multiply without end. */
const maxNodes = 200_000;

/**
 * Finds former names in configuration files and in the catalog that they name. Files that cannot be
 * read, or are not YAML, have none.
 * @param directory of the configuration; places of the catalog are relative to it
 */
export async function findRenamedUses(
  directory: string,
  { files, settings }: { readonly files: readonly string[]; readonly settings: Settings },
): Promise<RenamedUse[]> {
  const uses: RenamedUse[] = [];
  for (const file of new Set(files)) uses.push(...(await findInFile(file, configPlaces)));
  const catalog = new Set<string>();
  for (const place of catalogOf(settings)) {
    const listed = await listYamlFiles(path.resolve(directory, place)).catch(() => []);
    for (const file of listed) catalog.add(file);
  }
  for (const file of catalog) uses.push(...(await findInFile(file, catalogPlaces)));
  return uses;
}

function catalogOf(settings: Settings): readonly string[] {
  const own = settings.get('saltbridge')?.value;
  const bridge = isSettings(own) ? own.get('bridge')?.value : undefined;
  return isSettings(bridge) ? textsOf(bridge.get('catalog')?.value) : [];
}

async function findInFile(file: string, places: readonly Place[]): Promise<RenamedUse[]> {
  const text = await readFile(file, 'utf8').catch(() => '');
  const lines = new LineCounter();
  const document = parseDocument(text, { version: '1.1', lineCounter: lines });
  if (document.errors.length > 0) return [];
  // By their place in the text: what has an anchor is met again at each alias.
  const uses = new Map<number, RenamedUse>();
  const walk = new DocumentWalk(document, (scope, name, keys, offset) => {
    const newName = newNameOf(scope, name);
    if (newName === undefined || uses.has(offset)) return;
    const { line } = lines.linePos(offset);
    uses.set(offset, { file, line, key: [...keys, name].join(':'), newName });
  });
  for (const [keys, scope] of places) walk.visit(document.contents, keys, scope);
  return [...uses.values()];
}

type OnName = (scope: RenameScope, name: string, keys: readonly string[], offset: number) => void;

class DocumentWalk {
  readonly #document: Document;
  readonly #onName: OnName;
  #nodes = 0;

  constructor(document: Document, onName: OnName) {
    this.#document = document;
    this.#onName = onName;
  }

  /** Goes down the keys, and reports the names in what is there. */
  visit(node: unknown, keys: readonly string[], scope: RenameScope, above: string[] = []): void {
    const [key, ...rest] = keys;
    for (const { name, value, offset } of this.#entries(node)) {
      if (key === undefined) this.#report(scope, name, above, offset, value);
      else if (key === '*' || key === name) this.visit(value, rest, scope, [...above, name]);
    }
  }

  /** Reports a name; in a schema those below it as well. */
  #report(scope: RenameScope, name: string, above: string[], offset: number, value: unknown): void {
    this.#onName(scope, name, above, offset);
    if (scope !== 'schema') return;
    const here = [...above, name];
    if (schemaKeywords.one.has(name) || schemaKeywords.list.has(name)) {
      for (const schema of this.#items(value)) this.visit(schema, [], scope, here);
    } else if (schemaKeywords.map.has(name)) {
      this.visit(value, ['*'], scope, here);
    }
  }

  #items(node: unknown): readonly unknown[] {
    const resolved = this.#resolve(node);
    return isSeq(resolved) ? resolved.items : [resolved];
  }

  /** The entries of a map, with those that it merges by `<<`. */
  *#entries(node: unknown): Generator<{ name: string; value: unknown; offset: number }> {
    const map = this.#resolve(node);
    if (!isMap(map) || ++this.#nodes > maxNodes) return;
    for (const { key, value } of map.items as readonly Pair[]) {
      const name = isScalar(key) ? String(key.value) : '';
      if (isScalar(key) && (name === '<<' || typeof key.value === 'symbol')) {
        for (const merged of this.#items(value)) yield* this.#entries(merged);
      } else {
        yield { name, value, offset: (isScalar(key) && key.range?.[0]) || 0 };
      }
    }
  }

  #resolve(node: unknown): unknown {
    return isAlias(node) ? node.resolve(this.#document) : node;
  }
}
